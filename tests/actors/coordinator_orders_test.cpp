// SPDX-License-Identifier: BSD-3-Clause
// What the operator may ask of a running job, and how its trace is collected.
#include "tests/actors/scripted_nodes.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <caf/event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "protocols/wire/state.hpp"
#include "tests/protocols/added_protocol.hpp"

namespace troupe::actors {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// What a shard applied, from 10 * `number` on.
trace_chunk chunk_of(int number, bool last, std::uint64_t dropped = 0) {
  return {{{span_kind::apply, 0, 10 * number, 10 * number + 1, {}}}, dropped, last};
}
std::vector<std::int64_t> begins_of(const node_trace& of) {
  std::vector<std::int64_t> begins;
  for (const auto& event : of.events)
    if (event.kind == span_kind::apply)
      begins.push_back(event.begin_ns);
  return begins;
}

TEST_F(Coordinator, ATracedJobEndsWithWhatEveryNodeRecorded) {
  traced = true;
  scripts[0]->trace = {chunk_of(1, true)};
  scripts[1]->trace = {chunk_of(2, false), chunk_of(3, false), chunk_of(4, true, 5)};
  begin();
  for (const auto& each : scripts)
    EXPECT_TRUE(each->job->trace);
  hold(2, 100);
  evaluate(2);
  ASSERT_EQ(seen->ends, 1);
  ASSERT_EQ(seen->result.trace.size(), 3U);
  EXPECT_EQ(seen->result.trace[1].name, "node-1");
  EXPECT_EQ(seen->result.trace[0].events.front().kind, span_kind::hold) << "the coordinator's own";
  EXPECT_THAT(begins_of(seen->result.trace[0]), ElementsAre(10));
  EXPECT_THAT(begins_of(seen->result.trace[1]), ElementsAre(20, 30, 40));
  EXPECT_THAT(begins_of(seen->result.trace[2]), ElementsAre());
  EXPECT_EQ(seen->result.trace[1].dropped, 5U);
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("the trace of node-1 is full: it lacks the last 5 events")));
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

TEST_F(Coordinator, TimesOfATraceAreOfOneClock) {
  traced = true;
  constexpr std::int64_t day = 86'400'000'000'000;
  scripts[1]->trace = {{{{span_kind::apply, 0, day + 10, day + 20, {}}}, 0, true}};
  scripts[1]->clock_ahead_ns = day; // another host
  scripts[2]->trace = {chunk_of(1, true)};
  begin();
  say(stop_job{false, "interrupted"});
  const auto& events = seen->result.trace[1].events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_NEAR(static_cast<double>(events[0].begin_ns), 10, 5e6) << "as well as a message's way there and back can tell";
  EXPECT_EQ(events[0].end_ns - events[0].begin_ns, 10);
  EXPECT_THAT(begins_of(seen->result.trace[2]), ElementsAre(10)) << "this host's own clock stays as it is";
}

TEST_F(Coordinator, ATraceSaysWhichNodeItLacks) {
  traced = true;
  scripts[2]->trace = {chunk_of(1, true)};
  begin();
  kill(nodes[1]);
  seen->events.clear();
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("the trace lacks what node-1 did")));
  EXPECT_THAT(begins_of(seen->result.trace[2]), ElementsAre(10));
}

TEST_F(Coordinator, AJobThatIsNotTracedAsksNobody) {
  scripts[0]->trace = {chunk_of(1, true)};
  begin();
  EXPECT_FALSE(scripts[0]->job->trace);
  say(stop_job{false, "interrupted"});
  EXPECT_TRUE(seen->result.trace.empty());
  EXPECT_EQ(scripts[0]->chunks_asked, 0U);
}

TEST_F(Coordinator, WhatIsRecordedForAWhileGoesToWhoeverEndsIt) {
  scripts[1]->trace = {chunk_of(1, true)};
  begin();
  EXPECT_EQ(ask<traces_ptr>(record_order{.on = false, .file = {}}), nullptr) << "nothing is recorded";
  EXPECT_EQ(ask<traces_ptr>(record_order{.file = {}}), nullptr);
  EXPECT_THAT(scripts[2]->recordings, ElementsAre(true));
  EXPECT_EQ(scripts[1]->chunks_asked, 0U);
  const auto all = ask<traces_ptr>(record_order{.on = false, .file = {}});
  ASSERT_TRUE(all && all->size() == 3);
  EXPECT_THAT(begins_of((*all)[1]), ElementsAre(10));
  say(stop_job{false, "interrupted"});
  EXPECT_TRUE(seen->result.trace.empty()) << "that was for somebody else";
}

