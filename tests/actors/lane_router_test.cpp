// SPDX-License-Identifier: BSD-3-Clause
// Who may say what over a lane.
#include "actors/roles/lane_router.hpp"

#include <limits>
#include <memory>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <gtest/gtest.h>

#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

/// Node 0 has the lead, node 1 worker 0 and holder 1, node 2 worker 1.
struct LaneRouter : testing::Test {
  LaneRouter() {
    job_places places;
    places.workers = {{.index = 0, .node = 1}, {.index = 1, .node = 2}};
    places.holders = {{.index = 0, .node = 0}, {.index = 1, .node = 1}};
    router.take_only_from(places);
  }
  /// The nodes that may send it.
  std::vector<std::uint32_t> senders_of(const wire::message& head) {
    std::vector<std::uint32_t> may;
    for (std::uint32_t node = 0; node < 4; ++node)
      if (!router.fault_of(net::node_id{node}, head))
        may.push_back(node);
    return may;
  }
  lane_router router{node_control{}};
};

using senders = std::vector<std::uint32_t>;
constexpr wire::range some{0, 16};
constexpr protocols::push_id of(std::uint32_t worker) {
  return {{worker}, {0}, {5}};
}

TEST_F(LaneRouter, AMessageIsTakenOnlyFromTheNodeThatHoldsTheRoleThatSendsIt) {
  protocols::push pushed;
  pushed.id = of(1);
  protocols::peer_message between;
  between.from = {{0}, {0}};
  EXPECT_EQ(senders_of(wire::push_part{{0}, {0}, of(1), some}), senders{2});
  EXPECT_EQ(senders_of(wire::push_end{{0}, pushed, 1}), senders{2});
  EXPECT_EQ(senders_of(wire::params_part{{{0}}, {1}, {}, some}), senders{1});
  EXPECT_EQ(senders_of(wire::partial_part{{0}, {1}, {0}, some}), senders{1});
  EXPECT_EQ(senders_of(wire::peer_part{{1}, between, some}), senders{1});
  EXPECT_EQ(senders_of(wire::addressed<protocols::arrival>{{0}, {{1}, pushed}}), senders{1});
  EXPECT_EQ(senders_of(wire::addressed<protocols::close>{{1}, {}}), senders{0});
  EXPECT_EQ(senders_of(wire::addressed<protocols::send_order>{{1}, {}}), senders{0});
  EXPECT_EQ(senders_of(wire::addressed<protocols::drop_order>{{1}, {}}), senders{0});
}

/// What a dead shard had sent may still come from its node, and must not cost its lane.
TEST_F(LaneRouter, ABackupSpeaksForItsShardAndTheShardsNodeIsNoStranger) {
  job_places places;
  places.workers = {{.index = 0, .node = 1}};
  places.holders = {{.index = 0, .node = 0}, {.index = 1, .node = 2, .backup_of = 0}};
  lane_router subject{node_control{}};
  subject.take_only_from(places);
  const wire::params_part part{{{0}}, {0}, {}, some};
  EXPECT_FALSE(subject.fault_of(net::node_id{2}, part)) << "this node may hear late that it is the shard";
  EXPECT_TRUE(subject.fault_of(net::node_id{1}, part));
  places.take_over({{0}, {1}, 1});
  subject.take_only_from(places);
  EXPECT_FALSE(subject.fault_of(net::node_id{2}, part));
  EXPECT_FALSE(subject.fault_of(net::node_id{0}, part));
  EXPECT_TRUE(subject.fault_of(net::node_id{1}, part));
}

TEST_F(LaneRouter, NobodySpeaksForARoleThatIsNotInTheJob) {
  EXPECT_EQ(senders_of(wire::push_part{{0}, {0}, of(7), some}), senders{});
  EXPECT_EQ(router.fault_of(net::node_id{2}, wire::params_part{{{0}}, {9}, {}, some}),
            "node 2 speaks for holder 9, which is not there");
}

TEST_F(LaneRouter, BeforeThePlacesAreKnownNothingIsRefused) {
  lane_router early{node_control{}};
  EXPECT_FALSE(early.fault_of(net::node_id{3}, wire::params_part{{{0}}, {9}, {}, some}));
}

TEST(ProxyTarget, PartitionsGoByLayersOrAsTheyCome) {
  const wire::range first{0, 16}, last{1 << 20, (1 << 20) + 16};
  const proxy_target by_layers{.hub = nullptr, .node = {}}, as_they_come{.hub = nullptr, .node = {}, .by_layers = false};
  EXPECT_LT(by_layers.priority_of(first), by_layers.priority_of(last));
  EXPECT_EQ(as_they_come.priority_of(first), as_they_come.priority_of(last));
  EXPECT_GT(as_they_come.priority_of(first), 0) << "after small messages";
}

