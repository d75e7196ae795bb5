// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster, under CAF's testing scheduler, with a cluster that answers when it is told to.
#include "apps/submitter.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <gtest/gtest.h>

#include "actors/messages/cluster.hpp"
#include "actors/system.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::apps {
namespace {

TEST(Submitter, CtrlCBeforeTheJobHasANumberCancelsItOnceItHas) {
  signal_waiter signals;
  tests::testing_config config;
  caf::actor_system system{config};
  auto& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  caf::typed_response_promise<std::uint64_t> promise;
  std::vector<std::uint64_t> cancelled;
  const auto cluster = system.spawn([&](caf::event_based_actor* me) {
    return caf::behavior{
        [&, me](const actors::submit_job&, const actors::client_actor&) {
          return promise = me->make_response_promise<std::uint64_t>();
        },
        [&](const actors::cancel_job& msg) { cancelled.push_back(msg.number); },
        [&](std::uint64_t number) { promise.deliver(number); },
    };
  });
  const auto display = std::make_shared<run_display>(actors::job{}, true, "", signals);
  const auto client =
      submit(system, {.cluster = caf::actor_cast<actors::cluster_actor>(cluster), .request = {}, .display = display});
  schedule.run();
  caf::anon_send(client, actors::stop_job{});
  schedule.run();
  EXPECT_TRUE(cancelled.empty()) << "it has no number yet";
  caf::anon_send(cluster, std::uint64_t{5});
  schedule.run();
  EXPECT_EQ(cancelled, std::vector<std::uint64_t>{5});
  caf::anon_send_exit(client, caf::exit_reason::kill);
  caf::anon_send_exit(cluster, caf::exit_reason::kill);
  schedule.run();
}

/// Why nobody can attach to a job that is `its`, who asks with `asked`; empty: they can.
std::string refusal_to_attach(const actors::job& its, const actors::job& asked) {
  signal_waiter signals;
  tests::testing_config config;
  caf::actor_system system{config};
  auto& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const auto cluster = system.spawn([&](caf::event_based_actor*) {
    return caf::behavior{[&](const actors::attach_job&, const actors::client_actor&) { return actors::submit_job{.job = its}; }};
  });
  const auto display = std::make_shared<run_display>(asked, true, "", signals);
  const auto client = submit(
      system,
      {.cluster = caf::actor_cast<actors::cluster_actor>(cluster), .request = {.job = asked}, .display = display, .attach = 5});
  schedule.run();
  const auto refused = display->take_result();
  caf::anon_send_exit(client, caf::exit_reason::kill);
  caf::anon_send_exit(cluster, caf::exit_reason::kill);
  schedule.run();
  return refused ? refused->reason : "";
}

TEST(Submitter, AttachesToAResumedJobWhereverItBegan) {
  actors::job its, asked;
  its.checkpoint = asked.checkpoint = {.dir = "/all", .every_steps = 10};
  its.checkpoint.resume = "/all/step-40";
  EXPECT_EQ(refusal_to_attach(its, asked), "");
  asked.checkpoint.keep = 1;
  EXPECT_EQ(refusal_to_attach(its, asked), "job 5 was submitted from another file, or with other flags; give those");
}

} // namespace
} // namespace troupe::apps

int main(int argc, char** argv) {
  troupe::actors::init_message_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