TEST_F(Coordinator, WhatASlowNodeHasSaidIsHandedOnBeforeWhoeverAskedGivesUp) {
  scripts[1]->trace.assign(20, chunk_of(1, false));
  scripts[1]->chunk_takes = std::chrono::seconds{3};
  scripts[2]->trace = {chunk_of(2, true)};
  begin();
  ask<traces_ptr>(record_order{.file = {}});
  traces_ptr all;
  const auto person = system.spawn([&](caf::event_based_actor* me) {
    me->request(coordinator, caf::infinite, record_order{.on = false, .file = {}}).then([&](const traces_ptr& said) {
      all = said;
    });
  });
  run();
  for (int second = 0; second < 25; ++second) {
    schedule.advance_time(std::chrono::seconds{1});
    run();
  }
  ASSERT_TRUE(all) << "the cluster waits for 30 s, the console for 40";
  EXPECT_EQ(begins_of((*all)[1]).size(), 6U);
  EXPECT_THAT(begins_of((*all)[2]), ElementsAre(20));
  EXPECT_THAT(seen->events, testing::Contains(HasSubstr("the trace lacks what node-1 did")));
  caf::anon_send_exit(person, caf::exit_reason::kill);
}

/// Manifests are written on threads of their own.
class Checkpoints : public Coordinator {
protected:
  Checkpoints() {
    auto pattern = (std::filesystem::temp_directory_path() / "troupe-checkpoints-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no folder for the test: " + pattern);
    folder = pattern;
    job.checkpoint = {.dir = folder.string(), .every_steps = 10};
    job.cluster.shards = 2;
    job.stop.epochs = 100;
  }
  ~Checkpoints() override { std::filesystem::remove_all(folder); }

  void saved(std::uint32_t shard, std::uint64_t ver) {
    std::filesystem::create_directories(folder / fmt::format("step-{}", ver));
    say(file_saved{
        .index = shard, .ver = {ver}, .lead = shard == 0 ? std::vector<std::uint64_t>{1} : std::vector<std::uint64_t>{}});
  }
  /// Until the user has been told of so many.
  void await_events(std::size_t count) {
    while (seen->events.size() < count) {
      run();
      std::this_thread::yield();
    }
  }
  std::vector<std::uint64_t> ordered() const {
    std::vector<std::uint64_t> out;
    for (const auto& each : scripts[0]->all<protocols::checkpoint_order>())
      out.push_back(each.at.value);
    return out;
  }

  std::filesystem::path folder;
};

TEST_F(Checkpoints, OneThatIsWholeAfterANewerOneIsRemovedAndHoldsUpNothing) {
  begin();
  EXPECT_THAT(ordered(), ElementsAre(10));
  saved(0, 10);
  close_round(12, 120);
  say(save_order{}); // of the next version
  saved(0, 13);
  saved(1, 13);
  await_events(1);
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("checkpoint " + folder.string() + "/step-13")));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-10"));
  saved(1, 10);
  await_events(2);
  EXPECT_THAT(seen->events.back(), HasSubstr("no checkpoint of step 10: that of step 13 was whole before"));
  EXPECT_FALSE(std::filesystem::exists(folder / "step-10"));
  EXPECT_EQ(ordered().back(), 20U);
}

TEST_F(Checkpoints, WhereEachPushIsAppliedAloneAllAreToldBeforeAnyHasWritten) {
  job.protocol.name = "easgd";
  job.optimizer.momentum = 0.9; // which its workers keep
  begin();
  close_round(10, 100);
  EXPECT_THAT(told<protocols::checkpoint_order>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(1, 1, 1));
  saved(0, 10);
  close_round(20, 200);
  EXPECT_THAT(ordered(), ElementsAre(10)) << "one at a time";
  saved(1, 10);
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(1, 1, 1));
  for (const std::uint32_t worker : {0U, 1U, 2U, 3U}) {
    EXPECT_TRUE(seen->events.empty()) << worker;
    say(file_saved{.of_worker = true, .index = worker, .ver = {10}, .file = {.name = fmt::format("worker-{}-0.ckpt", worker)}});
  }
  await_events(1);
  EXPECT_THAT(seen->events.front(), HasSubstr("checkpoint " + folder.string() + "/step-10"));
}

