// SPDX-License-Identifier: BSD-3-Clause
// What actors say of themselves, and how a node gathers it. CAF's testing scheduler runs every actor on this thread.
#include <memory>
#include <set>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/errors.hpp"
#include "actors/node/node_actor.hpp"
#include "actors/system.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

using probe_actor = inspectable_actor::extend<caf::result<void>(std::string)>;

/// Is what it is told to be; "mute" for one that answers nobody any more.
class probe_state {
public:
  static inline const char* name = "test.probe";
  explicit probe_state(measured_pointer<probe_actor> self) : self_(self) {}
  probe_actor::behavior_type make_behavior() {
    return {
        [this](const inspect_query&) -> caf::result<actor_report> {
          if (!mute_)
            return self_->report();
          kept_.push_back(self_->make_response_promise<actor_report>());
          return kept_.back();
        },
        [this](const std::string& text) {
          mute_ = text == "mute";
          if (mute_)
            self_->doing.enter("thinks");
          else
            self_->doing.failed(text);
        },
    };
  }

private:
  measured_pointer<probe_actor> self_;
  bool mute_ = false;
  std::vector<caf::typed_response_promise<actor_report>> kept_;
};

class Inspection : public testing::Test {
protected:
  tests::testing_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  caf::scoped_actor asker{system};
  node_control node = system.spawn<node_impl>(node_options{});
  std::vector<probe_actor> probes;

  void TearDown() override {
    caf::anon_send_exit(node, caf::exit_reason::kill);
    for (const auto& probe : probes)
      caf::anon_send_exit(probe, caf::exit_reason::kill);
    schedule.run();
  }

  void spawn(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      probes.push_back(system.spawn<measured_impl<probe_actor, probe_state>>());
      caf::anon_send(node, shown_actor{probes.back(), fmt::format("probe {}", i), "probe"});
    }
    schedule.run();
  }
  /// Empty: it gave an error.
  node_report ask(const inspect_query& query = {}) {
    node_report out;
    out.pages = 0;
    auto answer = asker->request(node, caf::infinite, query);
    schedule.run();
    schedule.trigger_timeouts(); // of those who do not answer
    schedule.run();
    answer.receive([&](node_report& said) { out = std::move(said); }, [](const caf::error&) {});
    return out;
  }
  actor_report of(std::size_t probe) {
    for (auto& actor : ask().actors)
      if (actor.id == fmt::format("probe {}", probe))
        return actor;
    return {};
  }
};

TEST_F(Inspection, AnActorCountsItsMessagesAndKeepsItsLastError) {
  spawn(1);
  EXPECT_EQ(of(0).messages, 1U) << "the question itself";
  for (const auto* text : {"out of paper", "out of ink"})
    caf::anon_send(probes[0], std::string{text});
  schedule.run();
  const auto said = of(0);
  EXPECT_EQ(said.messages, 4U);
  EXPECT_EQ(said.mailbox, 0U);
  EXPECT_EQ(said.last_error, "out of ink");
  EXPECT_EQ(said.state, "idle");
  EXPECT_GT(said.messages_per_s, 0);
  EXPECT_GE(said.busy, 0);
  EXPECT_LE(said.busy, 1);
}

/// What inspection costs a job, whatever else the machine does.
TEST_F(Inspection, ALookCostsEachActorOneMessage) {
  spawn(300);
  for (std::uint64_t looks = 1; looks <= 5; ++looks) {
    const auto all = ask().actors;
    EXPECT_EQ(all.size(), 301U);
    for (const auto& actor : all) {
      if (actor.role == "probe") {
        EXPECT_EQ(actor.messages, looks) << actor.id;
      }
    }
  }
}

TEST_F(Inspection, WhatWaitsInAMailboxIsNotHandled) {
  spawn(1);
  auto answer = asker->request(inspectable_actor{probes[0]}, caf::infinite, inspect_query{});
  for (int i = 0; i < 3; ++i)
    caf::anon_send(probes[0], std::string{"later"});
  schedule.run();
  answer.receive(
      [](const actor_report& said) {
        EXPECT_EQ(std::pair(said.messages, said.mailbox), std::pair(std::uint64_t{1}, std::uint64_t{3}));
      },
      [](const caf::error&) { FAIL(); });
}

TEST_F(Inspection, OneThatDoesNotAnswerIsShownAndKeepsNobodyFromBeingSeen) {
  spawn(300); // of several gatherers
  caf::anon_send(probes[7], std::string{"mute"});
  schedule.run();
  const auto all = ask();
  EXPECT_EQ(all.actors.size(), 301U);
  for (const auto& actor : all.actors)
    EXPECT_EQ(actor.stuck, actor.id == "probe 7") << actor.id;
  const auto mute = of(7);
  EXPECT_EQ(mute.state, "thinks");
  EXPECT_EQ(mute.role, "probe");
}

TEST_F(Inspection, OneThatHasEndedIsShownNoMore) {
  spawn(2);
  caf::anon_send_exit(probes[1], caf::exit_reason::user_shutdown);
  schedule.run();
  EXPECT_EQ(ask().actors.size(), 2U) << "the node and a probe";
}

TEST_F(Inspection, WhatDoesNotFitAMessageComesInPages) {
  spawn(2 * actors_per_page);
  const auto first = ask();
  EXPECT_EQ(first.pages, 3U);
  std::set<std::string> ids;
  for (std::uint32_t page = 0; page < first.pages; ++page) {
    const auto part = page == 0 ? first : ask({.page = page, .answer_id = first.answer_id});
    EXPECT_LE(part.actors.size(), actors_per_page);
    for (const auto& actor : part.actors)
      EXPECT_TRUE(ids.insert(actor.id).second) << actor.id;
  }
  EXPECT_EQ(ids.size(), 2 * actors_per_page + 1);
  EXPECT_EQ(ask({.page = 3, .answer_id = first.answer_id}).pages, 0U);
  for (int i = 0; i < 10; ++i)
    ask();
  EXPECT_EQ(ask({.page = 1, .answer_id = first.answer_id}).pages, 0U) << "not kept for ever";
}

} // namespace
} // namespace troupe::actors
