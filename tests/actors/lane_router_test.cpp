// SPDX-License-Identifier: BSD-3-Clause
// Who may say what over a lane.
#include "actors/roles/lane_router.hpp"

#include <gtest/gtest.h>

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
  EXPECT_EQ(senders_of(wire::params_part{{0}, {1}, {}, some}), senders{1});
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
  const wire::params_part part{{0}, {0}, {}, some};
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
  EXPECT_EQ(router.fault_of(net::node_id{2}, wire::params_part{{0}, {9}, {}, some}),
            "node 2 speaks for holder 9, which is not there");
}

TEST_F(LaneRouter, BeforeThePlacesAreKnownNothingIsRefused) {
  lane_router early{node_control{}};
  EXPECT_FALSE(early.fault_of(net::node_id{3}, wire::params_part{{0}, {9}, {}, some}));
}

} // namespace
} // namespace troupe::actors
