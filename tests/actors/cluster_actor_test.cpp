// SPDX-License-Identifier: BSD-3-Clause
// A cluster and those that use it: its queue and its nodes, under CAF's testing scheduler.
#include "actors/cluster/cluster_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/system.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

/// Nodes a (the coordinator's), b and c, of which none has joined.
class Cluster : public testing::Test {
protected:
  tests::testing_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  cluster_control cluster = system.spawn<cluster_impl>(cluster_setup{.name = "lab", .nodes = {{"a"}, {"b"}, {"c"}}, .own = {}});
  std::vector<caf::actor> others;

  void TearDown() override {
    for (const auto& other : others)
      caf::anon_send_exit(other, caf::exit_reason::kill);
    caf::anon_send_exit(cluster, caf::exit_reason::kill);
    schedule.run();
  }

  caf::actor client() {
    return others.emplace_back(system.spawn([] { return caf::behavior{[](const job_waits&) {}, [](const job_result&) {}}; }));
  }
  void submit(const caf::actor& client) {
    actors::job job;
    job.cluster = {.nodes = 2, .workers = 1};
    caf::anon_send(cluster, submit_job{job}, caf::actor_cast<client_actor>(client));
    schedule.run();
  }
  std::vector<std::uint64_t> jobs() {
    std::vector<std::uint64_t> numbers;
    caf::scoped_actor person{system};
    auto request = person->request(cluster, caf::infinite, cluster_query{});
    schedule.run();
    request.receive(
        [&](const cluster_view& all) {
          for (const auto& each : all.jobs)
            numbers.push_back(each.number);
        },
        [](const caf::error& e) { FAIL() << explain(e); });
    return numbers;
  }
};

TEST_F(Cluster, AllJobsOfAClientThatIsGoneEnd) {
  const auto first = client(), second = client();
  submit(first);
  submit(second);
  submit(first);
  submit(first);
  EXPECT_EQ(jobs(), (std::vector<std::uint64_t>{1, 2, 3, 4}));
  caf::anon_send_exit(first, caf::exit_reason::kill);
  schedule.run();
  EXPECT_EQ(jobs(), std::vector<std::uint64_t>{2});
}

TEST_F(Cluster, TheCoordinatorsNodeCannotBeDrainedAndItIsSaidWhy) {
  std::string why;
  caf::scoped_actor person{system};
  auto request = person->request(cluster, caf::infinite, leave_cluster{"a"});
  schedule.run();
  request.receive([] {}, [&](const caf::error& e) { why = explain(e); });
  EXPECT_THAT(why, testing::StartsWith("node a is the coordinator's: it takes part in every job"));
}

/// What a node's process would write to its log.
class NodeOfACluster : public Cluster {
protected:
  std::vector<std::string> log;

  void join(const std::string& name) {
    const auto node = others.emplace_back(system.spawn([this] {
      return caf::behavior{[this](const node_notice& msg) { log.push_back(msg.text); }, [](const led_by&) {}};
    }));
    caf::anon_send(cluster, node_hello{name, message_dialect(), 7, {}}, caf::actor_cast<node_actor>(node));
    schedule.run();
  }
  /// Empty: it was done.
  template <class Order>
  std::string order(Order msg) {
    std::string why;
    caf::scoped_actor person{system};
    auto request = person->request(cluster, caf::infinite, std::move(msg));
    schedule.run();
    request.receive([] {}, [&](const caf::error& e) { why = explain(e); });
    return why;
  }
  cluster_view view() {
    cluster_view out;
    caf::scoped_actor person{system};
    auto request = person->request(cluster, caf::infinite, cluster_query{});
    schedule.run();
    request.receive([&](cluster_view& all) { out = std::move(all); }, [](const caf::error& e) { FAIL() << explain(e); });
    return out;
  }
};

TEST_F(NodeOfACluster, IsDrainedAndTakenBackAndItsLogSaysSo) {
  using testing::ElementsAre, testing::HasSubstr;
  join("b");
  actors::job job;
  job.cluster = {.nodes = 3, .workers = 2}; // c is missing, too
  caf::anon_send(cluster, submit_job{job}, caf::actor_cast<client_actor>(client()));
  EXPECT_EQ(order(undrain_node{"b"}), "node b is not drained");
  EXPECT_EQ(order(undrain_node{"c"}), "no node \"c\" is here");
  EXPECT_EQ(order(leave_cluster{"b"}), "");
  EXPECT_TRUE(view().members[1].leaving);
  EXPECT_THAT(view().jobs[0].state, HasSubstr("node b is drained, node c has not joined"));
  EXPECT_THAT(log, ElementsAre(HasSubstr("is drained: the cluster places nothing here until `undrain b`")));
  EXPECT_EQ(order(undrain_node{"b"}), "");
  EXPECT_FALSE(view().members[1].leaving);
  EXPECT_EQ(view().members[1].leaving_s, 0);
  EXPECT_THAT(log, ElementsAre(testing::_, HasSubstr("is undrained")));
}

TEST_F(NodeOfACluster, ThatLeavesBecauseItEndsIsNotTakenBack) {
  join("b");
  EXPECT_EQ(order(leave_cluster{"b", true}), "");
  EXPECT_EQ(order(leave_cluster{"b", true, "Traceback"}), "") << "in no job, it has nobody to tell";
  EXPECT_EQ(order(undrain_node{"b"}), "node b leaves because its process ends; start it again");
  EXPECT_TRUE(log.empty()) << "it knows";
}

TEST_F(Cluster, ADetachedJobOutlivesWhoeverSubmittedItAndWhoeverFollowsIt) {
  actors::job job;
  job.cluster = {.nodes = 2, .workers = 1};
  const auto submitter = client();
  caf::anon_send(cluster, submit_job{job, false, true}, caf::actor_cast<client_actor>(submitter));
  schedule.run();
  caf::anon_send_exit(submitter, caf::exit_reason::kill);
  schedule.run();
  EXPECT_EQ(jobs(), std::vector<std::uint64_t>{1});
  std::vector<std::string> waits;
  bool ended = false;
  const auto follow = [&] {
    const auto follower = others.emplace_back(system.spawn([&] {
      return caf::behavior{[&](const job_waits& msg) { waits.push_back(msg.reason); }, [&](const job_result&) { ended = true; }};
    }));
    caf::anon_send(cluster, attach_job{1}, caf::actor_cast<client_actor>(follower));
    schedule.run();
    return follower;
  };
  const auto follower = follow();
  EXPECT_THAT(waits, testing::ElementsAre(testing::HasSubstr("node b has not joined")));
  caf::anon_send_exit(follower, caf::exit_reason::kill);
  schedule.run();
  EXPECT_EQ(jobs(), std::vector<std::uint64_t>{1});
  caf::anon_send(cluster, cancel_job{1});
  schedule.run();
  EXPECT_TRUE(jobs().empty());
  follow();
  EXPECT_TRUE(ended) << "its result is kept for whoever asks later";
}

TEST_F(Cluster, AJobThatWasNotDetachedIsNobodyElses) {
  submit(client());
  std::string why;
  caf::scoped_actor person{system};
  auto request = person->request(cluster, caf::infinite, attach_job{1}, caf::actor_cast<client_actor>(client()));
  schedule.run();
  request.receive([](const submit_job&) {}, [&](const caf::error& e) { why = explain(e); });
  EXPECT_EQ(why, "job 1 was submitted without --detach, and belongs to its submitter");
}

} // namespace
} // namespace troupe::actors
