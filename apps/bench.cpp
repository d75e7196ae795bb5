// SPDX-License-Identifier: BSD-3-Clause
// `troupe bench`: every figure beside what it is measured against.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/report.hpp"
#include "kernels/backend.hpp"
#include "kernels/bench.hpp"
#include "tensor/bench.hpp"

namespace troupe::apps {

namespace {

int bench_kernels(const bench_options& options) {
  const auto queue = kernels::open_backend({.device = options.backend, .threads = 1});
  std::vector<std::vector<std::string>> rows{{"operation", "shape", "GFLOP/s", "GB/s", "of its reference"}};
  boost::json::array ops;
  for (const kernels::kernel_row& row : kernels::bench_kernels(*queue)) {
    rows.push_back({row.op, row.shape, row.gflops > 0 ? fmt::format("{:.1f}", row.gflops) : "", fmt::format("{:.1f}", row.gbps),
                    fmt::format("{:.2f}", row.reference_ratio)});
    ops.push_back({{"op", row.op},
                   {"shape", row.shape},
                   {"gflops", row.gflops},
                   {"gbps", row.gbps},
                   {"reference_ratio", row.reference_ratio}});
  }
  if (options.json)
    print_json({{"ops", std::move(ops)}});
  else
    fmt::print("{}\nThe reference of gemm and conv2d is bare BLAS, of the rest the backend's own copy; one thread.\n",
               table(rows));
  return exit_done;
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

int bench_step(const bench_options& options) {
  constexpr int rounds = 5;
  const auto queue = kernels::open_backend({.device = options.backend, .threads = 1});
  const step_bench_options once{.model = options.model, .batch = options.batch, .rounds = 1};
  std::vector<double> direct;
  std::int64_t batch = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto bare = bench_direct_step(*queue, once);
    if (!bare)
      return refuse({{{"troupe bench step", bare.error().what}}});
    direct.push_back(bare->samples_per_s);
    batch = bare->batch;
  }
  const double direct_rate = median(direct);
  if (options.json)
    print_json({{"model", options.model},
                {"batch", batch},
                {"direct_samples_per_s", direct_rate},
                {"actors_samples_per_s", nullptr},
                {"ratio", nullptr}});
  else
    fmt::print("{} with batch {}, one thread: {:.0f} samples/s called directly\n", options.model, batch, direct_rate);
  return exit_done;
}

} // namespace

int bench_command(const bench_options& options) {
  if (options.what == "kernels")
    return bench_kernels(options);
  if (options.what == "step")
    return bench_step(options);
  fmt::print(stderr, "troupe: `bench {}` is not there yet, it comes later\n", options.what);
  return exit_usage;
}

} // namespace troupe::apps
