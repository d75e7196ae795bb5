// SPDX-License-Identifier: BSD-3-Clause
// Decentralized jobs: how replicas are sent, assembled and averaged. CAF's testing scheduler, scripted neighbours.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/roles/evaluator/evaluator_actor.hpp"
#include "actors/roles/lane_router.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

using testing::Each;
using testing::ElementsAre;

/// What a scripted worker, evaluator or coordinator has heard.
struct heard {
  std::vector<std::pair<wire::peer_part, kernels::buffer>> replicas;
  std::vector<evaluation> evaluations;
};

class listening_worker_state {
public:
  static inline const char* name = "test.worker";
  listening_worker_state(params_actor::stateful_pointer<listening_worker_state>, std::shared_ptr<heard> h)
      : heard_(std::move(h)) {}
  params_actor::behavior_type make_behavior() {
    return {
        [](const wire::params_part&, const kernels::buffer&) {},
        [this](const wire::peer_part& head, const kernels::buffer& payload) { heard_->replicas.emplace_back(head, payload); }};
  }

private:
  std::shared_ptr<heard> heard_;
};

class listening_coordinator_state {
public:
  static inline const char* name = "test.coordinator";
  listening_coordinator_state(coordinator_actor::stateful_pointer<listening_coordinator_state>, std::shared_ptr<heard> h)
      : heard_(std::move(h)) {}
  coordinator_actor::behavior_type make_behavior() {
    return {[](const protocols::report&) {},
            [](const collected&) {},
            [this](const evaluation& msg) { heard_->evaluations.push_back(msg); },
            [](const role_lost&) {},
            [](const peer_unreachable&) {},
            [](const file_saved&) {},
            [](const protocols::expired&) {},
            [](const protocols::caught_up&) {},
            [](const stop_job&) {}};
  }

private:
  std::shared_ptr<heard> heard_;
};

class GossipRoles : public testing::Test {
protected:
  tests::testing_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<kernels::backend> queue = kernels::open_backend({.device = "cpu"});
  std::shared_ptr<heard> far = std::make_shared<heard>();
  std::vector<caf::actor> spawned;

  void TearDown() override {
    for (const auto& each : spawned)
      caf::anon_send_exit(each, caf::exit_reason::kill);
    schedule.run();
  }
  template <class Actor>
  Actor ends_with_the_test(Actor actor) {
    spawned.push_back(caf::actor_cast<caf::actor>(actor));
    return actor;
  }
  template <class... Parts>
  void say(const auto& to, Parts... parts) {
    caf::anon_send(to, std::move(parts)...);
    schedule.run();
  }
  kernels::buffer floats(std::int64_t count, float value) {
    auto out = queue->allocate_host(static_cast<std::size_t>(count) * sizeof(float));
    std::fill_n(out.as<float>(), count, value);
    return out;
  }
  static protocols::plan plan_of(std::uint32_t epoch, std::initializer_list<std::uint32_t> workers) {
    protocols::plan out{.epoch = {epoch}, .batch = 2, .data_size = 20};
    for (auto worker : workers)
      out.workers.push_back({{worker}, {}});
    return out;
  }
};

// -- the evaluator

class AveragingEvaluator : public GossipRoles {
protected:
  data_pair data = *load_data({.source = "digits", .train_samples = 20, .test_samples = 10}, 1);
  std::shared_ptr<const model> net =
      std::make_shared<const model>(*model::build({.layers = {"flatten", "linear 10"}}, data.train->format()));
  std::int64_t count = net->layout().floats();
  evaluator_actor evaluator;

  void SetUp() override {
    auto allocate = [this](std::size_t bytes) { return queue->allocate_host(bytes); };
    evaluator_setup setup{data,
                          20,
                          7,
                          net,
                          queue,
                          std::make_shared<params_assembler>(flat_range{0, count}, allocate),
                          std::make_shared<peer_assembler>(flat_range{0, count}, allocate)};
    evaluator = ends_with_the_test(system.spawn<evaluator_impl>(std::move(setup)));
    auto peers = std::make_shared<role_peers>();
    peers->coordinator = ends_with_the_test(system.spawn<coordinator_actor::stateful_impl<listening_coordinator_state>>(far));
    say(evaluator, peers_ptr{peers});
    say(evaluator, plan_of(1, {0, 1, 2}));
  }
  void replica(std::uint32_t worker, std::uint64_t ver, float value, double weight = 1) {
    say(evaluator, wire::peer_part{protocols::evaluator, {.from = {{worker}, {}}, .round = ver, .weight = weight}, {0, count}},
        floats(count, value));
  }
  void nothing(std::uint32_t worker, std::uint64_t ver) {
    say(evaluator, wire::peer_part{protocols::evaluator, {.from = {{worker}, {}}, .round = ver, .weight = 0}, {0, 0}},
        kernels::buffer{});
  }
  /// Every parameter of what was evaluated, each time.
  std::vector<float> averages() const {
    std::vector<float> out;
    for (const auto& each : far->evaluations) {
      out.push_back(*each.parameters.as<float>());
      EXPECT_THAT((each.parameters.span<float>()), Each(out.back()));
    }
    return out;
  }
};

