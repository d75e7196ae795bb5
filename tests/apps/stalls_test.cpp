// SPDX-License-Identifier: BSD-3-Clause
// Stalls of a running job, drawn from a seed: `why` names the actor, or the lane, and the cause. Those of whole processes that are
// stopped are in console_test.py.
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/apps/cluster_in_process.hpp"

namespace troupe::tests {
namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto patience = 5s; ///< from the stall to its name

std::uint64_t seed() {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}

/// What is wrong in a cluster, and what `why` shall say of it.
struct stall {
  std::string what = {};
  actors::job job = {};
  std::function<void(cluster_in_process&)> begin = [](cluster_in_process&) {}; ///< while the job runs
  std::vector<std::string> cause = {}; ///< all of it in one cause, the only one
};

actors::job endless() {
  actors::job job;
  job.data.train_samples = 300;
  job.data.test_samples = 50;
  job.data.batch = 16;
  job.model.layers = {"flatten", "linear 128 relu", "linear 10"};
  job.evaluate.every_s = 3600;
  job.stop.epochs = 1e6;
  job.cluster = {.nodes = 4, .workers = 3, .shards = 1};
  return job;
}

/// One of five kinds in turn; the victim is drawn.
stall draw(int kind, std::mt19937_64& random) {
  const auto worker = static_cast<std::uint32_t>(random() % 3);
  const std::string node{"bcd"[worker]};
  stall out{.job = endless()};
  out.job.cluster.shards = 1 + static_cast<std::uint32_t>(random() % 2);
  switch (kind) {
  case 0:
    out.what = fmt::format("worker {} is slept", worker);
    out.job.inject.step_ms = 1;
    out.job.inject.stragglers = {{.worker = protocols::worker_id{worker}, .factor = 600'000}};
    out.cause = {fmt::format("worker {} on node {}: it computes for", worker, node)};
    break;
  case 1:
    out.what = "the shards starve behind a slow link";
    out.job.inject.link.latency_ms = 600'000;
    out.cause = {"shard ", " on node a: it is behind a slow link for"};
    break;
  case 2:
    out.what = fmt::format("the lane from a to {} does not drain", node);
    out.begin = [node](cluster_in_process& at) { at.relays.at(node)->hold(true); };
    out.cause = {fmt::format("the lane from node a to node {}: ", node), "nothing has gone for"};
    break;
  case 3:
    out.what = fmt::format("the lane from {} to a does not drain", node);
    out.begin = [node](cluster_in_process& at) { at.relays.at(node)->hold(false); };
    out.cause = {fmt::format("the lane from node {} to node a: ", node), "nothing has gone for"};
    break;
  default:
    out.what = fmt::format("node {} reads its data slowly", node);
    out.begin = [node](cluster_in_process& at) { at.gates.at(node)->set(false); };
    out.cause = {fmt::format("loader {} on node {}: it loads a batch for", worker, node), "has answered nobody for"};
  }
  return out;
}

bool holds(const boost::json::array& causes, const std::vector<std::string>& parts) {
  return causes.size() == 1 && std::ranges::all_of(parts, [&](const std::string& part) {
           return std::string_view{causes[0].as_string()}.find(part) != std::string_view::npos;
         });
}

/// Asks until the cause is named. Empty: it was; else what was said last.
std::string ask(cluster_in_process& cluster, const std::string& actor, const std::vector<std::string>& cause) {
  std::string said;
  for (const auto began = steady::now(); steady::now() - began < patience;) {
    const auto out = apps::console::why(cluster.look(), actor);
    if (!out.wrong && holds(out.json.at("causes").as_array(), cause))
      return {};
    said = out.text;
  }
  return said;
}

TEST(Stalls, AreNamedWithTheirCause) {
  std::mt19937_64 random{seed()};
  fmt::print("seed {}\n", seed());
  constexpr int stalls = 40;
  int named = 0;
  steady::duration slowest{};
  for (int i = 0; i < stalls; ++i) {
    const auto what = draw(i % 5, random);
    const std::vector<std::string> actors{"coordinator", "shard 0", "worker 0", "worker 1", "worker 2"};
    const auto& from = actors[random() % actors.size()];
    cluster_in_process cluster;
    cluster.run(what.job, i % 5 < 2 ? 0 : 2);
    what.begin(cluster);
    const auto began = steady::now();
    const auto said = ask(cluster, from, what.cause);
    slowest = std::max(slowest, steady::now() - began);
    named += said.empty() ? 1 : 0;
    if (!said.empty())
      fmt::print("stall {}: {}; asked about {}:\n{}\n", i, what.what, from, said);
  }
  fmt::print("{} of {} named, the slowest after {:.1f} s\n", named, stalls, std::chrono::duration<double>(slowest).count());
  EXPECT_GE(named, stalls * 95 / 100) << "seed " << seed();
}

} // namespace
} // namespace troupe::tests

int main(int argc, char** argv) {
  troupe::actors::init_message_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
