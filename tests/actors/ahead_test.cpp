// SPDX-License-Identifier: BSD-3-Clause
// A worker's step begins while its parameters are still coming, if it is like the last; what it computes stays the same.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/roles/worker/compute_actor.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

namespace wire = protocols::wire;

/// What a worker asked of its compute actor.
struct asked_of_compute {
  std::vector<ahead_request> ahead;
  std::vector<compute_request> steps;
};

/// Answers when it is told to.
class patient_compute_state {
public:
  static inline const char* name = "test.compute";
  patient_compute_state(compute_actor::stateful_pointer<patient_compute_state> self, std::shared_ptr<asked_of_compute> asked)
      : self_(self), asked_(std::move(asked)) {}
  compute_actor::behavior_type make_behavior() {
    return {[this](const compute_request& msg) -> caf::result<compute_result> {
              asked_->steps.push_back(msg);
              open_ = self_->make_response_promise<compute_result>();
              return open_;
            },
            [this](const ahead_request& msg) { asked_->ahead.push_back(msg); },
            [](const step_request&) {},
            [](const mix_request&) {},
            [](const dual_request&) {},
            [](const sum_request&) { return sum_result{}; },
            [](const keep_request&) {},
            [this](compute_finished) {
              compute_result out;
              out.step = asked_->steps.back().step;
              out.rows = 4;
              open_.deliver(std::move(out));
            }};
  }

private:
  compute_actor::stateful_pointer<patient_compute_state> self_;
  std::shared_ptr<asked_of_compute> asked_;
  caf::typed_response_promise<compute_result> open_;
};

/// Four rows at a time, each batch in memory of its own.
class counting_loader_state {
public:
  static inline const char* name = "test.loader";
  counting_loader_state(loader_actor::stateful_pointer<counting_loader_state>, std::shared_ptr<std::vector<loaded_batch>> loaded)
      : loaded_(std::move(loaded)) {}
  loader_actor::behavior_type make_behavior() {
    return {[this](const slice& rows) {
      auto block = std::make_shared<std::vector<float>>(12);
      kernels::buffer x{block, block->data(), block->size() * sizeof(float)};
      loaded_->push_back({rows, {.x = x, .labels = x, .rows = rows.size(), .counted = rows.size()}});
      return loaded_->back();
    }};
  }

private:
  std::shared_ptr<std::vector<loaded_batch>> loaded_;
};

/// One gradient at all parameters that it hears of, or a local step.
struct eager_machine final : protocols::worker {
  bool local = false;
  std::uint32_t batches = 1; ///< in a step
  std::uint64_t steps = 0;
  protocols::worker_effects on(const protocols::plan&) override { return {}; }
  protocols::worker_effects on(const protocols::params& msg) override {
    protocols::compute gradient{.step = ++steps, .position = msg.position, .batches = batches, .parts = {{0, 1}}};
    if (local)
      return {protocols::adopt{msg.ver, msg.parameters}, protocols::local_step{gradient}};
    return {protocols::adopt{msg.ver, msg.parameters}, gradient};
  }
  protocols::worker_effects on(const protocols::computed&) override { return {}; }
  protocols::worker_effects on(const protocols::peer_message&) override { return {}; }
};

/// Remembers which partitions of a gradient are there, and does what it is told to at any `fetch_order`.
struct obedient_machine final : protocols::worker {
  std::vector<protocols::computed_partition> there;
  protocols::worker_effects next;
  protocols::worker_effects on(const protocols::plan&) override { return {}; }
  protocols::worker_effects on(const protocols::params& msg) override {
    return {protocols::adopt{msg.ver, msg.parameters}, step(1, msg.position)};
  }
  protocols::worker_effects on(const protocols::computed&) override { return {}; }
  protocols::worker_effects on(const protocols::computed_partition& msg) override {
    there.push_back(msg);
    return {};
  }
  protocols::worker_effects on(const protocols::peer_message&) override { return {}; }
  protocols::worker_effects on(const protocols::fetch_order&) override { return std::exchange(next, {}); }
  static protocols::compute step(std::uint64_t number, std::uint64_t position) {
    return {.step = number, .position = position, .parts = {{0, 1}}};
  }
};

