// SPDX-License-Identifier: BSD-3-Clause
// `troupe bench`: every figure beside its baseline.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <vector>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>

#include "actors/system.hpp"
#include "apps/bench/caf.hpp"
#include "apps/bench/codecs.hpp"
#include "apps/bench/collectives.hpp"
#include "apps/bench/inspect.hpp"
#include "apps/bench/kernels.hpp"
#include "apps/bench/lanes.hpp"
#include "apps/bench/step.hpp"
#include "apps/bench/training.hpp"
#include "apps/certs/authority.hpp"
#include "apps/commands.hpp"
#include "apps/median.hpp"
#include "apps/report.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

std::vector<kernels::kernel_row> measure_kernels(const bench_options& options) {
  std::vector<kernels::kernel_row> rows;
  kernels::bench_options how;
  if (options.tiny)
    how = {.elements = 1 << 14, .sizes = {64}, .rounds = 5, .round_seconds = 0};
  const auto queue = kernels::open_backend({.device = options.backend, .threads = 1});
  if (!queue->on_host())
    rows = kernels::bench_products(options.backend, how);
  for (kernels::kernel_row& row : kernels::bench_kernels(*queue, how))
    rows.push_back(std::move(row));
  return rows;
}

int bench_kernels(const bench_options& options) {
  std::vector<std::vector<std::string>> rows{{"operation", "shape", "arithmetic", "GFLOP/s", "GB/s", "of its reference"}};
  boost::json::array ops;
  for (const kernels::kernel_row& row : measure_kernels(options)) {
    rows.push_back({row.op, row.shape, row.arithmetic, row.gflops > 0 ? fmt::format("{:.1f}", row.gflops) : "",
                    fmt::format("{:.1f}", row.gbps), row.reference_ratio > 0 ? fmt::format("{:.2f}", row.reference_ratio) : ""});
    ops.push_back({{"op", row.op},
                   {"shape", row.shape},
                   {"arithmetic", row.arithmetic},
                   {"gflops", row.gflops},
                   {"gbps", row.gbps},
                   {"reference_ratio", row.reference_ratio}});
  }
  if (options.json)
    print_json({{"ops", std::move(ops)}});
  else
    fmt::print("{}\nThe reference of gemm and conv2d is the bare library (BLAS with one thread; cuBLASLt), of the rest the "
               "backend's own "
               "copy.\n",
               table(rows));
  return exit_done;
}

int bench_codecs(const bench_options& options) {
  kernels::codec_bench_options how;
  if (options.tiny)
    how = {.sizes = {1U << 16U}, .round_seconds = 0};
  std::vector<std::vector<std::string>> rows{
      {"codec", "bytes", "times smaller", "encode GB/s", "with feedback", "decode and add", "memory copy"}};
  boost::json::array all;
  for (const kernels::codec_row& row : kernels::bench_codecs(how)) {
    rows.push_back({std::string{name_of(row.as)}, fmt::format("{}", row.bytes), fmt::format("{:.2f}", row.bytes_ratio),
                    fmt::format("{:.2f}", row.encode_gbps), row.feedback_gbps > 0 ? fmt::format("{:.2f}", row.feedback_gbps) : "",
                    fmt::format("{:.2f}", row.add_gbps), fmt::format("{:.2f}", row.copy_gbps)});
    all.push_back({{"codec", name_of(row.as)},
                   {"bytes", row.bytes},
                   {"bytes_ratio", row.bytes_ratio},
                   {"encode_gbps", row.encode_gbps},
                   {"feedback_gbps", value_or_null(row.feedback_gbps > 0, row.feedback_gbps)},
                   {"add_gbps", row.add_gbps},
                   {"copy_gbps", row.copy_gbps}});
  }
  if (options.json)
    print_json({{"codecs", std::move(all)}});
  else
    fmt::print("{}\nBytes of float32, and GB/s of them; one thread, {} rounds in turns, medians.\n", table(rows), how.rounds);
  return exit_done;
}

/// One model in training: by the plan alone and through the actors.
struct step_row {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t predictions = 1;  ///< of a sample: a text's row has one for each of its ids
  double gflops = 0;             ///< of `prepared`, in 10^9 a second
  double prepared = 0;           ///< samples/s; the median of all rounds
  double direct = 0, actors = 0; ///< of one round, that with the median `ratio`
  double ratio = 0;
};

