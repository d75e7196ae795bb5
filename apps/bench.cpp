// SPDX-License-Identifier: BSD-3-Clause
// `troupe bench`: every figure beside what it is measured against.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>

#include "actors/bench_step.hpp"
#include "actors/net/bench_lanes.hpp"
#include "actors/system.hpp"
#include "apps/caf_bench.hpp"
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
  const step_bench_options once{.model = options.model, .batch = options.batch, .rounds = 1};
  const auto queue = kernels::open_backend({.device = options.backend, .threads = 1});
  const auto first = bench_direct_step(*queue, once); // warms up, and says which batch is the model's usual one
  if (!first)
    return refuse({{{"troupe bench step", first.error().what}}});
  actors::init_message_types();
  actors::system_config config{{}};
  caf::actor_system system{config};
  const auto through_actors = actors::step_bench::open(system, options.backend, options.model, first->batch);
  if (!through_actors)
    return refuse({{{"troupe bench step", through_actors.error().what}}});
  (*through_actors)->measure(once.seconds_per_round);
  std::vector<double> direct, actors, ratios;
  for (int round = 0; round < rounds; ++round) {
    direct.push_back(bench_direct_step(*queue, once)->samples_per_s);
    actors.push_back((*through_actors)->measure(once.seconds_per_round));
    ratios.push_back(actors.back() / direct.back());
  }
  if (options.json)
    print_json({{"model", options.model},
                {"batch", first->batch},
                {"direct_samples_per_s", median(direct)},
                {"actors_samples_per_s", median(actors)},
                {"ratio", median(ratios)}});
  else
    fmt::print("{} with batch {}, one thread, {} rounds in turns: {:.0f} samples/s called directly, {:.0f} through the actors, "
               "ratio {:.3f}\n",
               options.model, first->batch, rounds, median(direct), median(actors), median(ratios));
  return exit_done;
}

/// A lane, a bare socket and CAF's own messages side by side: each cell is a figure, the head says of what.
void print_lanes(const std::vector<actors::net::lane_row>& lanes, const std::vector<caf_row>& caf) {
  std::vector<std::vector<std::string>> rows{
      {"bytes", "lane GB/s", "bare GB/s", "ratio", "CAF GB/s", "lane us", "bare us", "ratio", "CAF us"}};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const actors::net::lane_row& lane = lanes[i];
    rows.push_back({fmt::format("{}", lane.bytes), fmt::format("{:.3f}", lane.lane_gbps), fmt::format("{:.3f}", lane.bare_gbps),
                    fmt::format("{:.2f}", lane.lane_gbps / lane.bare_gbps), fmt::format("{:.3f}", caf[i].gbps),
                    fmt::format("{:.1f}", lane.lane_rtt_us), fmt::format("{:.1f}", lane.bare_rtt_us),
                    fmt::format("{:.2f}", lane.lane_rtt_us / lane.bare_rtt_us), fmt::format("{:.1f}", caf[i].rtt_us)});
  }
  fmt::print(
      "{}\nOne way with many in flight, then there and back one at a time; a large message goes over a lane as partitions of "
      "4 MiB,\nover CAF as one string.\n",
      table(rows));
}

int bench_lanes(const bench_options& options) {
  const actors::net::lane_bench_options measured;
  // Both fork their peer, so nothing may have started a thread before, and each has ended its own when it returns.
  const auto lanes = actors::net::bench_lanes(measured);
  const auto caf = bench_caf(measured.sizes, measured.repeats);
  if (!options.json) {
    print_lanes(lanes, caf);
    return exit_done;
  }
  boost::json::array sizes;
  for (std::size_t i = 0; i < lanes.size(); ++i)
    sizes.push_back({{"bytes", lanes[i].bytes},
                     {"lane_gbps", lanes[i].lane_gbps},
                     {"bare_gbps", lanes[i].bare_gbps},
                     {"caf_gbps", caf[i].gbps},
                     {"lane_rtt_us", lanes[i].lane_rtt_us},
                     {"bare_rtt_us", lanes[i].bare_rtt_us},
                     {"caf_rtt_us", caf[i].rtt_us}});
  print_json({{"sizes", std::move(sizes)}});
  return exit_done;
}

} // namespace

int bench_command(const bench_options& options) {
  if (options.what == "kernels")
    return bench_kernels(options);
  if (options.what == "lanes")
    return bench_lanes(options);
  if (options.what == "step")
    return bench_step(options);
  fmt::print(stderr, "troupe: `bench {}` is not there yet, it comes later\n", options.what);
  return exit_usage;
}

} // namespace troupe::apps