/// Actors that run when a test says so, and the host's memory.
class AheadTest : public testing::Test {
protected:
  tests::testing_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const std::shared_ptr<kernels::backend> queue = kernels::open_backend({.device = "cpu"});

  template <class... Actors>
  void end(const Actors&... actors) {
    (caf::anon_send_exit(actors, caf::exit_reason::kill), ...);
    schedule.run();
  }
};

class AheadWorker : public AheadTest {
protected:
  const std::shared_ptr<const model> net =
      std::make_shared<const model>(*model::build({.layers = {"linear 16", "linear 16"}}, {{3}, 16}));
  const std::int64_t count = net->layout().floats();
  const std::int64_t one = net->layout().slots[2].offset, two = net->layout().slots[3].offset; ///< where parts begin
  const std::shared_ptr<asked_of_compute> asked = std::make_shared<asked_of_compute>();
  const std::shared_ptr<std::vector<loaded_batch>> loaded = std::make_shared<std::vector<loaded_batch>>();
  const std::shared_ptr<eager_machine> machine = std::make_shared<eager_machine>();
  std::shared_ptr<params_assembler> from_lane;
  std::shared_ptr<common_replica> common; ///< none: parameters come from shards
  std::shared_ptr<obedient_machine> sums; ///< likewise
  const compute_actor computes = system.spawn<compute_actor::stateful_impl<patient_compute_state>>(asked);
  worker_actor worker;

