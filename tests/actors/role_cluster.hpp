// SPDX-License-Identifier: BSD-3-Clause
// Workers, shards and aggregators of a job in this process, under CAF's testing scheduler: devices that are simulated, time that
// passes when nothing else can happen.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "actors/errors.hpp"
#include "actors/roles/holder/aggregator_actor.hpp"
#include "actors/roles/holder/shard_actor.hpp"
#include "actors/roles/worker/compute_actor.hpp"
#include "actors/roles/worker/loader_actor.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"
#include "tests/actors/simulated_device.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {

using troupe::tests::guarded_memory;
using troupe::tests::simulated_device;

/// Where the roles of a cluster in this process compute, and what on.
struct arrangement {
  std::string protocol = "sync";
  std::map<std::string, protocols::spec_value> parameters = {};
  std::uint32_t workers = 2, shards = 1, fan_in = 0;
  std::vector<std::uint32_t> blocks{};                     ///< with fan_in_of_nodes
  std::string worker_device = "cpu", shard_device = "cpu"; ///< "sim:0", "sim:1"
  bool apart = false; ///< as on hosts of their own: what they send each other leaves the device
  std::uint64_t versions = 12;
  optimizer_spec optimizer = {.lr = 0.05, .momentum = 0.9};
  std::vector<std::string> layers = {"flatten", "linear 8", "relu", "linear 10"};
  protocols::inject_spec inject = {}; ///< emulated, on the scheduler's clock
  codec_spec codec = {};
};

/// What the coordinator and the evaluator of a cluster have heard.
struct heard_of_roles {
  std::optional<protocols::report> held;
  protocols::version evaluated; ///< of the last part that the evaluator got
  std::vector<std::pair<flat_range, kernels::buffer>> parameters;
  std::map<std::uint32_t, std::pair<protocols::peer_message, kernels::buffer>> replicas;
  std::vector<std::string> ends;
};

class role_cluster_coordinator_state {
public:
  static inline const char* name = "test.coordinator";
  role_cluster_coordinator_state(coordinator_actor::stateful_pointer<role_cluster_coordinator_state>,
                                 std::shared_ptr<heard_of_roles> h)
      : heard_(std::move(h)) {}
  coordinator_actor::behavior_type make_behavior() {
    return {[this](const protocols::report& msg) {
              if (msg.event == protocols::report::kind::held)
                heard_->held = msg;
            },
            [](const collected&) {},
            [](const evaluation&) {},
            [](const role_lost&) {},
            [](const peer_unreachable&) {},
            [](const file_saved&) {},
            [](const protocols::expired&) {},
            [](const protocols::caught_up&) {},
            [](const stop_job&) {}};
  }

private:
  std::shared_ptr<heard_of_roles> heard_;
};

class role_cluster_evaluator_state {
public:
  static inline const char* name = "test.evaluator";
  role_cluster_evaluator_state(params_actor::stateful_pointer<role_cluster_evaluator_state>, std::shared_ptr<heard_of_roles> h)
      : heard_(std::move(h)) {}
  params_actor::behavior_type make_behavior() {
    return {[this](const wire::params_part& head, const kernels::buffer& payload) {
              heard_->evaluated = head.params.ver;
              keep(head.where, payload);
            },
            [this](const wire::peer_part& head, const kernels::buffer& payload) {
              heard_->replicas[head.message.from.worker.value] = {head.message, payload};
            }};
  }

private:
  void keep(const wire::range& where, const kernels::buffer& payload) {
    heard_->parameters.emplace_back(flat_range{where.begin, where.end}, payload);
  }
  std::shared_ptr<heard_of_roles> heard_;
};

/// A cluster in one process under CAF's testing scheduler. What runs next (a message, an operation of some queue) is drawn from a
/// seed.
class role_cluster {
public:
  role_cluster(arrangement setup, std::uint64_t seed)
      : setup_(std::move(setup)), entry_(*protocols::find_protocol(setup_.protocol)), random_(seed),
        tree_(protocols::holder_tree(shape())) {
    spec_.name = setup_.protocol;
    spec_.fan_in = setup_.fan_in;
    spec_.parameters = setup_.parameters;
    spawn();
  }
  ~role_cluster() {
    for (const auto& each : spawned_)
      caf::anon_send_exit(each, caf::exit_reason::user_shutdown);
    drain();
  }

