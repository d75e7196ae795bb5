// SPDX-License-Identifier: BSD-3-Clause
// A worker that was restarted under a protocol whose shards answer each push alone: what was for its older incarnation is not
// joined with what is for this one. CAF's testing scheduler, scripted neighbours.
#include <memory>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <gtest/gtest.h>

#include "actors/roles/worker/worker_actor.hpp"
#include "protocols/catalog.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

/// Remembers at which parameters it was asked to compute.
class listening_compute_state {
public:
  static inline const char* name = "test.compute";
  listening_compute_state(compute_actor::stateful_pointer<listening_compute_state>,
                          std::shared_ptr<std::vector<kernels::buffer>> asked)
      : asked_(std::move(asked)) {}
  compute_actor::behavior_type make_behavior() {
    return {[this](const compute_request& msg) {
              asked_->push_back(msg.parameters);
              return compute_result{};
            },
            [](const ahead_request&) {},
            [](const step_request&) {},
            [](const mix_request&) {},
            [](const dual_request&) {},
            [](const sum_request&) { return sum_result{}; },
            [](const keep_request&) {},
            [](compute_finished) {}};
  }

private:
  std::shared_ptr<std::vector<kernels::buffer>> asked_;
};

class prompt_loader_state {
public:
  static inline const char* name = "test.loader";
  explicit prompt_loader_state(loader_actor::stateful_pointer<prompt_loader_state>) {}
  loader_actor::behavior_type make_behavior() {
    return {[](const slice& rows) { return loaded_batch{.where = rows, .data = {}}; }};
  }
};

TEST(RestartedWorker, JoinsNoPartThatWasForItsOlderLife) {
  tests::testing_config config;
  caf::actor_system system{config};
  auto& schedule = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const std::shared_ptr<kernels::backend> queue = kernels::open_backend({.device = "cpu"});
  const auto net = std::make_shared<const model>(*model::build({.layers = {"linear 4"}}, {{3}, 4}));
  const auto count = net->layout().floats();
  const auto asked = std::make_shared<std::vector<kernels::buffer>>();
  const auto filled = [&](std::int64_t floats, float value) {
    auto out = queue->allocate_host(static_cast<std::size_t>(floats) * sizeof(float));
    for (auto& each : out.span<float>())
      each = value;
    return out;
  };
  const auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
  const protocols::member self{{0}, {1}};
  worker_setup setup;
  setup.incarnation = self.incarnation;
  setup.net = net;
  setup.batch = 4;
  setup.data_size = 100;
  setup.receive_buffers = std::make_shared<params_assembler>(flat_range{0, count}, allocate);
  setup.from_peers = std::make_shared<peer_assembler>(flat_range{0, count}, allocate);
  setup.machine = protocols::find_protocol("async")->make_worker({.name = "async"}, self, 1);
  setup.compute = system.spawn<compute_actor::stateful_impl<listening_compute_state>>(asked);
  setup.loader = system.spawn<loader_actor::stateful_impl<prompt_loader_state>>();
  auto worker = system.spawn<worker_impl>(std::move(setup));
  const auto say = [&](const auto&... parts) {
    caf::anon_send(worker, parts...);
    schedule.run();
  };
  const auto part = [&](std::uint32_t shard, std::uint32_t epoch, float value) {
    const auto begin = shard == 0 ? 0 : count / 2, end = shard == 0 ? count / 2 : count;
    // Its first push of each incarnation has the clock 1, which is the key of what answers it.
    say(wire::params_part{{{shard}}, {0}, {.epoch = {epoch}, .ver = {epoch}, .key = 1}, {begin, end}},
        filled(end - begin, value));
  };

  part(1, 1, 7); // shard 1 has not heard that the older incarnation is gone
  protocols::plan with{.epoch = {2}, .workers = {self}, .protocol = {.name = "async"}, .batch = 4, .data_size = 100};
  say(with);
  part(1, 1, 7);
  part(0, 2, 1);
  EXPECT_TRUE(asked->empty());
  part(1, 2, 1);
  ASSERT_EQ(asked->size(), 1U);
  for (const auto each : asked->front().span<const float>())
    EXPECT_EQ(each, 1);

  caf::anon_send_exit(worker, caf::exit_reason::kill);
  schedule.run();
}

} // namespace
} // namespace troupe::actors
