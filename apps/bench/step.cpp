// SPDX-License-Identifier: BSD-3-Clause
// A worker and a shard, started and stopped by holding and resuming.
#include "apps/bench/step.hpp"

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <caf/scoped_actor.hpp>

#include "actors/errors.hpp"
#include "actors/roles/holder/shard_actor.hpp"
#include "actors/roles/worker/compute_actor.hpp"
#include "actors/roles/worker/loader_actor.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "apps/bench/training.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

namespace {

using steady = std::chrono::steady_clock;

/// Stands in for the coordinator: forwards its messages to the measuring thread.
class listener_state {
public:
  static inline const char* name = "troupe.bench-listener";
  listener_state(coordinator_actor::stateful_pointer<listener_state>, caf::actor to) : to_(std::move(to)) {}
  coordinator_actor::behavior_type make_behavior() {
    return {
        [this](const protocols::report& msg) {
          if (msg.event == protocols::report::kind::held)
            caf::anon_send(to_, msg);
        },
        [](const collected&) {},
        [](const evaluation&) {},
        [](const role_lost&) {},
        [](const peer_unreachable&) {},
        [](const file_saved&) {},
        [](const protocols::expired&) {},
        [](const protocols::caught_up&) {},
        [](const stop_job&) {},
    };
  }

private:
  caf::actor to_;
};

class actor_step_bench final : public step_bench {
public:
  actor_step_bench(caf::actor_system& system, const kernels::backend_options& device, const bench_model& of, model net,
                   std::int64_t batch)
      : self_(system), optimizer_(of.optimizer), net_(std::make_shared<const model>(std::move(net))), data_(bench_data(of)) {
    auto floats = net_->layout().floats();
    flat_range all{0, floats};
    auto entry = protocols::catalog().front(); // sync
    auto tree = protocols::holder_tree({1, 1, 0});
    listener_ = system.spawn<coordinator_actor::stateful_impl<listener_state>>(caf::actor{self_});
    shard_ = spawn_shard(system, device, tree.front(), entry.make_rule({}, 1));
    std::shared_ptr<kernels::backend> queue = kernels::open_backend(device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    worker_setup setup;
    setup.batch = batch;
    setup.data_size = data_.train->size();
    setup.net = net_;
    setup.pushes.targets = {{tree.front().self, cut_into_partitions(all, 4 << 20)}};
    auto receive_buffers = setup.receive_buffers = std::make_shared<params_assembler>(all, allocate);
    setup.from_peers = std::make_shared<peer_assembler>(all, allocate);
    setup.machine = entry.make_worker({}, {}, 1);
    auto compute = system.spawn<compute_impl, caf::detached>(compute_setup{queue, net_, optimizer_spec{}, batch});
    setup.compute = compute;
    if (!queue->on_host()) {
      setup.device = queue;
      setup.device_compute = compute;
    }
    setup.loader = system.spawn<loader_impl, caf::detached>(data_.train, std::uint64_t{1}, allocate);
    worker_ = system.spawn<worker_impl>(std::move(setup));
    self_->monitor(compute);
    self_->monitor(shard_);
    self_->monitor(worker_);
    auto peers = std::make_shared<role_peers>();
    peers->holders = {shard_};
    peers->workers = {worker_};
    if (queue->on_host()) {
      peers->receive_buffers = {{protocols::worker_id{0}, receive_buffers}};
    } else { // and the shard is on the same device
      peers->local_device_holders = {{tree.front().self, shard_}};
      peers->local_device_workers = {{protocols::worker_id{0}, worker_}};
    }
    peers->coordinator = listener_;
    self_->send(shard_, peers_ptr{peers});
    self_->send(worker_, peers_ptr{peers});
    protocols::plan plan{
        .epoch = {1}, .workers = {{}}, .protocol = {}, .period = 1, .batch = batch, .data_size = data_.train->size()};
    self_->send(shard_, protocols::hold_order{.now = true}); // one step, then it holds
    self_->send(shard_, plan);
    self_->send(worker_, plan);
    wait_until_held();
  }

  ~actor_step_bench() override {
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(shard_), caf::actor_cast<caf::actor>(worker_), caf::actor_cast<caf::actor>(listener_)})
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }

  double measure(double seconds) override {
    auto before = samples_;
    auto begin = steady::now();
    self_->send(shard_, protocols::resume_order{});
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    self_->send(shard_, protocols::hold_order{.now = true});
    wait_until_held();
    if (samples_ == before)
      throw std::runtime_error("through the actors no sample was counted: the model's gradients are not finite any more");
    return static_cast<double>(samples_ - before) / std::chrono::duration<double>(steady::now() - begin).count();
  }

private:
  holder_control spawn_shard(caf::actor_system& system, const kernels::backend_options& device,
                             const protocols::holder_place& place, std::unique_ptr<protocols::rule> rule) {
    auto floats = net_->layout().floats();
    flat_range all{0, floats};
    std::shared_ptr<kernels::backend> queue = kernels::open_backend(device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    auto first = queue->allocate_host(static_cast<std::size_t>(floats) * sizeof(float));
    std::memset(first.data(), 0, first.bytes());
    initialize_parameters(net_->layout(), 1, first.as<float>());
    shard_setup setup;
    setup.place = place;
    setup.range = all;
    setup.partitions = cut_into_partitions(all, 4 << 20);
    setup.initial = first;
    setup.queue = queue;
    setup.optimizer = optimizer_;
    setup.ranges = update_ranges(net_->layout(), all);
    setup.data_size = data_.train->size();
    setup.receive_buffers = {std::make_shared<push_assembler>(all, allocate), std::make_shared<partial_assembler>(all, allocate)};
    setup.lead = std::make_shared<protocols::lead>(std::move(rule), protocols::tree_shape{});
    return system.spawn<shard_impl, caf::detached>(std::move(setup));
  }

  /// Throws device_error where a role ends meanwhile, with its reason.
  void wait_until_held() {
    self_->receive([this](const protocols::report& msg) { samples_ = msg.samples; },
                   [](const caf::down_msg& msg) { throw kernels::device_error(caf::to_string(msg.reason)); });
  }

  caf::scoped_actor self_;
  optimizer_spec optimizer_;
  std::shared_ptr<const model> net_;
  data_pair data_;
  coordinator_actor listener_;
  holder_control shard_;
  worker_actor worker_;
  std::uint64_t samples_ = 0;
};

} // namespace

result<std::unique_ptr<step_bench>> step_bench::open(caf::actor_system& system, const kernels::backend_options& device,
                                                     const std::string& model_name, std::int64_t batch) {
  auto entry = find_bench_model(model_name);
  if (!entry)
    return entry.error();
  auto net = model::build(entry->spec, entry->data);
  if (!net)
    return net.error();
  return std::unique_ptr<step_bench>{
      new actor_step_bench(system, device, *entry, std::move(*net), batch > 0 ? batch : entry->batch)};
}

} // namespace troupe::actors