  /// Trains to the arrangement's version and holds there.
  void train() {
    begin();
    EXPECT_TRUE(run_until([this] { return heard_->held.has_value(); })) << "it stands still";
  }
  void begin() {
    say_to_holders(protocols::hold_order{.at_version = setup_.versions});
    protocols::plan plan{.epoch = {1},
                         .workers = {},
                         .protocol = spec_,
                         .period = protocols::initial_period(spec_),
                         .batch = batch,
                         .data_size = data_.train->size()};
    for (std::uint32_t worker = 0; worker < setup_.workers; ++worker)
      plan.workers.push_back({{worker}, {}});
    say_to_holders(plan);
    for (const auto& worker : workers_)
      caf::anon_send(worker, plan);
  }

  /// Likewise; training time since it began. The clock moves on when nothing else can happen.
  protocols::nanoseconds train_on_the_clock() {
    begin();
    return until_held();
  }
  /// From the start, or from where it goes on.
  protocols::nanoseconds until_held() {
    const auto from = now();
    heard_->held.reset();
    while (!heard_->held) {
      drain();
      if (!heard_->held && !schedule_.trigger_timeout()) {
        ADD_FAILURE() << "it stands still";
        break;
      }
    }
    return now() - from;
  }
  /// What the coordinator does about a held version; the evaluation takes a second of the clock.
  void evaluate() {
    say_to_holders(pause_order{});
    for (const auto& worker : workers_)
      caf::anon_send(worker, pause_order{});
    drain();
    heard_->parameters.clear();
    ask_for_parameters();
    for (const auto& worker : workers_)
      caf::anon_send(worker, protocols::fetch_order{heard_->held->ver});
    drain();
    schedule_.advance_time(std::chrono::seconds{1});
    drain();
  }
  void go_on(std::uint64_t until_version) {
    say_to_holders(protocols::hold_order{.at_version = until_version});
    say_to_holders(protocols::resume_order{});
    for (const auto& worker : workers_)
      caf::anon_send(worker, protocols::resume_order{});
  }
  /// By worker, in a decentralized job: the replica that it sent.
  const std::map<std::uint32_t, std::pair<protocols::peer_message, kernels::buffer>>& replicas() const {
    return heard_->replicas;
  }
  std::uint64_t model_bytes() const { return static_cast<std::uint64_t>(all_.size()) * sizeof(float); }
  std::int64_t data_size() const { return data_.train->size(); }
  static constexpr std::int64_t batch = 8;

  /// What the evaluator gets, put together.
  std::vector<float> parameters() {
    heard_->parameters.clear();
    ask_for_parameters();
    drain();
    return what_arrived();
  }
  void ask_for_parameters() {
    caf::anon_send(holders_.front(), protocols::fetch_order{heard_->held ? heard_->held->ver : protocols::version{}});
  }
  std::vector<float> what_arrived() const {
    std::vector<float> all(static_cast<std::size_t>(net_->layout().floats()), std::nanf(""));
    for (const auto& [where, data] : heard_->parameters)
      std::ranges::copy(data.span<const float>(), all.begin() + where.begin);
    return all;
  }

  /// A piece of a shard's parameters, as an actor of another program gets it.
  caf::expected<parameters_piece> read(caf::scoped_actor& reader, std::size_t shard, std::uint64_t offset) {
    auto asked = reader->request(caf::actor_cast<parameters_actor>(holders_.at(shard)), caf::infinite, parameters_query{offset});
    run_until([&] { return !reader->mailbox().empty(); });
    caf::expected<parameters_piece> answer{caf::sec::runtime_error};
    asked.receive([&](parameters_piece& piece) { answer = std::move(piece); }, [&](caf::error& e) { answer = std::move(e); });
    return answer;
  }
  caf::actor_system& system() { return system_; }
  flat_range range(std::size_t shard) const { return shards_.at(shard); }

  template <class Done>
  bool run_until(Done done) {
    for (std::uint64_t steps = 0; steps < 2'000'000; ++steps) {
      if (done())
        return true;
      if (!step())
        return done();
    }
    return false;
  }
  void drain() {
    run_until([] { return false; });
  }

  heard_of_roles& hears() { return *heard_; }
  simulated_device& device(std::size_t i) { return *devices_.at(i); }
  std::size_t devices() const { return devices_.size(); }
  std::size_t peak_bytes() const { return memory_->peak(); }
  /// Whether copies to the host run.
  void let_copies_out(bool run) { copies_out_ = run; }
  void crash(std::size_t worker) { caf::anon_send_exit(workers_[worker], caf::exit_reason::kill); }
  void pass_time(int intervals = 1) {
    for (int i = 0; i < 2 * intervals; ++i)
      schedule_.advance_time(device_check_interval);
  }
  int replays() const {
    int sum = 0;
    for (const auto& device : devices_)
      sum += device->replays();
    return sum;
  }
  int captures() const {
    int sum = 0;
    for (const auto& device : devices_)
      sum += device->captures();
    return sum;
  }

private:
  static constexpr std::int64_t partition_bytes = 4096;