TEST_F(Checkpoints, WhereAllWorkersHaveTheSameAllAreToldOfAVersionThatNobodyHas) {
  job.protocol.name = "allreduce";
  job.cluster.shards = 1;
  begin();
  EXPECT_THAT(told<protocols::checkpoint_order>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(ordered(), ElementsAre(10));
  close_round(12, 120);
  saved(0, 10);
  await_events(1);
  EXPECT_THAT(ordered(), ElementsAre(10, 20));
  say(save_order{});
  EXPECT_EQ(ordered().back(), 13U);
  EXPECT_THAT(told<protocols::checkpoint_order>(), ElementsAre(3, 3, 3));
}

TEST_F(Checkpoints, OneThatALostShardLeftUnwrittenIsGivenUpWhenItsCopySaysSo) {
  job.cluster.replicas = 2;
  begin();
  close_round(10, 400);
  say(role_lost{0, role_lost::kind::holder, 1, "it died"});
  const auto copy_says = [this](std::uint64_t ver) {
    say(file_saved{.index = 1, .ver = {ver}, .error = "it was lost before it was written"});
  };
  saved(0, 10); // the coordinator hears of this version after the loss
  copy_says(10);
  await_events(3);
  EXPECT_THAT(seen->events.back(), HasSubstr("no checkpoint of step 10: shard 1: it was lost before it was written"));
  EXPECT_EQ(ordered().back(), 20U) << "and not for ever none";
  copy_says(10);
  close_round(20, 800);
  saved(0, 20);
  saved(1, 20);
  copy_says(20);
  await_events(4);
  EXPECT_THAT(seen->events.back(), HasSubstr("checkpoint ")) << "its file is there, whoever wrote it";
  EXPECT_THAT(seen->events.back(), Not(HasSubstr("no checkpoint")));
}

TEST_F(Checkpoints, AtTheEndNobodyWaitsForAShardThatIsLost) {
  job.stop.steps = 1;
  begin();
  close_round(1, 40);
  hold(1, 40);
  saved(0, 1);
  evaluate(1);
  EXPECT_EQ(seen->ends, 0) << "shard 1 writes";
  say(role_lost{0, role_lost::kind::holder, 1, "it died"});
  await_events(1);
  run();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("no checkpoint of step 1: shard 1: it was lost before it was written")));
  EXPECT_EQ(seen->ends, 1);
  EXPECT_FALSE(seen->result.failed) << seen->result.reason;
}

/// Every worker has parameters of its own, and no shard writes.
class OwnCheckpoints : public Checkpoints {
protected:
  OwnCheckpoints() {
    job.protocol.name = "gossip";
    job.cluster.shards = 1;
    begin();
  }
  void kept(std::uint32_t worker, std::uint64_t ver) {
    say(file_saved{.of_worker = true, .index = worker, .ver = {ver}, .file = {.name = fmt::format("worker-{}-0.ckpt", worker)}});
  }
};

TEST_F(OwnCheckpoints, OneIsOfWhatEachWorkerHasWhenItIsToldAndOfTheStepsThatTheLeadHasCounted) {
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(0, 0, 0));
  close_round(9, 90);
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(0, 0, 0)) << "none is due";
  close_round(10, 100);
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(scripts[0]->all<protocols::keep_order>().back().ver.value, 10U);
  EXPECT_THAT(ordered(), ElementsAre()) << "shards have nothing";
  for (const std::uint32_t worker : {0U, 1U, 2U, 3U}) {
    EXPECT_TRUE(seen->events.empty()) << worker;
    kept(worker, 10);
    close_round(11 + worker, 110 + 10 * worker);
  }
  await_events(1);
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("checkpoint " + folder.string() + "/step-10")));
  const auto what = read_manifest((folder / "step-10").string());
  EXPECT_EQ(what.samples, 100U);
  EXPECT_EQ(what.files.size(), 4U);
  const auto lead = protocols::wire::decode_state<protocols::lead_state>(what.lead);
  ASSERT_TRUE(lead);
  EXPECT_EQ(lead->made.value, 10U);
  EXPECT_EQ(lead->samples_applied, 100U);
}

TEST_F(OwnCheckpoints, AtTheEndNobodyWaitsForAWorkerThatIsLost) {
  close_round(10, 100);
  for (const std::uint32_t worker : {2U, 3U})
    kept(worker, 10);
  say(stop_job{false, "interrupted"});
  collect(10);
  evaluate(10);
  EXPECT_EQ(seen->ends, 0) << "workers 0 and 1 write";
  kill(nodes[1]);
  await_events(1);
  run();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("checkpoint " + folder.string() + "/step-10")));
  EXPECT_EQ(read_manifest((folder / "step-10").string()).files.size(), 2U);
  EXPECT_EQ(seen->ends, 1);
}