  void begins(bool overlaps = true) {
    const auto allocate = [queue = queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    worker_setup setup;
    setup.net = net;
    setup.batch = 4;
    setup.data_size = 100;
    setup.pushes.overlaps = overlaps;
    setup.receive_buffers = from_lane = std::make_shared<params_assembler>(flat_range{0, count}, allocate);
    setup.from_peers = std::make_shared<peer_assembler>(flat_range{0, count}, allocate);
    setup.machine = machine;
    if (common) {
      setup.common = common;
      setup.sum_partitions = [](auto) { return 2U; };
      setup.keeps_own = true;
      setup.machine = sums;
    }
    setup.compute = computes;
    setup.loader = system.spawn<loader_actor::stateful_impl<counting_loader_state>>(loaded);
    worker = system.spawn<worker_impl>(std::move(setup));
    say(protocols::plan{.epoch = {1}, .workers = {{}}, .protocol = {.name = "sync"}, .batch = 4, .data_size = 100});
  }
  void TearDown() override { end(worker); }
  template <class... Ts>
  void say(const Ts&... parts) {
    caf::anon_send(worker, parts...);
    schedule.run();
  }
  /// Version `ver` begins at four rows for each before it. It comes over a lane, or else from this process.
  void part(std::uint64_t ver, flat_range where, bool lane = true, std::uint32_t shard = 0) {
    auto payload =
        lane ? from_lane->place(ver, where) : queue->allocate_host(static_cast<std::size_t>(where.size()) * sizeof(float));
    std::ranges::fill(payload.span<float>(), static_cast<float>(ver));
    say(
        wire::params_part{
            {{0}}, {shard}, {.epoch = {1}, .ver = {ver}, .key = ver, .position = 4 * ver}, {where.begin, where.end}},
        payload);
  }
  void step_ends() {
    caf::anon_send(computes, compute_finished{});
    schedule.run();
  }
  void first_step() {
    part(1, {0, count});
    ASSERT_EQ(asked->steps.size(), 1U);
    step_ends();
    ASSERT_TRUE(asked->ahead.empty());
  }
};

TEST_F(AheadWorker, WaitsForTheShardsWhosePartsItLacks) {
  begins();
  auto peers = std::make_shared<role_peers>();
  peers->holders.resize(3);
  say(peers_ptr{peers});
  const auto awaited = [this] {
    std::vector<std::string> out;
    const auto asks = system.spawn([&](caf::event_based_actor* me) {
      me->request(worker, caf::infinite, inspect_query{}).then([&](const actor_report& said) { out = said.waits_for; });
    });
    schedule.run();
    return out;
  };
  EXPECT_THAT(awaited(), testing::ElementsAre("shard 0")) << "who decides when they are sent";
  part(1, {0, one}, true, 0);
  part(1, {one, two}, true, 1);
  part(1, {two, count}, true, 2);
  step_ends();
  EXPECT_THAT(awaited(), testing::ElementsAre("shard 0"));
  part(2, {one, two}, true, 1);
  EXPECT_THAT(awaited(), testing::ElementsAre("shard 0", "shard 2"));
  part(2, {0, one}, true, 0);
  EXPECT_THAT(awaited(), testing::ElementsAre("shard 2"));
  part(2, {two, count}, true, 2);
  EXPECT_THAT(awaited(), testing::ElementsAre("compute 0"));
}

TEST_F(AheadWorker, TellsWhatHasComeAndComputesWithThat) {
  begins();
  first_step();
  part(2, {0, one});
  ASSERT_EQ(asked->ahead.size(), 1U);
  const auto hint = asked->ahead.front();
  EXPECT_EQ(hint.there, (std::vector<flat_range>{{0, one}}));
  EXPECT_EQ(hint.parameters.bytes(), static_cast<std::size_t>(count) * sizeof(float));
  EXPECT_EQ(hint.data.x, loaded->back().data.x);
  EXPECT_EQ(loaded->back().where, (slice{0, 8, 12}));
  EXPECT_EQ(asked->steps.size(), 1U) << "the machine hears of whole parameters";
  part(2, {one, two});
  ASSERT_EQ(asked->ahead.size(), 2U);
  EXPECT_EQ(asked->ahead.back().there, (std::vector<flat_range>{{0, two}}));
  part(2, {two, count});
  EXPECT_EQ(asked->ahead.size(), 2U) << "with the last part the step itself is asked for";
  ASSERT_EQ(asked->steps.size(), 2U);
  EXPECT_EQ(asked->steps.back().parameters.data(), hint.parameters.data());
  EXPECT_EQ(asked->steps.back().parts.front().data.x, hint.data.x);
  EXPECT_EQ(asked->ahead.back().seed, asked->steps.back().seed);
}

TEST_F(AheadWorker, SaysNothingWhereForwardCannotGoOn) {
  begins();
  first_step();
  part(2, {two, count});
  part(2, {0, 16}); // of the first layer's weights
  EXPECT_TRUE(asked->ahead.empty());
  part(2, {16, one});
  ASSERT_EQ(asked->ahead.size(), 1U);
  EXPECT_EQ(asked->ahead.front().there, (std::vector<flat_range>{{0, one}, {two, count}}));
  part(2, {one, one + 16});
  EXPECT_EQ(asked->ahead.size(), 1U);
}

TEST_F(AheadWorker, LoadsTheBatchThatThePartsName) {
  begins();
  first_step();
  const auto before = loaded->size();
  part(7, {0, one}); // not what comes after the first step
  ASSERT_EQ(loaded->size(), before + 1);
  EXPECT_EQ(loaded->back().where, (slice{0, 28, 32}));
  ASSERT_EQ(asked->ahead.size(), 1U);
  EXPECT_EQ(asked->ahead.front().data.x, loaded->back().data.x);
}

TEST_F(AheadWorker, WaitsWhereNothingIsLikeTheLastStep) {
  begins();
  part(1, {0, one}); // there is none
  EXPECT_TRUE(asked->ahead.empty());
  part(1, {one, count});
  part(2, {0, one}); // it is under way
  EXPECT_TRUE(asked->ahead.empty());
  step_ends();
  machine->local = true;
  part(2, {one, count});
  ASSERT_EQ(asked->steps.size(), 2U);
  step_ends();
  part(3, {0, one}); // the last was on its own parameters
  EXPECT_TRUE(asked->ahead.empty());
}

TEST_F(AheadWorker, WaitsForWhatComesInBlocksOfItsOwn) {
  begins();
  first_step();
  part(2, {0, one}, false);
  EXPECT_TRUE(asked->ahead.empty());
  part(2, {two, count});
  ASSERT_EQ(asked->ahead.size(), 1U);
  const auto [parameters, there, data, seed] = asked->ahead.front();
  EXPECT_EQ(there, (std::vector<flat_range>{{0, one}, {two, count}})) << "then it is copied beside the others";
  EXPECT_EQ(parameters.as<float>()[0], 2);
  EXPECT_EQ(parameters.as<float>()[count - 1], 2);
}

TEST_F(AheadWorker, GoesOnWithTheNewest) {
  begins();
  first_step();
  part(2, {0, one});
  part(3, {0, one});
  part(2, {one, two});
  ASSERT_EQ(asked->ahead.size(), 2U);
  EXPECT_NE(asked->ahead.back().parameters.data(), asked->ahead.front().parameters.data());
  EXPECT_NE(asked->ahead.back().data.x, asked->ahead.front().data.x);
}

TEST_F(AheadWorker, DoesNotWhereNothingIsToOverlap) {
  begins(false);
  first_step();
  part(2, {0, one});
  EXPECT_TRUE(asked->ahead.empty());
}

TEST_F(AheadWorker, BeginsStepsOfOneBatchAlone) {
  begins();
  first_step();
  say(wire::params_part{{{0}}, {0}, {.epoch = {1}, .ver = {2}, .key = 2, .position = 98}, {0, one}},
      from_lane->place(2, {0, one})); // two rows are left of the epoch
  ASSERT_EQ(asked->ahead.size(), 1U);
  EXPECT_EQ(asked->ahead.front().data.rows, 2);
  machine->batches = 2;
  part(3, {0, count});
  for (int chunk = 0; chunk < 2; ++chunk)
    schedule.run();
  ASSERT_EQ(asked->steps.back().parts.size(), 2U);
  step_ends();
  part(4, {0, one});
  EXPECT_EQ(asked->ahead.size(), 1U);
}

/// A gradient is summed among workers, in two partitions: the second begins within the third parameter, a matrix.
class AheadInSums : public AheadWorker {
protected:
  kernels::buffer gradient;
  flat_range first{};