TEST_F(AveragingEvaluator, TheReplicasOfAllWorkersAreAveraged) {
  replica(2, 7, 6); // before anybody asked here: another node's lane is faster
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 7, 1);
  EXPECT_THAT(averages(), ElementsAre());
  replica(1, 7, 2);
  EXPECT_THAT(averages(), ElementsAre(3));
  EXPECT_EQ(far->evaluations[0].ver.value, 7U);
}

TEST_F(AveragingEvaluator, NobodyWaitsForTheDead) {
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 7, 1);
  replica(1, 7, 2);
  say(evaluator, plan_of(2, {0, 2}));
  say(evaluator, protocols::fetch_order{{7}}); // the coordinator asks again
  EXPECT_THAT(averages(), ElementsAre());
  replica(2, 7, 3);
  EXPECT_THAT(averages(), ElementsAre(2)) << "of those who are left";
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 7, 1);
  ASSERT_EQ(far->evaluations.size(), 2U) << "what is known is told again, to a coordinator that may not have heard it";
  EXPECT_THAT(averages().back(), 2) << "and not evaluated again";
}

TEST_F(AveragingEvaluator, TheDeathOfTheLastOneMissingIsEnough) {
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 7, 1);
  replica(2, 7, 3);
  say(evaluator, plan_of(2, {0, 2}));
  EXPECT_THAT(averages(), ElementsAre(2));
}

TEST_F(AveragingEvaluator, ALatecomerIsNotWaitedFor) {
  say(evaluator, protocols::fetch_order{{7}});
  say(evaluator, plan_of(2, {0, 1, 2, 3}));
  for (std::uint32_t worker = 0; worker < 3; ++worker)
    replica(worker, 7, 4);
  EXPECT_THAT(averages(), ElementsAre(4));
}

TEST_F(AveragingEvaluator, WhatIsOfAnotherVersionIsNotAveraged) {
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 6, 100);
  replica(1, 7, 2);
  replica(2, 7, 2);
  EXPECT_THAT(averages(), ElementsAre());
  replica(0, 7, 2);
  EXPECT_THAT(averages(), ElementsAre(2));
}

TEST_F(AveragingEvaluator, ReplicasWithoutWeightAreLeftOut) {
  say(evaluator, protocols::fetch_order{{7}});
  replica(0, 7, 100, 0);
  nothing(1, 7);
  replica(2, 7, 5);
  EXPECT_THAT(averages(), ElementsAre(5));
  say(evaluator, protocols::fetch_order{{8}});
  replica(0, 8, 100, 0);
  nothing(1, 8);
  replica(2, 8, 50, 0);
  EXPECT_THAT(averages(), ElementsAre(5, 75)) << "all have diverged: that is what there is";
}

/// A lead that takes over is asked once more for the version that is being evaluated.
TEST_F(AveragingEvaluator, WhatIsAskedMeanwhileIsEvaluatedInItsPlaceAndWhole) {
  const auto asks = [this](std::uint64_t key, std::uint64_t ver, float value) {
    wire::params_part head{};
    head.where = {0, count};
    head.params.key = key;
    head.params.ver = {ver};
    caf::anon_send(evaluator, head, floats(count, value));
  };
  asks(1, 7, 1);
  schedule.run();
  asks(2, 7, 1);
  asks(3, 7, 1);
  schedule.run();
  asks(4, 8, 2);
  asks(5, 9, 3);
  schedule.run();
  EXPECT_THAT(averages(), ElementsAre(1, 1, 3));
  EXPECT_EQ(far->evaluations[0].test_loss, far->evaluations[1].test_loss);
  EXPECT_EQ(far->evaluations[0].train_loss, far->evaluations[1].train_loss);
  EXPECT_EQ(far->evaluations[2].ver.value, 9U);
}