  protocols::nanoseconds now() const { return schedule_.clock().now().time_since_epoch().count(); }

  /// One thing that can happen, drawn; false: nothing can.
  bool step() {
    const auto choices = 1 + 3 * devices_.size();
    const auto first = std::uniform_int_distribution<std::size_t>{0, choices - 1}(random_);
    for (std::size_t i = 0; i < choices; ++i)
      if (happen((first + i) % choices))
        return true;
    return false;
  }
  bool happen(std::size_t choice) {
    if (choice == 0)
      return schedule_.try_run_once();
    auto& device = *devices_[(choice - 1) / 3];
    switch ((choice - 1) % 3) {
    case 0:
      return device.compute();
    case 1:
      return device.copy_in();
    default:
      return copies_out_ && device.copy_out();
    }
  }

  std::shared_ptr<kernels::backend> open(const std::string& device) {
    if (device == "cpu")
      return kernels::open_backend({});
    devices_.push_back(std::make_shared<simulated_device>(device, memory_));
    return devices_.back();
  }
  template <class Message>
  void say_to_holders(const Message& msg) {
    for (const auto& holder : holders_)
      caf::anon_send(holder, msg);
  }
  template <class Actor>
  Actor watched(Actor actor, const std::string& name) {
    spawned_.push_back(caf::actor_cast<caf::actor>(actor));
    monitors_.push_back(system_.spawn([heard = heard_, actor, name](caf::event_based_actor* self) -> caf::behavior {
      self->monitor(actor);
      self->set_down_handler([self, heard, name](const caf::down_msg& msg) {
        if (msg.reason != caf::exit_reason::user_shutdown)
          heard->ends.push_back(name + ": " + explain(msg.reason));
        self->quit();
      });
      return {[](int) {}};
    }));
    return actor;
  }

  void spawn() {
    auto peers = std::make_shared<role_peers>();
    for (const auto& place : tree_)
      if (protocols::is_vacant(place))
        peers->holders.emplace_back();
      else
        spawn_holder(place, *peers);
    for (std::uint32_t worker = 0; worker < setup_.workers; ++worker)
      spawn_worker({worker}, *peers);
    peers->evaluator = watched(system_.spawn<params_actor::stateful_impl<role_cluster_evaluator_state>>(heard_), "evaluator");
    peers->coordinator =
        watched(system_.spawn<coordinator_actor::stateful_impl<role_cluster_coordinator_state>>(heard_), "coordinator");
    peers->is_behind = [](protocols::worker_id) { return false; };
    peers_ptr shared = peers;
    say_to_holders(shared);
    for (const auto& worker : workers_)
      caf::anon_send(worker, shared);
  }

  protocols::tree_shape shape() const {
    return {.workers = setup_.workers,
            .shards = setup_.shards,
            .fan_in = setup_.fan_in,
            .clips = setup_.optimizer.clip_norm > 0 && entry_.sums_gradients(spec_),
            .blocks = setup_.blocks};
  }
  std::shared_ptr<protocols::lead> make_lead(protocols::lead_state from) const {
    return std::make_shared<protocols::lead>(entry_.make_rule(spec_, 1), shape(), entry_.per_push, std::move(from));
  }
  std::set<protocols::holder_id> shard_numbers() const {
    std::set<protocols::holder_id> out;
    for (std::uint32_t shard = 0; shard < setup_.shards; ++shard)
      out.insert({shard});
    return out;
  }