kernels::backend_options device_of(const bench_options& options) {
  kernels::backend_options device{.device = options.backend, .threads = 1};
  if (options.precision == "tf32")
    device.products = kernels::precision::tf32;
  else if (options.precision == "bf16")
    device.products = kernels::precision::bf16;
  return device;
}

/// All sides take turns, so that other load on the machine hits each.
result<step_row> measure_step(const bench_options& options, const std::string& model, std::int64_t batch,
                              caf::actor_system& system) {
  constexpr int rounds = 5;
  const auto device = device_of(options);
  const auto queue = kernels::open_backend(device), beside = kernels::open_backend(device);
  const auto direct = direct_step_bench::open(*queue, {.model = model, .batch = batch});
  if (!direct)
    return direct.error();
  const auto prepared = direct_step_bench::open(*beside, {.model = model, .batch = batch, .prepared = true});
  if (!prepared)
    return prepared.error();
  step_row row{.model = model, .batch = (*direct)->batch(), .predictions = find_bench_model(model)->data.predictions()};
  const auto through_actors = actors::step_bench::open(system, device, model, row.batch);
  if (!through_actors)
    return through_actors.error();
  const double seconds = options.tiny ? 0.05 : 1;
  (*through_actors)->measure(seconds);
  struct pair {
    double direct = 0, actors = 0;
    double ratio() const { return actors / direct; }
  };
  std::vector<double> of_prepared;
  std::vector<pair> pairs;
  for (int round = 0; round < rounds; ++round) {
    of_prepared.push_back((*prepared)->measure(seconds));
    const double of_direct = (*direct)->measure(seconds);
    pairs.push_back({of_direct, (*through_actors)->measure(seconds)});
  }
  row.prepared = median(of_prepared);
  row.gflops = row.prepared * (*direct)->flops_per_sample() * 1e-9;
  std::ranges::sort(pairs, {}, &pair::ratio);
  const pair& middle = pairs[pairs.size() / 2];
  row.direct = middle.direct;
  row.actors = middle.actors;
  row.ratio = middle.ratio();
  return row;
}

boost::json::object row_json(const step_row& row, const bench_options& options) {
  return {{"model", row.model},
          {"batch", row.batch},
          {"predictions_per_sample", row.predictions},
          {"precision", options.precision},
          {"gflops", row.gflops},
          {"prepared_samples_per_s", row.prepared},
          {"direct_samples_per_s", row.direct},
          {"actors_samples_per_s", row.actors},
          {"ratio", row.ratio}};
}

actors::inspect_figures measure_inspection(const bench_options& options) {
  if (options.tiny)
    return actors::bench_inspection({.nodes = 2, .actors_per_node = 1500, .turns = 5, .seconds = 0.1});
  return actors::bench_inspection({});
}

boost::json::object look_json(const actors::inspect_figures& looked, boost::json::array models) {
  return {{"spawn_per_s", looked.spawn_per_s},   {"snapshot_ms", looked.snapshot_ms},     {"actors", looked.actors},
          {"inspect_overhead", looked.overhead}, {"job_steps_per_s", looked.steps_per_s}, {"models", std::move(models)}};
}

std::string text_of_look(const actors::inspect_figures& looked) {
  return fmt::format(
      "{}\nActors that only exist, on 4 nodes that are processes of this machine, and all of them on a console; a job of a "
      "worker on each,\n"
      "with a snapshot every second and without, in turns. Medians.\n\n",
      table({{"spawned a second", "actors", "snapshot ms", "steps a second", "lost to inspection"},
             {fmt::format("{:.0f}", looked.spawn_per_s), std::to_string(looked.actors), fmt::format("{:.0f}", looked.snapshot_ms),
              fmt::format("{:.1f}", looked.steps_per_s), fmt::format("{:.2f} %", 100 * looked.overhead)}}));
}