// -- the worker

/// Does what the test wants.
struct scripted_machine final : protocols::worker {
  std::vector<protocols::peer_message> messages;
  protocols::worker_effects on(const protocols::plan&) override { return {}; }
  protocols::worker_effects on(const protocols::params&) override { return {}; }
  protocols::worker_effects on(const protocols::computed&) override { return {}; }
  protocols::worker_effects on(const protocols::peer_message& msg) override {
    messages.push_back(msg);
    return {};
  }
  /// Asked for a version, it sends to the worker of that number.
  protocols::worker_effects on(const protocols::fetch_order& msg) override {
    const bool far = msg.ver.value < 9;
    return {protocols::send_peer{far ? protocols::worker_id{static_cast<std::uint32_t>(msg.ver.value)} : protocols::evaluator,
                                 {.from = {{0}, {}}, .round = msg.ver.value, .weight = 0.5}}};
  }
};

struct replica_of_compute {
  kernels::buffer parameters;
  bool finite = true;
};

class scripted_compute_state {
public:
  static inline const char* name = "test.compute";
  scripted_compute_state(compute_actor::stateful_pointer<scripted_compute_state>, std::shared_ptr<replica_of_compute> r)
      : replica_(std::move(r)) {}
  compute_actor::behavior_type make_behavior() {
    return {[](const compute_request&) { return compute_result{}; },
            [](const ahead_request&) {},
            [](const step_request&) {},
            [](const mix_request&) {},
            [](const dual_request&) {},
            [this](const sum_request&) {
              return sum_result{replica_->parameters, replica_->finite};
            },
            [](const keep_request&) {},
            [](compute_finished) {}};
  }

private:
  std::shared_ptr<replica_of_compute> replica_;
};

class silent_loader_state {
public:
  static inline const char* name = "test.loader";
  explicit silent_loader_state(loader_actor::stateful_pointer<silent_loader_state>) {}
  loader_actor::behavior_type make_behavior() {
    return {[](const slice&) { return loaded_batch{}; }};
  }
};

class GossipingWorker : public GossipRoles {
protected:
  static constexpr std::uint32_t behind = 2;
  std::shared_ptr<const model> net = std::make_shared<const model>(*model::build({.layers = {"linear 4"}}, {{3}, 4}));
  std::int64_t count = net->layout().floats();
  std::shared_ptr<scripted_machine> machine = std::make_shared<scripted_machine>();
  std::shared_ptr<replica_of_compute> own = std::make_shared<replica_of_compute>();
  std::shared_ptr<heard> evaluator = std::make_shared<heard>();
  worker_actor worker;

  void SetUp() override {
    auto allocate = [this](std::size_t bytes) { return queue->allocate_host(bytes); };
    own->parameters = floats(count, 3);
    worker_setup setup;
    setup.net = net;
    setup.receive_buffers = std::make_shared<params_assembler>(flat_range{0, count}, allocate);
    setup.from_peers = std::make_shared<peer_assembler>(flat_range{0, count}, allocate);
    setup.machine = machine;
    setup.compute = ends_with_the_test(system.spawn<compute_actor::stateful_impl<scripted_compute_state>>(own));
    setup.loader = ends_with_the_test(system.spawn<loader_actor::stateful_impl<silent_loader_state>>());
    worker = ends_with_the_test(system.spawn<worker_impl>(std::move(setup)));
    auto peers = std::make_shared<role_peers>();
    for (int i = 0; i < 3; ++i)
      peers->workers.push_back(ends_with_the_test(system.spawn<params_actor::stateful_impl<listening_worker_state>>(far)));
    peers->evaluator = ends_with_the_test(system.spawn<params_actor::stateful_impl<listening_worker_state>>(evaluator));
    peers->is_behind = [](protocols::worker_id who) { return who.value == behind; };
    say(worker, peers_ptr{peers});
    say(worker, plan_of(1, {0, 1, 2}));
  }
};

TEST_F(GossipingWorker, ItsReplicaGoesWholeWithItsWeight) {
  say(worker, protocols::fetch_order{{1}});
  ASSERT_EQ(far->replicas.size(), 1U);
  const auto& [head, payload] = far->replicas[0];
  EXPECT_EQ(head, (wire::peer_part{{1}, {.from = {{0}, {}}, .round = 1, .weight = 0.5}, {0, count}}));
  EXPECT_EQ(payload, own->parameters);
}

