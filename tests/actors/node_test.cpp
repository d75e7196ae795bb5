// SPDX-License-Identifier: BSD-3-Clause
// A real node from job to job, under CAF's testing scheduler; data is loaded when a test lets it.
#include "actors/node/node_actor.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <caf/actor_registry.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/roles/lane_router.hpp"
#include "tests/actors/scripted_nodes.hpp"

namespace troupe::actors {
namespace {

using testing::HasSubstr;

/// One node. Jobs differ in their key, which is their seed and the number of their samples, too.
class Node : public Roles {
protected:
  const std::size_t nobody = system.registry().running();
  node_control node;
  std::map<std::uint64_t, std::promise<void>> gates; ///< of those jobs whose data a test holds back
  std::map<std::uint64_t, std::string> prepared;     ///< what the node has answered, by job
  std::uint16_t lane_port = 0;                       ///< of the last of them
  std::string no_worker;                             ///< why none can be made; empty: it can
  std::uint64_t term = 0;                            ///< of the coordinator
  double orphan_s = 0;                               ///< 0: jobs end with it
  coordinator_actor coordinator = spawn_coordinator();

  /// `ends`: where its node tells it to stop.
  coordinator_actor spawn_coordinator(bool ends = false) {
    return system.spawn([ends](coordinator_actor::pointer self) -> coordinator_actor::behavior_type {
      return {[](const protocols::report&) {},
              [](const collected&) {},
              [](const evaluation&) {},
              [](const role_lost&) {},
              [](const peer_unreachable&) {},
              [](const file_saved&) {},
              [](const protocols::expired&) {},
              [](const protocols::caught_up&) {},
              [ends, self](const stop_job&) {
                if (ends)
                  self->quit();
              }};
    });
  }

  Node() {
    node_options options;
    options.added.sources = {{.name = "gated", .load = [this](const parameters&, std::uint64_t seed) -> result<data_pair> {
                                if (const auto gate = gates.find(seed); gate != gates.end())
                                  gate->second.get_future().wait();
                                return troupe::load_data({.train_samples = static_cast<std::int64_t>(seed), .test_samples = 5},
                                                         seed);
                              }}};
    auto moody = *protocols::find_protocol("sync");
    moody.name = "moody";
    moody.make_worker = [this, make = moody.make_worker](const auto& spec, auto self, auto seed) {
      if (!no_worker.empty())
        throw std::runtime_error(no_worker);
      return make(spec, self, seed);
    };
    options.added.protocols = {moody};
    node = system.spawn<node_impl>(options);
  }
  void TearDown() override {
    caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
    run_until([this] { return system.registry().running() == nobody; }); // threads that load use what is below
  }

