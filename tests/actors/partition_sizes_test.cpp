// SPDX-License-Identifier: BSD-3-Clause
// What travels in other partitions under another plan, and in the same ones when it is sent again.
#include <memory>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/roles/codec/partition_cuts.hpp"
#include "actors/roles/worker/push_sender.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

using testing::ElementsAre;
using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

ranges of(const std::vector<flat_range>& parts) {
  ranges out;
  for (const flat_range part : parts)
    out.emplace_back(part.begin, part.end);
  return out;
}

protocols::plan sized(std::uint32_t epoch, std::uint32_t kib) {
  protocols::plan out{.epoch = {epoch}};
  out.partition_kib = kib;
  return out;
}

/// Of 64 floats, in parts of 16 times `kib`; 0: of all.
std::vector<flat_range> cut(std::uint32_t kib) {
  return cut_into_partitions({0, 64}, kib == 0 ? 4096 : std::int64_t{kib} * 64);
}

TEST(PartitionCuts, ThoseOfTheNewestPlan) {
  partition_cuts subject{cut(0), cut};
  EXPECT_EQ(of(subject.of(1)), (ranges{{0, 64}}));
  subject.on(sized(2, 2));
  EXPECT_EQ(of(subject.of(2)), (ranges{{0, 32}, {32, 64}}));
  subject.on(sized(3, 0));
  EXPECT_EQ(of(subject.of(3)), (ranges{{0, 64}}));
}

TEST(PartitionCuts, WhatWasSentIsSentAgainAsItWas) {
  partition_cuts subject{cut(0), cut};
  subject.of(1);
  subject.on(sized(2, 2));
  EXPECT_EQ(subject.of(1).size(), 1U);
  EXPECT_EQ(subject.of(2).size(), 2U);
  subject.on(sized(3, 1));
  EXPECT_EQ(subject.of(2).size(), 2U);
  for (std::uint64_t key = 3; key < 5000; ++key)
    EXPECT_EQ(subject.of(key).size(), 4U);
  EXPECT_EQ(subject.of(2).size(), 4U) << "who could still lack some of it";
}

TEST(PartitionCuts, WherePlansChangeNothingTheyStay) {
  partition_cuts subject{cut(1), {}};
  subject.on(sized(2, 2));
  EXPECT_EQ(subject.of(1).size(), 4U);
}

/// Remembers which parts of which push have come, and of how many the end says it is.
class listening_holder_state {
public:
  struct heard {
    std::vector<std::pair<std::uint64_t, ranges>> pushes{}; ///< by their clock
    std::vector<std::uint32_t> ends{};
  };
  static inline const char* name = "test.holder";
  listening_holder_state(holder_actor::stateful_pointer<listening_holder_state>, std::shared_ptr<heard> to)
      : to_(std::move(to)) {}
  holder_actor::behavior_type make_behavior() {
    return {[this](const wire::push_part& head, const kernels::buffer&) {
              if (to_->pushes.empty() || to_->pushes.back().first != head.id.clock.value)
                to_->pushes.push_back({head.id.clock.value, {}});
              to_->pushes.back().second.emplace_back(head.where.begin, head.where.end);
            },
            [this](const wire::push_end& end) { to_->ends.push_back(end.parts); },
            [](const wire::partial_part&, const kernels::buffer&) {},
            [](const protocols::arrival&) {},
            [](const protocols::prepared&) {},
            [](const protocols::close&) {},
            [](const protocols::send_order&) {},
            [](const protocols::drop_order&) {},
            [](const protocols::commit_order&) {},
            [](const wire::decision_part&, const kernels::buffer&) {},
            [](const protocols::admit_order&) {},
            [](const protocols::copy_request&) {},
            [](const wire::copy_part&, const kernels::buffer&) {}};
  }

private:
  std::shared_ptr<heard> to_;
};

// A push that a shard may have parts of, when the next one is cut otherwise.
TEST(PushSender, APushThatIsSentAgainIsCutAsItWas) {
  tests::testing_config config;
  caf::actor_system system{config};
  auto& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const auto queue = kernels::open_backend({.device = "cpu"});
  const auto net = std::make_shared<const model>(*model::build({.layers = {"linear 4"}}, {{12}, 4}));
  ASSERT_EQ(net->layout().floats(), 64);
  const auto heard = std::make_shared<listening_holder_state::heard>();
  auto peers = std::make_shared<role_peers>();
  peers->holders.emplace_back(system.spawn<holder_actor::stateful_impl<listening_holder_state>>(heard));

  const training_clock clock{steady_ns};
  exchange_watch exchange;
  push_setup setup;
  setup.targets = {{{0}, cut(0)}};
  setup.targets_under = [](const auto&, std::uint32_t kib) { return std::vector<push_target>{{{0}, cut(kib)}}; };
  setup.keeps = true;
  push_sender subject{std::move(setup), net, clock, exchange, nullptr, {}};
  subject.introduce(peers);
  const auto push = [&](std::uint64_t clock_of, std::uint32_t kib) {
    const protocols::push head{.epoch = {1}, .id = {{0}, {0}, {clock_of}}, .base = {clock_of}, .samples = 4};
    subject.begin(sized(1, kib), std::nullopt);
    subject.send_parts(head, queue->allocate_host(64 * sizeof(float)), {}, false);
    subject.send_ends(head, true);
    schedule.run();
  };
  push(1, 0);
  push(2, 2);
  const ranges whole{{0, 64}}, halves{{0, 32}, {32, 64}};
  EXPECT_THAT(heard->pushes, ElementsAre(testing::Pair(1U, whole), testing::Pair(2U, halves)));
  EXPECT_THAT(heard->ends, ElementsAre(1, 2));
  *heard = {};
  subject.send_again(std::nullopt);
  schedule.run();
  EXPECT_THAT(heard->pushes, ElementsAre(testing::Pair(1U, whole), testing::Pair(2U, halves)));
  EXPECT_THAT(heard->ends, ElementsAre(1, 2));
  caf::anon_send_exit(peers->holders.front(), caf::exit_reason::kill);
  schedule.run();
}

} // namespace
} // namespace troupe::actors