  void begins_first_step(bool overlaps = true) {
    sums = std::make_shared<obedient_machine>();
    common = std::make_shared<common_replica>(queue, optimizer_spec{.lr = 0.5}, count, 100,
                                              std::vector<update_range>{{.where = {0, count}}});
    first = common->where({0, 1, 2});
    ASSERT_TRUE(one < first.end && first.end < two);
    gradient = queue->allocate(static_cast<std::size_t>(count) * sizeof(float));
    std::ranges::fill(gradient.span<float>(), 1.0F);
    begins(overlaps);
    part(1, {0, count}, false);
    ASSERT_EQ(asked->steps.size(), 1U);
  }
  void ready(int slot, std::uint64_t step = 1) { say(gradient_ready{step, slot, gradient, {}, 4, 0.5}); }
  /// Once the second partition of the gradient has been told, and all of it is there.
  void first_step_ends() {
    ready(3);
    ready(2);
    ASSERT_EQ(sums->there.size(), 1U);
    step_ends();
  }
  void does(protocols::worker_effects what) {
    sums->next = std::move(what);
    say(protocols::fetch_order{});
  }
  protocols::take_step stepping(std::uint32_t partition, bool last) const {
    return {.round = {.ver = {1}, .workers = 1},
            .sum = {sums->there.front().gradient, 1},
            .part = {partition, partition + 1, 2},
            .last = last};
  }
};

TEST_F(AheadInSums, TheMachineHearsOfAPartitionOnceAllOfItIsThere) {
  begins_first_step();
  ready(3);
  EXPECT_TRUE(sums->there.empty());
  ready(2, 7); // of another step
  EXPECT_TRUE(sums->there.empty());
  ready(2);
  ASSERT_EQ(sums->there.size(), 1U);
  EXPECT_EQ(sums->there[0], (protocols::computed_partition{1, sums->there[0].gradient, 1, 4, 0.5}));
  ready(1);
  EXPECT_EQ(sums->there.size(), 1U);
  ready(0);
  ASSERT_EQ(sums->there.size(), 2U);
  EXPECT_EQ(sums->there[1].partition, 0U);
}

TEST_F(AheadInSums, NothingOfItBeforeTheEndWhereNothingIsToOverlap) {
  begins_first_step(false);
  for (int slot = 3; slot >= 0; --slot)
    ready(slot);
  EXPECT_TRUE(sums->there.empty());
}

TEST_F(AheadInSums, NothingOfItWhileTheJobIsHeld) {
  begins_first_step();
  say(pause_order{});
  for (int slot = 3; slot >= 0; --slot)
    ready(slot);
  EXPECT_TRUE(sums->there.empty());
}

TEST_F(AheadInSums, ForwardBeginsWithTheParametersThatAreStepped) {
  begins_first_step();
  first_step_ends();
  const auto before = common->parameters();
  does({stepping(0, false)});
  ASSERT_EQ(asked->ahead.size(), 1U);
  const auto hint = asked->ahead.front();
  EXPECT_EQ(hint.there, (std::vector<flat_range>{first}));
  EXPECT_EQ(hint.data.x, loaded->back().data.x);
  EXPECT_EQ(hint.parameters.as<float>()[0], 0.5F) << "1 - 0.5 * 1";
  EXPECT_EQ(common->parameters(), before);
  does({stepping(1, true), obedient_machine::step(2, 8)});
  EXPECT_EQ(asked->ahead.size(), 1U);
  ASSERT_EQ(asked->steps.size(), 2U);
  EXPECT_EQ(asked->steps.back().parameters, hint.parameters);
  EXPECT_EQ(asked->steps.back().parts.front().data.x, hint.data.x);
}

TEST_F(AheadInSums, StepsThatAreUndoneLeaveTheParametersAsTheyWere) {
  begins_first_step();
  first_step_ends();
  does({stepping(0, false)});
  does({protocols::undo_steps{}});
  EXPECT_EQ(common->parameters().as<float>()[0], 1);
  does({stepping(0, false)});
  ASSERT_EQ(asked->ahead.size(), 2U) << "another version is coming";
  does({stepping(1, true), obedient_machine::step(2, 8)});
  EXPECT_EQ(asked->steps.back().parameters, asked->ahead.back().parameters);
  EXPECT_EQ(asked->steps.back().parameters.as<float>()[count - 1], 0.5F);
}

/// A compute actor on the host, and the steps of another that was told nothing.
class AheadCompute : public AheadTest {
protected:
  const std::shared_ptr<const model> net =
      std::make_shared<const model>(*model::build({.layers = {"linear 16", "tanh", "linear 3"}}, {{5}, 3}));
  const std::int64_t count = net->layout().floats();
  const std::int64_t first_layer = net->layout().slots[2].offset;
  const batch data = some_batch();
  caf::scoped_actor self{system};
  device_compute_actor ahead = computes(), plain = computes();