TEST_F(OwnCheckpoints, OneIsWrittenWithoutWhoIsLostMeanwhile) {
  close_round(10, 100);
  for (const std::uint32_t worker : {0U, 1U})
    kept(worker, 10);
  seen->events.clear();
  kill(nodes[2]); // with workers 2 and 3
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1));
  const auto whole = HasSubstr("checkpoint " + folder.string() + "/step-10");
  while (std::ranges::none_of(seen->events, [&](const auto& text) { return testing::Matches(whole)(text); })) {
    run();
    std::this_thread::yield();
  }
  EXPECT_EQ(read_manifest((folder / "step-10").string()).files.size(), 2U);
}

TEST_F(OwnCheckpoints, WhatARoleWroteOfOneThatWasRemovedIsRemovedWithTheNext) {
  const auto stray = [this](std::uint64_t ver) {
    write_worker_file((folder / fmt::format("step-{}", ver)).string(), 0, {.shard = 3, .ver = {ver}}, std::vector<named_block>{});
    return folder / fmt::format("step-{}", ver);
  };
  close_round(10, 100);
  close_round(30, 300);
  for (const std::uint64_t ver : {10, 30}) {
    for (const std::uint32_t worker : {0U, 1U, 2U, 3U})
      kept(worker, ver);
    await_events(ver == 10 ? 1 : 3);
  }
  EXPECT_THAT(seen->events.back(), HasSubstr("step-30"));
  const auto late = stray(5), newer = stray(35);
  close_round(40, 400);
  for (const std::uint32_t worker : {0U, 1U, 2U, 3U})
    kept(worker, 40);
  await_events(4);
  EXPECT_FALSE(std::filesystem::exists(late));
  EXPECT_TRUE(std::filesystem::exists(newer)) << "it may be under way";
}

TEST_F(OwnCheckpoints, OneThatIsAskedForIsOfThisStepAndIsToldWhenItIsThere) {
  close_round(7, 70);
  std::string said;
  const auto person = system.spawn([&](caf::event_based_actor* me) {
    me->request(coordinator, caf::infinite, save_order{}).then([&](const std::string& text) { said = text; });
  });
  run();
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(1, 1, 1));
  for (const std::uint32_t worker : {0U, 1U, 2U, 3U})
    kept(worker, 7);
  await_events(1);
  run();
  EXPECT_EQ(said, folder.string() + "/step-7");
  EXPECT_EQ(ask(save_order{}), folder.string() + "/step-7") << "there is no newer step";
  EXPECT_THAT(told<protocols::keep_order>(), ElementsAre(1, 1, 1));
}

/// All have the same, and momenta of their own. Those of node 2 are saved at step 10.
class CommonCheckpoints : public Checkpoints {
protected:
  CommonCheckpoints() {
    job.protocol.name = "allreduce";
    job.protocol.parameters["steps"] = std::int64_t{3};
    job.optimizer.momentum = 0.9;
    job.cluster.shards = 1;
    begin();
    for (const std::uint32_t worker : {2U, 3U})
      say(file_saved{.of_worker = true, .index = worker, .ver = {10}});
    seen->events.clear();
  }
};

TEST_F(CommonCheckpoints, TheLossOfItsWriterIsItsEndAndAnotherWritesTheNext) {
  kill(nodes[1]);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  const auto lost = HasSubstr("no checkpoint of step 10: shard 0: it was lost before it was written");
  while (std::ranges::none_of(seen->events, [&](const auto& text) { return testing::Matches(lost)(text); })) {
    run();
    std::this_thread::yield();
  }
  EXPECT_THAT(ordered(), ElementsAre(10, 10, 10)) << "again for each plan with another first: of workers 1, 2 and 3, of 2 and 3";
}

TEST_F(CommonCheckpoints, TheLossOfAnotherWorkerIsNot) {
  kill(nodes[2]);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1));
  EXPECT_THAT(ordered(), ElementsAre(10));
  EXPECT_THAT(seen->events, testing::Not(testing::Contains(HasSubstr("no checkpoint"))));
}