/// `step`: one model. `actors`: those that a release is judged by; the widest only on a GPU.
int bench_steps(const bench_options& options) {
  std::vector<std::pair<std::string, std::int64_t>> models{{options.model.empty() ? "mlp" : options.model, options.batch}};
  if (options.benchmark == "actors" && options.model.empty()) {
    models = {{"mlp", 128}, {"mlp", 4096}, {"mnist-cnn", 256}};
    if (options.backend != "cpu")
      models.emplace_back("wide", 4096);
    if (options.tiny)
      models = {{"mlp", 8}, {"mnist-cnn", 8}};
  }
  actors::init_message_types();
  std::optional<actors::inspect_figures> looked; // it forks: before any thread
  if (options.benchmark == "actors")
    looked = measure_inspection(options);
  actors::system_config config{{}};
  caf::actor_system system{config};
  std::vector<std::vector<std::string>> rows{
      {"model", "batch", "GFLOP/s", "prepared", "direct", "through actors", "actors of direct"}};
  boost::json::array all;
  for (const auto& [model, batch] : models) {
    const auto row = measure_step(options, model, batch, system);
    if (!row)
      return refuse({{{"troupe bench " + options.benchmark, row.error().message}}});
    all.push_back(row_json(*row, options));
    rows.push_back({row->model, fmt::format("{}", row->batch), fmt::format("{:.1f}", row->gflops),
                    fmt::format("{:.0f}", row->prepared), fmt::format("{:.0f}", row->direct), fmt::format("{:.0f}", row->actors),
                    fmt::format("{:.3f}", row->ratio)});
  }
  if (options.json)
    print_json(looked ? look_json(*looked, std::move(all)) : all.front().as_object());
  else
    fmt::print("{}", looked ? text_of_look(*looked) : "");
  if (!options.json)
    fmt::print("{}\nSamples/s; {}, {}, 5 rounds in turns. Prepared: minibatches gathered beforehand, the median; direct: "
               "gathered in the "
               "same loop;\nthrough actors: by the loader's, with the shard's step and messages between. These two are of one "
               "round, that "
               "with the median ratio.\n",
               table(rows), options.backend, options.backend == "cpu" ? "one thread" : options.precision);
  return exit_done;
}

int bench_collectives(const bench_options& options) {
  actors::net::collective_bench_options how;
  if (options.procs != 0)
    how.procs = options.procs;
  how.shared_memory = !options.sockets;
  if (const auto named = protocols::collective::algorithm_named(options.algorithm))
    how.algorithms = {*named};
  if (options.tiny)
    how.sizes = {4U << 10U, 64U << 10U}, how.bytes_per_trial = 0;
  std::vector<std::vector<std::string>> rows{
      {"bytes", "algorithm", "us", "bus GB/s", "bare us", "bare bus GB/s", "time of bare"}};
  boost::json::array all;
  for (const auto& row : actors::net::bench_collectives(how)) {
    const std::string_view name = protocols::collective::name_of(row.which);
    rows.push_back({fmt::format("{}", row.bytes), std::string{name}, fmt::format("{:.0f}", row.us),
                    fmt::format("{:.3f}", row.bus_gbps()), fmt::format("{:.0f}", row.bare_us),
                    fmt::format("{:.3f}", row.bare_gbps()), fmt::format("{:.2f}", row.us / row.bare_us)});
    all.push_back({{"algorithm", name},
                   {"bytes", row.bytes},
                   {"us", row.us},
                   {"bus_gbps", row.bus_gbps()},
                   {"bare_us", row.bare_us},
                   {"bare_bus_gbps", row.bare_gbps()}});
  }
  if (options.json)
    print_json({{"procs", how.procs}, {"rows", std::move(all)}});
  else
    fmt::print("{}\nSums of float32 among {} processes over lanes of one host, each looked at; until the slowest process has it. "
               "Bare: sockets\nthat move what the cheapest algorithm does, 2 (P - 1) / P of the bytes from each process, and sum "
               "nothing. Bus: these bytes\na second. In turns, medians.\n",
               table(rows), how.procs);
  return exit_done;
}