TEST_F(GossipingWorker, WhatAPeerThatIsBehindWouldGetComesBack) {
  say(worker, protocols::fetch_order{{behind}});
  EXPECT_TRUE(far->replicas.empty());
  EXPECT_THAT(machine->messages, ElementsAre(protocols::peer_message{.from = {{0}, {}}, .round = behind, .weight = 0.5}));
}

TEST_F(GossipingWorker, AReplicaThatIsNotFiniteStaysWhereItIs) {
  own->finite = false;
  say(worker, protocols::fetch_order{{1}});
  EXPECT_TRUE(far->replicas.empty());
  EXPECT_EQ(machine->messages.size(), 1U) << "its weight comes back";
  say(worker, protocols::fetch_order{{9}});
  ASSERT_EQ(evaluator->replicas.size(), 1U) << "the evaluator sees it";
  EXPECT_EQ(evaluator->replicas[0].first.message.weight, 0);
}

TEST_F(GossipingWorker, WhatComesInPartsIsHeardWhole) {
  const protocols::peer_message head{.from = {{1}, {}}, .round = 5, .weight = 0.25};
  const auto whole = floats(count, 8);
  say(worker, wire::peer_part{{0}, head, {0, 16}}, whole.slice(0, 64));
  EXPECT_TRUE(machine->messages.empty());
  say(worker, wire::peer_part{{0}, head, {16, count}}, whole.slice(64, whole.bytes() - 64));
  ASSERT_EQ(machine->messages.size(), 1U);
  EXPECT_EQ(machine->messages[0].weight, 0.25);
  EXPECT_NE(machine->messages[0].data, protocols::ticket{});
}

// -- to another node

struct remembering_hub final : net::lane_hub {
  void leave() override {}
  std::vector<std::pair<wire::peer_part, int>> sent;
  std::size_t bytes = 0;
  std::uint16_t port() const override { return 0; }
  void connect(net::node_id, const std::string&, std::uint16_t, std::chrono::milliseconds, std::uint32_t) override {}
  void send(net::node_id, wire::message msg, kernels::buffer payload, int priority) override {
    sent.emplace_back(std::get<wire::peer_part>(msg), priority);
    bytes += payload.bytes();
  }
  void close(net::node_id, const std::string&) override {}
  std::vector<net::lane_stats> stats() const override { return {}; }
};

TEST_F(GossipRoles, AReplicaGoesToAnotherNodeInPartitionsThatKeepTheirOrder) {
  auto hub = std::make_shared<remembering_hub>();
  auto proxy = ends_with_the_test(system.spawn<params_proxy_impl>(proxy_target{hub, net::node_id{1}}));
  const std::int64_t count = (1 << 18) + 16; // floats: a partition and a bit
  say(proxy, wire::peer_part{{1}, {.from = {{0}, {}}, .round = 3}, {0, count}}, floats(count, 1));
  ASSERT_EQ(hub->sent.size(), 2U);
  EXPECT_EQ(hub->sent[0].first.where.end, hub->sent[1].first.where.begin);
  EXPECT_EQ(hub->sent[1].first.where.end, count);
  EXPECT_EQ(hub->sent[0].second, hub->sent[1].second) << "one priority: the lane keeps their order";
  EXPECT_EQ(hub->bytes, static_cast<std::size_t>(count) * sizeof(float));
  say(proxy, wire::peer_part{protocols::evaluator, {.from = {{0}, {}}, .round = 3, .weight = 0}, {0, 0}}, kernels::buffer{});
  EXPECT_EQ(hub->sent.size(), 3U) << "that there is none is said too";
}

TEST_F(GossipRoles, AChunkOfTheNextRoundGoesAfterTheLastOnes) {
  auto hub = std::make_shared<remembering_hub>();
  auto proxy = ends_with_the_test(system.spawn<params_proxy_impl>(proxy_target{hub, net::node_id{1}}));
  const auto chunk = [](std::uint64_t round, std::int64_t begin) {
    return wire::peer_part{
        {1}, {.from = {{0}, {}}, .round = round, .is = protocols::peer_message::kind::chunk}, {begin, begin + 16}};
  };
  say(proxy, chunk(8, 0), floats(16, 1));
  say(proxy, chunk(7, 1 << 20), floats(16, 1));
  ASSERT_EQ(hub->sent.size(), 2U);
  EXPECT_GT(hub->sent[0].second, hub->sent[1].second);
}

} // namespace
} // namespace troupe::actors
