// SPDX-License-Identifier: BSD-3-Clause
// Which of a cluster's jobs start, which wait, and for what: scripted nodes beside the coordinator's own.
#include "tests/actors/scripted_nodes.hpp"

#include <map>
#include <thread>

#include <caf/event_based_actor.hpp>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/messages/dialect.hpp"

namespace troupe::actors {
namespace {

using testing::HasSubstr;
using states = std::map<std::uint64_t, std::string>;

/// Node a holds no workers, b to d do; a job that has begun stays, for they never say that they are prepared.
class Queue : public Roles {
protected:
  cluster_control cluster = system.spawn<cluster_impl>(
      cluster_setup{.name = "lab", .nodes = {{"a", "127.0.0.1", true, false}, {"b"}, {"c"}, {"d"}}, .own = {}});
  std::map<std::string, node_actor> nodes;
  std::vector<std::string> told; ///< what the client was told
  caf::actor client = system.spawn([this] {
    return caf::behavior{
        [this](const job_waits& msg) { told.push_back("waits: " + msg.reason); },
        [](const job_begins&) {},
        [](const progress&) {},
        [](const evaluation_point&) {},
        [this](const job_says& msg) { told.push_back(msg.text); },
        [](const job_result& msg) { EXPECT_THAT(msg.reason, testing::AnyOf("stopped at the console", "the cluster ends")); }};
  });

  void TearDown() override {
    caf::anon_send_exit(cluster, caf::exit_reason::user_shutdown);
    run();
    for (const auto& [name, node] : nodes)
      kill(node);
    kill(client);
  }

  /// Until nothing is left to do, also on the threads on which the coordinator's own node loads a job's data.
  void run() {
    for (bool quiet = false; !quiet;) {
      const bool loaded = system.detached_actors() == 0; // asked first: they send before they end
      quiet = schedule.run_all() == 0 && loaded;
      if (!quiet)
        std::this_thread::yield();
    }
  }
  void join(const std::string& name) {
    auto how = std::make_shared<script>();
    how->silent = true;
    nodes[name] = system.spawn<node_actor::stateful_impl<scripted_node_state>>(how);
    caf::anon_send(cluster, node_hello{name, message_dialect(), 7}, nodes[name]);
    run();
  }
  void submit(std::uint32_t count) {
    actors::job job;
    job.data.train_samples = 50;
    job.data.test_samples = 10;
    job.model.layers = {"flatten", "linear 10"}; // a job that cannot be prepared would end
    job.cluster = {.nodes = count, .workers = count - 1};
    caf::anon_send(cluster, submit_job{job}, caf::actor_cast<client_actor>(client));
    run();
  }
  void end(std::uint64_t number) {
    caf::anon_send(cluster, cancel_job{number});
    run();
  }
  void pass(std::chrono::seconds time) {
    schedule.advance_time(time);
    run();
  }
  cluster_view look() {
    cluster_view seen;
    caf::scoped_actor person{system};
    auto request = person->request(cluster, caf::infinite, cluster_query{});
    run();
    request.receive([&](cluster_view& said) { seen = std::move(said); }, [](const caf::error& e) { FAIL() << explain(e); });
    return seen;
  }
  states jobs() {
    states all;
    for (const auto& each : look().jobs)
      all[each.number] = each.state;
    return all;
  }
};

TEST_F(Queue, AJobThatLacksANodeWhichIsNotHereHoldsUpNobody) {
  join("b");
  submit(3);
  submit(2);
  EXPECT_EQ(jobs(), (states{{1, "waits: it needs 3 nodes: node b runs job 2, node c has not joined, node d has not joined"},
                            {2, "runs"}}));
}

TEST_F(Queue, AJobThatWaitsForNodesThatAreBusyIsNotOvertakenOnThoseThatAreFree) {
  join("b");
  join("c");
  submit(2);
  submit(3);
  submit(2);
  EXPECT_EQ(jobs(),
            (states{{1, "runs"},
                    {2, "waits: it needs 3 nodes: node b runs job 1, node d has not joined"},
                    {3, "waits: it needs 2 nodes: node b runs job 1, node c is reserved for job 2, node d has not joined"}}));
  end(1);
  EXPECT_EQ(jobs(),
            (states{{2, "runs"}, {3, "waits: it needs 2 nodes: node b runs job 2, node c runs job 2, node d has not joined"}}));
}

TEST_F(Queue, OnNodesThatNobodyBeforeItNeedsAJobStarts) {
  join("b");
  join("c");
  join("d");
  submit(3);
  submit(3);
  submit(2);
  EXPECT_THAT(jobs()[2], HasSubstr("waits: it needs 3 nodes: node b runs job 1, node c runs job 1"));
  EXPECT_THAT(jobs()[3], HasSubstr("node d is reserved for job 2"));
  end(2);
  EXPECT_EQ(jobs(), (states{{1, "runs"}, {3, "runs"}}));
}

TEST_F(Queue, WhoWasPassedOverHasItsTurnOnceItsNodesAreHere) {
  join("b");
  join("c");
  submit(4);
  submit(2);
  EXPECT_EQ(jobs()[2], "runs");
  join("d");
  submit(2);
  EXPECT_THAT(jobs()[3], HasSubstr("node c is reserved for job 1, node d is reserved for job 1"));
  end(2);
  EXPECT_EQ(jobs()[1], "runs");
}

TEST_F(Queue, AJobThatLosesItsNodesBeforeItBeginsSaysForWhomItWaitsAndSinceWhenAndStartsWhenTheyAreBack) {
  join("b");
  join("c");
  submit(3);
  pass(std::chrono::seconds{2});
  for (const auto* each : {"b", "c"})
    caf::anon_send_exit(nodes[each], caf::exit_reason::kill);
  run();
  EXPECT_EQ(jobs()[1], "waits: it starts again");
  EXPECT_THAT(told.front(), HasSubstr("the job starts again: node b was lost before the job started"));
  pass(std::chrono::seconds{1});
  const std::string gone = " is gone: it was ended at once, at ..:..:.., ", absent = "node d has not joined";
  EXPECT_THAT(jobs()[1], testing::MatchesRegex("waits: it needs 3 nodes: node b" + gone + "node c" + gone + absent));
  EXPECT_EQ(told.back(), jobs()[1]);
  pass(std::chrono::seconds{600});
  EXPECT_EQ(look().jobs.front().since_s, 601);
  join("b");
  EXPECT_THAT(jobs()[1], testing::MatchesRegex("waits: it needs 3 nodes: node c" + gone + absent));
  EXPECT_EQ(look().jobs.front().since_s, 601) << "for another node, but it waits since then";
  join("c");
  EXPECT_EQ(jobs()[1], "runs");
  EXPECT_EQ(look().jobs.front().since_s, 0);
}

TEST_F(Queue, WhatNoNodesOfTheFileCouldServeIsRefused) {
  submit(5);
  EXPECT_EQ(jobs(), states{});
}

} // namespace
} // namespace troupe::actors