/// A lane, a bare socket and CAF's own messages side by side: the header names the figure of each column.
void print_lanes(const std::vector<actors::net::lane_row>& lanes, const std::vector<caf_row>& caf) {
  std::vector<std::vector<std::string>> rows{{"bytes", "lane GB/s", "bare GB/s", "ratio", "TLS GB/s", "open GB/s", "shm GB/s",
                                              "shm / bare", "CAF GB/s", "lane us", "bare us", "ratio", "TLS us", "shm us",
                                              "CAF us", "urgent ms", "open ms"}};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const actors::net::lane_row& lane = lanes[i];
    rows.push_back({fmt::format("{}", lane.bytes), fmt::format("{:.3f}", lane.lane_gbps), fmt::format("{:.3f}", lane.bare_gbps),
                    fmt::format("{:.2f}", lane.lane_gbps / lane.bare_gbps), fmt::format("{:.3f}", lane.tls_gbps),
                    fmt::format("{:.3f}", lane.open_gbps), fmt::format("{:.3f}", lane.shm_gbps),
                    fmt::format("{:.2f}", lane.shm_gbps / lane.bare_gbps), fmt::format("{:.3f}", caf[i].gbps),
                    fmt::format("{:.1f}", lane.lane_rtt_us), fmt::format("{:.1f}", lane.bare_rtt_us),
                    fmt::format("{:.2f}", lane.lane_rtt_us / lane.bare_rtt_us), fmt::format("{:.1f}", lane.tls_rtt_us),
                    fmt::format("{:.1f}", lane.shm_rtt_us), fmt::format("{:.1f}", caf[i].rtt_us),
                    fmt::format("{:.2f}", lane.urgent_ms), fmt::format("{:.2f}", lane.open_urgent_ms)});
  }
  fmt::print(
      "{}\nOne way with many in flight, added up where they come (but for CAF's), then there and back one at a time; a large "
      "message goes over\na lane as partitions of 4 MiB, over CAF as one string. TLS: a lane with certificates. Open: one "
      "without "
      "a window. Shm: one whose peer\nreads payloads where they lie, as processes of one user on one host do. Urgent: a small "
      "message there and back while such a\nmessage is sent.\n",
      table(rows));
}

/// A node's files by an authority that lasts as long as this object.
class passing_authority {
public:
  passing_authority() {
    auto pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no temporary folder " + pattern);
    folder_ = pattern;
  }
  passing_authority(const passing_authority&) = delete;
  passing_authority& operator=(const passing_authority&) = delete;
  ~passing_authority() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  actors::net::security issue() const {
    const std::time_t now = std::time(nullptr);
    make_authority({folder_, "bench", 1}, now).value();
    const issued node = issue_certificate({folder_, "bench", {}, "", 1}, now).value();
    return {node.ca, node.certificate, node.key};
  }

private:
  std::string folder_;
};

int bench_lanes(const bench_options& options) {
  const passing_authority authority;
  actors::net::lane_bench_options measured;
  measured.files = authority.issue();
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
                     {"tls_gbps", lanes[i].tls_gbps},
                     {"caf_gbps", caf[i].gbps},
                     {"lane_rtt_us", lanes[i].lane_rtt_us},
                     {"bare_rtt_us", lanes[i].bare_rtt_us},
                     {"tls_rtt_us", lanes[i].tls_rtt_us},
                     {"caf_rtt_us", caf[i].rtt_us},
                     {"open_gbps", lanes[i].open_gbps},
                     {"shm_gbps", lanes[i].shm_gbps},
                     {"shm_rtt_us", lanes[i].shm_rtt_us},
                     {"urgent_ms", lanes[i].urgent_ms},
                     {"open_urgent_ms", lanes[i].open_urgent_ms}});
  print_json({{"sizes", std::move(sizes)}});
  return exit_done;
}

} // namespace

std::string idle_flag(const bench_options& options) {
  const bool steps = options.benchmark == "step" || options.benchmark == "actors";
  const bool computes = steps || options.benchmark == "kernels" || options.benchmark.empty();
  for (const auto& [flag, given] : {std::pair{"--model", !options.model.empty()},
                                    {"--batch", options.batch != 0},
                                    {"--precision", options.precision != "fp32"}})
    if (given && !steps)
      return fmt::format("{} is for `bench step` and `bench actors`; leave it out", flag);
  for (const auto& [flag, given] :
       {std::pair{"--procs", options.procs != 0}, {"--algorithm", !options.algorithm.empty()}, {"--sockets", options.sockets}})
    if (given && options.benchmark != "collectives")
      return fmt::format("{} is for `bench collectives`; leave it out", flag);
  if (options.backend != "cpu" && !computes)
    return fmt::format("--backend is not for `bench {}`, which is of hosts; leave it out", options.benchmark);
  return {};
}

int execute(const bench_options& options) try {
  if (options.benchmark == "kernels")
    return bench_kernels(options);
  if (options.benchmark == "codecs")
    return bench_codecs(options);
  if (options.benchmark == "collectives")
    return bench_collectives(options);
  if (options.benchmark == "lanes")
    return bench_lanes(options);
  return bench_steps(options);
} catch (const kernels::device_error& e) {
  return refuse({{{"--backend " + options.backend, e.what()}}});
}

} // namespace troupe::apps