TEST(ProxyTarget, WhatIsLeftOfARoundGoesBeforeTheNext) {
  const wire::range first{0, 16}, last{1 << 20, (1 << 20) + 16}, farthest{std::int64_t{1} << 40, (std::int64_t{1} << 40) + 16};
  const proxy_target by_layers{.hub = nullptr, .node = {}}, as_they_come{.hub = nullptr, .node = {}, .by_layers = false};
  for (const std::uint64_t round : {1ULL, 1'000ULL, (1ULL << 40) + 7}) {
    EXPECT_LT(by_layers.priority_of(first, round), by_layers.priority_of(last, round));
    EXPECT_LT(by_layers.priority_of(last, round), by_layers.priority_of(first, round + 1)) << round;
    EXPECT_LT(by_layers.priority_of(farthest, round), by_layers.priority_of(first, round + 1)) << round;
    EXPECT_LT(by_layers.priority_of(farthest, round), std::numeric_limits<int>::max()) << "before replicas";
    EXPECT_EQ(as_they_come.priority_of(last, round), as_they_come.priority_of(first, round + 1));
  }
}

// -- parameters for several workers of a node

using deliveries = std::vector<std::pair<wire::params_part, kernels::buffer>>;

class joining_worker_state {
public:
  static inline const char* name = "test.worker";
  joining_worker_state(params_actor::stateful_pointer<joining_worker_state>, std::shared_ptr<deliveries> heard)
      : heard_(std::move(heard)) {}
  params_actor::behavior_type make_behavior() {
    return {[this](const wire::params_part& head, const kernels::buffer& payload) { heard_->emplace_back(head, payload); },
            [](const wire::peer_part&, const kernels::buffer&) {}};
  }

private:
  std::shared_ptr<deliveries> heard_;
};

/// A node of workers 0 to 3. Worker 1 is not here.
struct SharedParameters : testing::Test {
  SharedParameters() {
    for (const std::uint32_t worker : {0U, 2U, 3U}) {
      heard[worker] = std::make_shared<deliveries>();
      inboxes[worker] = std::make_shared<params_assembler>(flat_range{0, 32}, allocate);
      router.add(protocols::worker_id{worker}, system.spawn<params_actor::stateful_impl<joining_worker_state>>(heard[worker]),
                 inboxes[worker], nullptr);
    }
  }
  ~SharedParameters() override { router.clear(); }
  /// As the lane's thread does: into the place that the router gives.
  void come(const wire::params_part& head) {
    const auto bytes = static_cast<std::size_t>(head.where.end - head.where.begin) * sizeof(float);
    const auto payload = router.place(net::node_id{0}, head, bytes);
    ASSERT_EQ(payload.bytes(), bytes);
    std::ranges::fill(payload.span<float>(), 5.0F);
    router.on_message(net::node_id{0}, head, payload);
    dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run();
  }
  /// What this worker has put together of what it has heard.
  kernels::buffer whole(std::uint32_t worker, std::uint64_t key) {
    for (const auto& [head, payload] : *heard[worker])
      inboxes[worker]->add(head.params.key, {head.where.begin, head.where.end}, payload);
    return inboxes[worker]->take(key).value_or(kernels::buffer{});
  }
  static wire::params_part part_for(std::vector<protocols::worker_id> to, std::uint64_t key, wire::range where) {
    return {std::move(to), {0}, {.ver = {key}, .key = key}, where};
  }

  tests::testing_config config;
  caf::actor_system system{config};
  std::shared_ptr<kernels::backend> queue = kernels::open_backend({.device = "cpu"});
  std::function<kernels::buffer(std::size_t)> allocate = [this](std::size_t bytes) { return queue->allocate_host(bytes); };
  std::map<std::uint32_t, std::shared_ptr<deliveries>> heard;
  std::map<std::uint32_t, std::shared_ptr<params_assembler>> inboxes;
  lane_router router{node_control{}};
};

TEST_F(SharedParameters, OneFrameIsDeliveredToEachWorkerThatItNamesWithoutACopy) {
  come(part_for({{2}, {3}}, 7, {0, 16}));
  come(part_for({{2}, {3}}, 7, {16, 32}));
  EXPECT_TRUE(heard[0]->empty());
  const auto first = whole(2, 7), second = whole(3, 7);
  ASSERT_EQ(first.bytes(), 128U);
  ASSERT_EQ(second.bytes(), 128U);
  EXPECT_EQ(first.data(), second.data()) << "one block for both";
  EXPECT_EQ(second.as<float>()[31], 5.0F);
}

TEST_F(SharedParameters, AWorkerThatIsGoneTakesNothingFromTheOthers) {
  come(part_for({{1}, {2}, {3}}, 7, {0, 32}));
  EXPECT_EQ(whole(2, 7).bytes(), 128U);
  EXPECT_EQ(whole(3, 7).bytes(), 128U);
}

/// A worker that has come back is sent alone what the others have; later they are sent the next together.
TEST_F(SharedParameters, WhoLacksAVersionGetsItByAFrameOfItsOwn) {
  come(part_for({{2}}, 7, {0, 32}));
  come(part_for({{2}, {3}}, 8, {0, 16}));
  come(part_for({{3}}, 7, {0, 32}));
  come(part_for({{2}, {3}}, 8, {16, 32}));
  const auto alone = whole(2, 7), other = whole(3, 7);
  EXPECT_NE(alone.data(), other.data());
  const auto first = whole(2, 8), second = whole(3, 8);
  EXPECT_EQ(first.bytes(), 128U);
  EXPECT_EQ(first.data(), second.data());
}

TEST_F(SharedParameters, AFrameThatComesLateForTheFirstIsJoinedByTheOthersAllTheSame) {
  come(part_for({{2}, {3}}, 7, {0, 16}));
  inboxes[2]->drop_if([](std::uint64_t key) { return key < 8; }); // it has a newer version already
  come(part_for({{2}, {3}}, 7, {16, 32}));
  const auto joined = whole(3, 7);
  ASSERT_EQ(joined.bytes(), 128U);
  for (const float each : joined.span<float>())
    EXPECT_EQ(each, 5.0F);
}

} // namespace
} // namespace troupe::actors