  void spawn_holder(const protocols::holder_place& place, role_peers& peers) {
    const auto number = place.self.value;
    auto queue = open(setup_.shard_device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    const flat_range range = place.is_shard ? shards_[number] : all_;
    const holder_receive_buffers receive_buffers{std::make_shared<push_assembler>(range, allocate),
                                                 std::make_shared<partial_assembler>(range, allocate)};
    holder_control actor;
    if (place.is_shard) {
      auto first = queue->allocate_host(static_cast<std::size_t>(all_.size()) * sizeof(float));
      std::fill_n(first.as<float>(), all_.size(), 0.0F);
      initialize_parameters(net_->layout(), 1, first.as<float>());
      shard_setup setup;
      setup.place = place;
      setup.range = range;
      setup.alone = setup_.shards == 1;
      setup.partitions = cut_into_partitions(range, partition_bytes);
      setup.initial = first.slice(static_cast<std::size_t>(range.begin) * sizeof(float),
                                  static_cast<std::size_t>(range.size()) * sizeof(float));
      setup.queue = queue;
      setup.optimizer = setup_.optimizer;
      setup.data_size = data_.train->size();
      setup.receive_buffers = receive_buffers;
      setup.per_push = entry_.per_push;
      setup.floats_per_piece = 100;
      setup.link = setup_.inject.link;
      setup.wall = [this] { return now(); };
      if (place.commits)
        setup.leads =
            protocols::lead_succession{.make = [this](protocols::lead_state from) { return make_lead(std::move(from)); },
                                       .first = {.from = {}, .since = {}, .decision = 1, .holders = shard_numbers()}};
      else if (number == 0 || entry_.per_push)
        setup.lead = make_lead({});
      actor = system_.spawn<shard_impl>(std::move(setup));
    } else {
      aggregator_setup setup{.place = place,
                             .floats = all_.size(),
                             .partitions = cut_into_partitions(all_, partition_bytes),
                             .shard_partitions = {},
                             .queue = queue,
                             .receive_buffers = receive_buffers,
                             .trace = nullptr,
                             .link = setup_.blocks.empty() ? setup_.inject.link : protocols::link_spec{},
                             .wall = [this] { return now(); }};
      for (const auto& each : shards_)
        setup.shard_partitions.push_back(cut_into_partitions(each, partition_bytes));
      actor = system_.spawn<aggregator_impl>(std::move(setup));
    }
    holders_.push_back(watched(actor, fmt::format("holder {}", number)));
    peers.holders.push_back(actor);
    if (!queue->on_host() && !setup_.apart)
      peers.local_device_holders.emplace(place.self, actor);
  }

  void spawn_worker(protocols::worker_id id, role_peers& peers) {
    auto queue = open(setup_.worker_device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    worker_setup setup;
    setup.self = id;
    setup.batch = batch;
    setup.data_size = data_.train->size();
    setup.optimizer = setup_.optimizer;
    setup.net = net_;
    setup.meter = std::make_shared<worker_meter>();
    setup.inject = setup_.inject;
    setup.wall = [this] { return now(); };
    for (const auto& holder : tree_)
      if (holder.workers.contains(id))
        setup.pushes.targets.push_back(
            {holder.self, cut_into_partitions(holder.is_shard ? shards_[holder.self.value] : all_, partition_bytes)});
    setup.receive_buffers = std::make_shared<params_assembler>(all_, allocate);
    setup.from_peers = std::make_shared<peer_assembler>(all_, allocate);
    setup.machine = entry_.make_worker(spec_, {id, {}}, 1);
    if (setup_.codec.encodes_pushes()) {
      job what;
      what.codec = setup_.codec;
      setup.pushes.encoder = std::make_shared<push_encoder>(what, id, all_.size(), allocate);
    }
    auto compute = system_.spawn<compute_impl>(compute_setup{.queue = queue,
                                                             .net = net_,
                                                             .local_optimizer = setup_.optimizer,
                                                             .max_rows = batch,
                                                             .clips_pushes = entry_.per_push,
                                                             .report_bytes = 2048});
    setup.compute = compute;
    if (!queue->on_host()) {
      setup.device = queue;
      setup.device_compute = compute;
    }
    setup.loader = system_.spawn<loader_impl>(data_.train, std::uint64_t{1}, allocate);
    workers_.push_back(watched(system_.spawn<worker_impl>(std::move(setup)), fmt::format("worker {}", id.value)));
    peers.workers.push_back(workers_.back());
    if (!queue->on_host() && !setup_.apart)
      peers.local_device_workers.emplace(id, workers_.back());
  }

  arrangement setup_;
  protocols::protocol entry_;
  protocols::protocol_spec spec_;
  std::mt19937_64 random_;
  std::vector<protocols::holder_place> tree_;
  data_pair data_ = *load_data({.source = "digits", .train_samples = 44, .test_samples = 1}, 1);
  std::shared_ptr<const model> net_ =
      std::make_shared<const model>(*model::build({.layers = setup_.layers}, data_.train->format()));
  flat_range all_{0, net_->layout().floats()};
  std::vector<flat_range> shards_ = cut_into_shards(all_.size(), static_cast<int>(setup_.shards), setup_.codec.cut_unit());
  std::shared_ptr<guarded_memory> memory_ = std::make_shared<guarded_memory>();
  std::shared_ptr<heard_of_roles> heard_ = std::make_shared<heard_of_roles>();
  std::vector<std::shared_ptr<simulated_device>> devices_;
  tests::testing_config config_;
  caf::actor_system system_{config_};
  caf::scheduler::test_coordinator& schedule_ = dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  bool copies_out_ = true;
  std::vector<holder_control> holders_;
  std::vector<worker_actor> workers_;
  std::vector<caf::actor> spawned_, monitors_; ///< nobody else knows the monitors, and an actor that nobody knows ends
};

} // namespace troupe::actors