TEST_F(Coordinator, OrdersGoToTheNodeOfTheRole) {
  begin();
  EXPECT_EQ(ask(actor_order{.verb = role_verb::pause, .actor = "worker 2"}), "worker 2 stands still");
  EXPECT_EQ(ask(actor_order{.verb = role_verb::resume, .actor = "shard 0"}), "shard 0 goes on");
  EXPECT_EQ(ask(actor_order{.verb = role_verb::kill, .actor = "evaluator 0"}), "evaluator 0 is killed");
  ASSERT_EQ(scripts[2]->orders.size(), 1U);
  EXPECT_EQ(scripts[2]->orders[0].verb, role_verb::pause);
  EXPECT_EQ(scripts[2]->orders[0].index, 2U);
  ASSERT_EQ(scripts[0]->orders.size(), 2U);
  EXPECT_EQ(scripts[0]->orders[1].role, "evaluator");
  EXPECT_THAT(seen->events, testing::Contains(HasSubstr("worker 2 stands still")));
  for (const auto* nobody : {"worker 4", "shard 1", "evaluator 1", "coordinator 0", "loader 1", "worker", "worker x", ""})
    EXPECT_THAT(ask(actor_order{.verb = role_verb::kill, .actor = nobody}), testing::StartsWith("no: ")) << nobody;
  EXPECT_THAT(ask(actor_order{.verb = role_verb::restart, .actor = "shard 0"}), HasSubstr("cannot be restarted"));
  EXPECT_THAT(ask(actor_order{.verb = role_verb::restart, .actor = "evaluator 0"}), HasSubstr("`kill` it"));
}

TEST_F(Coordinator, AWorkerIsStartedAnewWithALaterLifeThanAnyBefore) {
  begin();
  say(role_lost{.node = 1, .index = 1, .reason = "killed"});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3));
  EXPECT_THAT(ask(actor_order{.verb = role_verb::pause, .actor = "worker 1"}), HasSubstr("is dead"));
  EXPECT_EQ(ask(actor_order{.verb = role_verb::restart, .actor = "worker 1"}), "worker 1 is restarted");
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scripts[1]->orders.at(0).incarnation, 1U);
  EXPECT_EQ(ask(actor_order{.verb = role_verb::restart, .actor = "worker 1"}), "worker 1 is restarted") << "alive, too";
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().workers[1].incarnation.value, 2U);
  kill(nodes[1]);
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(scripts[1]));
  say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  EXPECT_EQ(scripts[1]->job->incarnation, 3U) << "a new process is later than all incarnations of its workers";
  EXPECT_THAT(planned_workers(2), ElementsAre(0, 1, 2, 3));
  say(role_lost{.node = 1, .index = 1, .reason = "killed", .incarnation = 3});
  EXPECT_THAT(planned_workers(2), ElementsAre(0, 2, 3)) << "and its death is heard";
}

TEST_F(Coordinator, TwoNewLivesOfAWorkerAreNotTheSameThoughBothAreOrderedAtOnce) {
  begin();
  std::vector<std::string> said;
  const auto person = system.spawn([&](caf::event_based_actor* me) {
    for (int i = 0; i < 2; ++i)
      me->request(coordinator, caf::infinite, actor_order{.verb = role_verb::restart, .actor = "worker 1"})
          .then([&](const std::string& text) { said.push_back(text); }, [&](const caf::error& e) { said.push_back(explain(e)); });
  });
  run();
  EXPECT_THAT(said, ElementsAre("worker 1 is restarted", "worker 1 is restarted"));
  ASSERT_EQ(scripts[1]->orders.size(), 2U);
  EXPECT_EQ(scripts[1]->orders[0].incarnation, 1U);
  EXPECT_EQ(scripts[1]->orders[1].incarnation, 2U);
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().workers[1].incarnation.value, 2U);
}

TEST_F(Coordinator, AReturningNodeIsLaterThanAnIncarnationWhoseBeginWasNotReported) {
  begin();
  scripts[1]->never_obeys = true;
  const auto person = system.spawn([&](caf::event_based_actor* me) {
    me->request(coordinator, caf::infinite, actor_order{.verb = role_verb::restart, .actor = "worker 1"})
        .then([](const std::string&) {});
  });
  run();
  kill(nodes[1]);
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(scripts[1]));
  say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  EXPECT_EQ(scripts[1]->job->incarnation, 2U);
}

TEST_F(Coordinator, AWorkerThatCannotBeStartedAnewIsLost) {
  begin();
  scripts[1]->cannot_obey = "its device has no room";
  EXPECT_EQ(ask(actor_order{.verb = role_verb::restart, .actor = "worker 1"}), "no: its device has no room");
  EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3)) << "the round waits for nobody who is not there";
  EXPECT_THAT(seen->events,
              testing::Contains(HasSubstr("worker 1 (node-1) is lost: it could not be restarted: its device has no room")));
  EXPECT_EQ(seen->ends, 0);
  scripts[1]->cannot_obey = {};
  EXPECT_EQ(ask(actor_order{.verb = role_verb::restart, .actor = "worker 1"}), "worker 1 is restarted");
  EXPECT_EQ(scripts[1]->orders.back().incarnation, 2U) << "whatever became of incarnation 1";
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
}

