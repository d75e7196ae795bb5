// SPDX-License-Identifier: BSD-3-Clause
// Arrows between spans of a trace.
#include "actors/monitoring/trace_flows.hpp"

#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using testing::UnorderedElementsAre;

trace_event push_of(std::uint32_t worker, std::int64_t clock) {
  return {span_kind::push, worker, 1, 2, {0, clock}};
}
trace_event step_of(std::uint32_t worker, std::int64_t version, std::int64_t begin = 5) {
  return {span_kind::compute, worker, begin, begin + 1, {1, version}};
}
trace_event apply_of(std::uint32_t shard, std::int64_t version, std::vector<std::int64_t> pushes) {
  return {span_kind::apply, shard, 3, 4, {version, 2}, {}, std::move(pushes)};
}
trace_event sum_of(std::uint32_t aggregator, std::int64_t version) {
  return {span_kind::sum, aggregator, 2, 3, {version, 2}};
}

std::string name_of(const span_place& at) {
  return fmt::format("{} {}.{}@{}", name_of(at.event->kind), at.event->role,
                     at.event->args[at.event->kind == span_kind::apply || at.event->kind == span_kind::sum ? 0 : 1], at.node);
}
std::vector<std::string> arrows_of(const job& job, const std::vector<node_trace>& nodes) {
  std::vector<std::string> out;
  std::set<std::uint64_t> numbers;
  for (const auto& each : flows_of(job, nodes)) {
    out.push_back(fmt::format("{}: {} -> {}", each.name, name_of(each.from), name_of(each.to)));
    EXPECT_TRUE(numbers.insert(each.number).second) << "every arrow has a number of its own";
  }
  return out;
}

TEST(Flows, ARoundGoesFromEachWorkerToEachShardAndBackAcrossNodes) {
  actors::job job;
  job.cluster = {.nodes = 2, .workers = 2, .shards = 2};
  const std::vector<node_trace> nodes{{"a", {apply_of(0, 1, {0, 1, 1, 1}), apply_of(1, 1, {0, 1, 1, 1}), push_of(0, 1)}},
                                      {"b", {push_of(1, 1), step_of(1, 1)}}};
  EXPECT_THAT(arrows_of(job, nodes),
              UnorderedElementsAre("gradient: push 0.1@0 -> apply 0.1@0", "gradient: push 1.1@1 -> apply 0.1@0",
                                   "gradient: push 0.1@0 -> apply 1.1@0", "gradient: push 1.1@1 -> apply 1.1@0",
                                   "parameters: apply 0.1@0 -> compute 1.1@1", "parameters: apply 1.1@0 -> compute 1.1@1"));
}

TEST(Flows, APushThatNoVersionUsesHasNoArrowAndALateOneGoesToTheVersionThatUsesIt) {
  actors::job job;
  job.cluster = {.nodes = 1, .workers = 2, .shards = 1};
  const std::vector<node_trace> nodes{
      {"a", {push_of(0, 1), push_of(1, 1), push_of(0, 2), apply_of(0, 1, {0, 1}), apply_of(0, 2, {0, 2, 7, 9})}}};
  EXPECT_THAT(arrows_of(job, nodes),
              UnorderedElementsAre("gradient: push 0.1@0 -> apply 0.1@0", "gradient: push 0.2@0 -> apply 0.2@0"));
}

TEST(Flows, OfTheLocalStepsOfARoundTheFirstHasTheParameters) {
  actors::job job;
  job.cluster = {.nodes = 1, .workers = 1, .shards = 1};
  const auto second = step_of(0, 1, 8);
  const std::vector<node_trace> nodes{{"a", {apply_of(0, 1, {}), step_of(0, 1), second}}};
  const auto arrows = flows_of(job, nodes);
  ASSERT_EQ(arrows.size(), 1U);
  EXPECT_EQ(arrows[0].to.event->begin_ns, 5);
}

TEST(Flows, ThroughATreeGradientsGoToTheAggregatorAndSumsToTheShard) {
  actors::job job;
  job.cluster = {.nodes = 1, .workers = 4, .shards = 1};
  job.protocol.fan_in = 2;
  const std::vector<node_trace> nodes{{"a",
                                       {push_of(0, 1), push_of(1, 1), push_of(2, 1), push_of(3, 1), sum_of(1, 1), sum_of(2, 1),
                                        apply_of(0, 1, {0, 1, 1, 1, 2, 1})}}};
  EXPECT_THAT(arrows_of(job, nodes),
              UnorderedElementsAre("gradient: push 0.1@0 -> sum 1.1@0", "gradient: push 1.1@0 -> sum 1.1@0",
                                   "gradient: push 2.1@0 -> sum 2.1@0", "sum: sum 1.1@0 -> apply 0.1@0",
                                   "sum: sum 2.1@0 -> apply 0.1@0"))
      << "worker 3's was not in it";
}

} // namespace
} // namespace troupe::actors