  /// A job of one node, or of two with this as the second; two workers.
  static job job_of(std::uint64_t key, std::uint32_t nodes = 1) {
    actors::job job;
    job.seed = key;
    job.own_data.name = "gated";
    job.protocol.name = "moody";
    job.model.layers = {"flatten", "linear 10"};
    job.cluster = {.nodes = nodes, .workers = 2};
    return job;
  }
  /// `said` gets the answer when it comes, or else why there is none.
  template <class Answer, class Message>
  void request(Message msg, std::function<void(const Answer&)> said, std::function<void(std::string)> refused) {
    system.spawn([=, this](caf::event_based_actor* me) {
      me->request(node, caf::infinite, msg).then(said, [refused](const caf::error& e) { refused("no: " + explain(e)); });
    });
    run();
  }
  template <class Message>
  std::string obey(Message msg) {
    std::string out;
    system.spawn([&](caf::event_based_actor* me) {
      me->request(node, caf::infinite, msg)
          .then([&out] { out = "yes"; }, [&out](const caf::error& e) { out = "no: " + explain(e); });
    });
    run();
    return out;
  }
  void prepare(const job& job, std::vector<std::string> names = {"here"}) {
    auto& said = prepared[job.seed];
    request<node_prepared>(
        prepare_job{.job_key = job.seed,
                    .self = job.cluster.nodes - 1,
                    .job = job,
                    .coordinator = coordinator,
                    .names = std::move(names),
                    .term = term,
                    .orphan_s = orphan_s},
        [&](const node_prepared& ready) {
          said = std::to_string(ready.data_size) + " samples";
          lane_port = ready.lane_port;
        },
        [&](std::string why) { said = std::move(why); });
  }
  /// Data come from a thread of their own, and what comes over lanes does.
  template <class F>
  void run_until(F done) {
    while (!done())
      if (schedule.run_all() == 0)
        std::this_thread::yield();
  }
  /// Of one node.
  void start_job(std::uint64_t key) {
    prepare(job_of(key));
    run_until([&] { return !prepared[key].empty(); });
    EXPECT_EQ(obey(job_places{.nodes = {{0, "here", "127.0.0.1", 0}}, .workers = {{0, 0}, {1, 0}}, .holders = {{0, 0}}}), "yes");
  }
  /// What it answers to the coordinator that takes its job over.
  std::string adopt(std::uint64_t of_term, std::uint64_t key) {
    std::string out;
    request<adopted_part>(
        adopt_job{of_term, key, coordinator},
        [&out](const adopted_part& part) {
          for (const auto& who : part.standing.workers)
            out += fmt::format("{}worker {} of incarnation {}", out.empty() ? "" : ", ", who.worker.value, who.incarnation.value);
          out += part.lead ? "; it leads" : "";
        },
        [&out](std::string why) { out = std::move(why); });
    run_until([&out] { return !out.empty(); });
    return out;
  }
  static role_order restart(std::uint32_t worker, std::uint32_t incarnation) {
    return {role_verb::restart, "worker", worker, incarnation};
  }
};

TEST_F(Node, WhatAStoppedJobLoadsIsNotTheNextOnes) {
  gates[20], gates[30];
  prepare(job_of(20));
  caf::anon_send(node, stop_job{});
  run();
  EXPECT_EQ(prepared[20], "no: the job has been stopped");
  prepare(job_of(30));
  gates[20].set_value();
  while (schedule.run_all() == 0) // its data have come
    std::this_thread::yield();
  EXPECT_EQ(prepared[30], "");
  gates[30].set_value();
  run_until([this] { return !prepared[30].empty(); });
  EXPECT_EQ(prepared[30], "30 samples");
}

TEST_F(Node, ANewJobEndsTheWaitForTheOneBefore) {
  gates[20];
  prepare(job_of(20));
  prepare(job_of(30));
  EXPECT_EQ(prepared[20], "no: the job has been stopped");
  run_until([this] { return !prepared[30].empty(); });
  EXPECT_EQ(prepared[30], "30 samples");
  gates[20].set_value();
}

TEST_F(Node, ALaneToAnOlderProcessEndsWithoutAWord) {
  prepare(job_of(30, 2), {"there", "here"});
  run_until([this] { return !prepared[30].empty(); });
  std::string started;
  system.spawn([&](caf::event_based_actor* me) {
    const job_places places{.nodes = {{0, "there", "127.0.0.1", 0}, {1, "here", "127.0.0.1", lane_port}},
                            .workers = {{0, 1}, {1, 1}},
                            .holders = {{0, 0}}};
    me->request(node, caf::infinite, places)
        .then([&] { started = "yes"; }, [&](const caf::error& e) { started = "no: " + explain(e); });
  });
  run();
  caf::anon_send(node, node_place{0, "there", "127.0.0.1", 0, 1});
  const auto lane_ends = [&](std::uint32_t life) {
    caf::anon_send(node, lane_event{{30, 0}, 0, life, lane_event::kind::down, "it is gone"});
    run();
    return started;
  };
  EXPECT_EQ(lane_ends(0), "") << "it waits for the lane to the new one";
  EXPECT_EQ(lane_ends(1), "no: no lane to node there: it is gone");
}

TEST_F(Node, LanesHaveTheNamesOfTheirJobsNodes) {
  start_job(20);
  prepare(job_of(30, 2), {"there", "here"});
  run_until([this] { return !prepared[30].empty(); });
  ASSERT_EQ(prepared[30], "30 samples");
  const auto there = net::lane_hub::open({.self = {0}, .job_key = 30, .security = {}, .names = {}, .allocate = {}},
                                         std::make_shared<lane_router>(node_control{}));
  there->connect({1}, "127.0.0.1", lane_port, std::chrono::seconds{60});
  std::vector<link_report> links;
  run_until([&, this] {
    request<node_report>(
        inspect_query{}, [&](const node_report& said) { links = said.links; }, [](const std::string&) {});
    return !links.empty();
  });
  EXPECT_EQ(links[0].peer, "there") << "it has not been started yet";
}

TEST_F(Node, ALifeThatBeginsAnewInTheSameJobHasItsDataStill) {
  gates[20].set_value(); // once: a second load would wait for ever
  start_job(20);
  gates[20] = {};
  prepared[20].clear();
  prepare(job_of(20));
  run_until([this] { return !prepared[20].empty(); });
  EXPECT_EQ(prepared[20], "20 samples");
  EXPECT_EQ(obey(job_places{.nodes = {{0, "here", "127.0.0.1", 0}}, .workers = {{0, 0}, {1, 0}}, .holders = {{0, 0}}}), "yes");
  prepare(job_of(30)); // another job loads its own
  run_until([this] { return !prepared[30].empty(); });
  EXPECT_EQ(prepared[30], "30 samples");
  gates[20].set_value();
}

TEST_F(Node, AWorkerThatCannotBeStartedAnewLeavesTheOthersToTheirLives) {
  start_job(20);
  no_worker = "its device has no room";
  EXPECT_EQ(obey(restart(0, 1)), "no: its device has no room");
  no_worker = {};
  EXPECT_EQ(obey(restart(1, 1)), "yes");
  EXPECT_EQ(obey(restart(0, 2)), "yes");
}

TEST_F(Node, AJobWhoseCoordinatorIsGoneEnds) {
  start_job(20);
  kill(coordinator);
  EXPECT_EQ(obey(restart(0, 1)), "no: no job runs here");
}

TEST_F(Node, AJobWhoseCoordinatorIsGoneIsPreparedNoLonger) {
  gates[20];
  prepare(job_of(20));
  kill(coordinator);
  EXPECT_EQ(prepared[20], "no: the job has been stopped");
  gates[20].set_value();
}

// A leader that stood still says late that its job is over, when another one's runs there.
TEST_F(Node, ACoordinatorThatWasReplacedIsNotObeyedAnyMore) {
  start_job(20);
  const auto before = std::exchange(coordinator, spawn_coordinator());
  start_job(30);
  caf::send_as(before, node, stop_job{true, "its shard was lost"});
  run();
  EXPECT_EQ(obey(restart(0, 1)), "yes") << "the new job runs";
  caf::send_as(coordinator, node, stop_job{});
  run();
  EXPECT_EQ(obey(restart(0, 2)), "no: no job runs here");
  kill(before);
}

TEST_F(Node, ItsPartOfAJobThatOutlivesItsCoordinatorGoesOnForWhoeverLeadsNext) {
  orphan_s = 30;
  start_job(20);
  kill(std::exchange(coordinator, spawn_coordinator()));
  EXPECT_EQ(obey(restart(0, 1)), "yes") << "its roles live";
  std::optional<job_standing> has;
  request<std::optional<job_standing>>(
      standing_query{}, [&](const std::optional<job_standing>& said) { has = said; }, [](const std::string&) {});
  ASSERT_TRUE(has);
  EXPECT_EQ(has->job_key, 20U);
  EXPECT_EQ(has->workers, (std::vector<protocols::member>{{{0}, {1}}, {{1}, {0}}}));
  EXPECT_EQ(has->holders, std::vector{0U});
  EXPECT_TRUE(has->evaluates);
  EXPECT_EQ(adopt(1, 20), "worker 0 of incarnation 1, worker 1 of incarnation 0; it leads");
  schedule.advance_time(std::chrono::seconds{31});
  run();
  EXPECT_EQ(obey(restart(0, 2)), "yes") << "it has a coordinator again";
}

TEST_F(Node, ItsPartEndsIfNobodyLeadsForTooLong) {
  orphan_s = 30;
  start_job(20);
  kill(std::exchange(coordinator, spawn_coordinator()));
  schedule.advance_time(std::chrono::seconds{29});
  run();
  EXPECT_EQ(obey(restart(0, 1)), "yes");
  schedule.advance_time(std::chrono::seconds{2});
  run();
  EXPECT_EQ(obey(restart(0, 2)), "no: no job runs here");
  EXPECT_EQ(adopt(1, 20), "no: its part of the job has ended");
}

TEST_F(Node, NoCoordinatorOfAnOlderTermHasIt) {
  orphan_s = 30;
  term = 5;
  start_job(20);
  kill(std::exchange(coordinator, spawn_coordinator()));
  EXPECT_EQ(adopt(4, 20), "no: another coordinator has this node now");
  EXPECT_EQ(adopt(6, 21), "no: its part of the job has ended");
  EXPECT_EQ(adopt(6, 20), "worker 0 of incarnation 0, worker 1 of incarnation 0; it leads");
  prepare(job_of(30));
  EXPECT_EQ(prepared[30], "no: another coordinator has this node now") << "term 5";
}

// Its last coordinator has decided how the job ends, and ends itself, when the next job is there already.
TEST_F(Node, ACoordinatorThatEndsInOrderWhenTheNextJobIsThereDisturbsNothing) {
  const auto ends = spawn_coordinator(true);
  const auto next = std::exchange(coordinator, ends);
  start_job(20);
  coordinator = next;
  start_job(30);
  caf::anon_send(ends, stop_job{});
  run();
  EXPECT_EQ(obey(restart(0, 1)), "yes");
}

TEST_F(Node, LooksAroundAreOneAfterTheOther) {
  const auto before = system.registry().running();
  std::string name = std::filesystem::temp_directory_path() / "troupe-look-XXXXXX";
  const int file = mkstemp(name.data());
  ASSERT_TRUE(file >= 0 && ftruncate(file, std::int64_t{1} << 32) == 0) << name;
  for (int i = 0; i < 3; ++i)
    request<node_probe>(
        probe_query{.data = {.source = "csv", .path = name}}, [](const node_probe&) {}, [](const std::string&) {});
  EXPECT_EQ(system.registry().running(), before + 3 + 1) << "those who ask, and one who reads";
  close(file);
  std::filesystem::remove(name);
}

TEST_F(Roles, ANodeWhoseLanePortIsTakenSaysSoAndLives) {
  auto taken = net::lane_hub::open({}, std::make_shared<lane_router>(node_control{}));
  node_actor node = system.spawn<node_impl>(node_options{"127.0.0.1", taken->port()});
  actors::job job;
  job.cluster.nodes = 2;
  caf::scoped_actor self{system};
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto answer = self->request(node, caf::infinite, prepare_job{1, 1, job, {}});
    run();
    answer.receive([](const node_prepared&) { FAIL() << "two lanes at one port"; },
                   [&](const caf::error& e) { EXPECT_THAT(explain(e), HasSubstr(std::to_string(taken->port()))); });
  }
  kill(node);
}

} // namespace
} // namespace troupe::actors