TEST_F(Coordinator, SettingsThatMayChangeDoAndOthersAreNamed) {
  job.optimizer.lr = 0.1;
  begin();
  EXPECT_EQ(ask(change_order{.key = "optimizer.lr", .value = "0.05"}), "optimizer.lr is 0.05 from the next round on");
  EXPECT_EQ(scripts[2]->all<protocols::plan>().back().lr_scale, 0.5);
  for (const auto* wrong : {"fast", "", "0.1x"})
    EXPECT_THAT(ask(change_order{.key = "optimizer.lr", .value = wrong}), HasSubstr("is no number")) << wrong;
  for (const auto* wrong : {"0", "-1"})
    EXPECT_THAT(ask(change_order{.key = "optimizer.lr", .value = wrong}), HasSubstr("must be above 0")) << wrong;
  for (const auto* wrong : {"nan", "inf", "1e308"})
    EXPECT_THAT(ask(change_order{.key = "optimizer.lr", .value = wrong}), HasSubstr("is too far from the job's 0.1")) << wrong;
  EXPECT_THAT(ask(change_order{.key = "protocol.steps", .value = "5"}), HasSubstr("protocol sync has no protocol.steps"));
  EXPECT_THAT(ask(change_order{.key = "data.batch", .value = "5"}), HasSubstr("optimizer.lr, protocol.steps and log.level can"));
  EXPECT_THAT(ask(change_order{.key = "log.level", .value = "loud"}), HasSubstr("neither"));
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(2, 2, 2)) << "what is refused changes nothing";
  EXPECT_EQ(ask(change_order{.key = "log.level", .value = "debug"}), "log.level is debug");
  ask(change_order{.key = "optimizer.lr", .value = "0.2"});
  EXPECT_THAT(seen->events.back(), HasSubstr("plan 3: 4 workers, sync, period 1, learning rate times 2"));
}

TEST_F(Coordinator, ThePeriodOfLocalStepsMayChange) {
  job.protocol.name = "local";
  begin();
  EXPECT_EQ(ask(change_order{.key = "protocol.steps", .value = "7"}), "protocol.steps is 7 from the next round on");
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().period, 7U);
  for (const auto* wrong : {"1.5", ""})
    EXPECT_THAT(ask(change_order{.key = "protocol.steps", .value = wrong}), HasSubstr("no whole number")) << wrong;
  for (const auto* wrong : {"0", "-2", "5000000000"})
    EXPECT_THAT(ask(change_order{.key = "protocol.steps", .value = wrong}), HasSubstr("steps must be")) << wrong;
}

TEST_F(Coordinator, ThePeriodOfAProtocolThatWasAddedMayChangeByItsOwnName) {
  added = {protocols::paced_protocol()};
  job.protocol.name = "paced";
  begin();
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().period, 6U) << "its own from the first plan on";
  EXPECT_EQ(ask(change_order{.key = "protocol.pace", .value = "4"}), "protocol.pace is 4 from the next round on");
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().period, 4U);
  EXPECT_THAT(ask(change_order{.key = "protocol.pace", .value = "0"}), HasSubstr("pace must be"));
  EXPECT_THAT(ask(change_order{.key = "protocol.steps", .value = "5"}), HasSubstr("protocol paced has no protocol.steps"));
}

TEST_F(Coordinator, APeriodThatComesByPlanMayChangeUnlessTheProtocolChangesItItself) {
  job.protocol.name = "admm";
  begin();
  EXPECT_EQ(ask(change_order{.key = "protocol.steps", .value = "7"}), "protocol.steps is 7 from the next round on");
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().period, 7U);
}

TEST_F(Coordinator, APeriodThatTheProtocolChangesItselfStaysItsOwn) {
  job.protocol.name = "adacomm";
  begin();
  for (const auto* key : {"protocol.steps", "protocol.initial_steps"})
    EXPECT_THAT(ask(change_order{.key = key, .value = "7"}), ::testing::AnyOf(HasSubstr("has no"), HasSubstr("cannot change")));
  EXPECT_EQ(scripts[1]->all<protocols::plan>().back().period, 20U);
}

} // namespace
} // namespace troupe::actors