  device_compute_actor computes() {
    return system.spawn<compute_impl>(compute_setup{.queue = queue, .net = net, .local_optimizer = {}, .max_rows = 4});
  }
  void TearDown() override { end(ahead, plain); }
  batch some_batch() const {
    batch out{.x = queue->allocate_host(20 * sizeof(float)),
              .labels = queue->allocate_host(4 * sizeof(std::int32_t)),
              .rows = 4,
              .counted = 4};
    for (int i = 0; i < 20; ++i)
      out.x.as<float>()[i] = 0.1F * static_cast<float>(i - 7);
    for (int i = 0; i < 4; ++i)
      out.labels.as<std::int32_t>()[i] = i % 3;
    return out;
  }
  kernels::buffer parameters() const {
    auto out = queue->allocate(static_cast<std::size_t>(count) * sizeof(float));
    initialize_parameters(net->layout(), 3, out.as<float>());
    return out;
  }
  void lose(const kernels::buffer& of, flat_range where) const {
    std::fill(of.as<float>() + where.begin, of.as<float>() + where.end, std::numeric_limits<float>::quiet_NaN());
  }
  compute_result step(const device_compute_actor& by, const kernels::buffer& at, const batch& on) {
    compute_result out;
    auto answer =
        self->request(by, caf::infinite, compute_request{.step = 1, .parameters = at, .own = {}, .parts = {{on}}, .seed = 1});
    schedule.run();
    answer.receive([&](compute_result& result) { out = std::move(result); },
                   [](const caf::error& e) { ADD_FAILURE() << to_string(e); });
    return out;
  }
  bool same(const compute_result& one, const compute_result& other) const {
    return one.loss == other.loss && one.finite
           && std::memcmp(one.gradients.data(), other.gradients.data(), one.gradients.bytes()) == 0;
  }
};

TEST_F(AheadCompute, UsesWhatItHasDone) {
  const auto at = parameters();
  lose(at, {first_layer, count});
  caf::anon_send(ahead, ahead_request{at, {{0, first_layer}}, data, 1});
  schedule.run();
  std::ranges::copy(parameters().span<float>(), at.as<float>());
  lose(at, {0, first_layer}); // it needs them no more
  const auto found = step(ahead, at, data);
  EXPECT_TRUE(same(found, step(plain, parameters(), data)));
  EXPECT_GT(found.ahead_ns, 0);
  EXPECT_GE(found.compute_ns, found.ahead_ns);
}

TEST_F(AheadCompute, ForgetsWhatIsNotAskedFor) {
  const auto at = parameters(), other = parameters();
  const auto rows = some_batch();
  for (const auto& [where, on] : {std::pair{other, data}, {at, rows}, {other, rows}}) {
    caf::anon_send(ahead, ahead_request{at, {{0, first_layer}}, data, 1});
    schedule.run();
    const auto found = step(ahead, where, on);
    EXPECT_TRUE(same(found, step(plain, where, on)));
    EXPECT_EQ(found.ahead_ns, 0);
  }
  EXPECT_EQ(step(ahead, at, data).ahead_ns, 0) << "an older hint is not that step's";
}

TEST_F(AheadCompute, GivesEachStepAGradientOfItsOwn) {
  const auto at = parameters();
  caf::anon_send(ahead, ahead_request{at, {{0, first_layer}}, data, 1});
  schedule.run();
  const auto first = step(ahead, at, data);
  const auto second = step(ahead, at, some_batch());
  EXPECT_NE(first.gradients.data(), second.gradients.data());
  EXPECT_TRUE(same(first, step(plain, at, data)));
}

TEST_F(AheadCompute, LetsGoOfWhatItWasTold) {
  std::weak_ptr<std::vector<float>> kept;
  {
    auto block = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count));
    kept = block;
    caf::anon_send(ahead, ahead_request{{block, block->data(), block->size() * sizeof(float)}, {{0, first_layer}}, data, 1});
  }
  schedule.run();
  EXPECT_FALSE(kept.expired());
  step(ahead, parameters(), data);
  EXPECT_TRUE(kept.expired());
}

} // namespace
} // namespace troupe::actors
