// SPDX-License-Identifier: BSD-3-Clause
// Workers and shards on devices whose memory and queues are not the host's: the numbers of a run on the CPU, whatever runs when.
#include <algorithm>
#include <cmath>
#include <functional>
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
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/aggregator_actor.hpp"
#include "actors/compute_actor.hpp"
#include "actors/errors.hpp"
#include "actors/loader_actor.hpp"
#include "actors/shard_actor.hpp"
#include "actors/worker_actor.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"
#include "tests/actors/simulated_device.hpp"
#include "tests/actors/testing_scheduler.hpp"

namespace troupe::actors {
namespace {

using troupe::tests::guarded_memory;
using troupe::tests::simulated_device;

/// Where the roles of a cluster in this process compute, and what on.
struct arrangement {
  std::string protocol = "sync";
  std::map<std::string, protocols::spec_value> parameters = {};
  std::uint32_t workers = 2, shards = 1, fan_in = 0;
  std::string worker_device = "cpu", shard_device = "cpu"; ///< "sim:0", "sim:1"
  bool apart = false; ///< as on hosts of their own: what they send each other leaves the device
  std::uint64_t versions = 12;
  optimizer_spec optimizer = {.lr = 0.05, .momentum = 0.9};
  std::vector<std::string> layers = {"flatten", "linear 8", "relu", "linear 10"};
};

/// What the coordinator and the evaluator of a cluster have heard.
struct heard {
  std::optional<protocols::report> held;
  protocols::version evaluated; ///< of the last part that the evaluator got
  std::vector<std::pair<flat_range, kernels::buffer>> parameters;
  std::vector<std::string> ends;
};

class listening_coordinator_state {
public:
  static inline const char* name = "test.coordinator";
  listening_coordinator_state(coordinator_actor::stateful_pointer<listening_coordinator_state>, std::shared_ptr<heard> h)
      : heard_(std::move(h)) {}
  coordinator_actor::behavior_type make_behavior() {
    return {[this](const protocols::report& msg) {
              if (msg.what == protocols::report::kind::held)
                heard_->held = msg;
            },
            [](const collected&) {}, [](const evaluation&) {}, [](const role_lost&) {}, [](const protocols::expired&) {}, [](const stop_job&) {}};
  }

private:
  std::shared_ptr<heard> heard_;
};

class listening_evaluator_state {
public:
  static inline const char* name = "test.evaluator";
  listening_evaluator_state(params_actor::stateful_pointer<listening_evaluator_state>, std::shared_ptr<heard> h) : heard_(std::move(h)) {}
  params_actor::behavior_type make_behavior() {
    return {[this](const wire::params_part& head, const kernels::buffer& payload) {
              heard_->evaluated = head.what.ver;
              keep(head.where, payload);
            },
            [this](const wire::peer_part& head, const kernels::buffer& payload) { keep(head.where, payload); }};
  }

private:
  void keep(const wire::range& where, const kernels::buffer& payload) {
    heard_->parameters.emplace_back(flat_range{where.begin, where.end}, payload);
  }
  std::shared_ptr<heard> heard_;
};

/// A cluster in one process under CAF's testing scheduler. What runs next (a message, an operation of some queue) is drawn from a
/// seed.
class cluster {
public:
  cluster(arrangement what, std::uint64_t seed)
      : what_(std::move(what)), entry_(*protocols::find_protocol(what_.protocol)), random_(seed),
        tree_(protocols::holder_tree(what_.workers, what_.shards, what_.fan_in)) {
    spec_.name = what_.protocol;
    spec_.fan_in = what_.fan_in;
    spec_.parameters = what_.parameters;
    spawn();
  }
  ~cluster() {
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
    say_to_holders(protocols::hold_order{.at_version = what_.versions});
    protocols::plan plan{.epoch = {1}, .workers = {}, .protocol = spec_, .period = protocols::initial_period(spec_), .batch = batch,
                         .data_size = data_.train->size()};
    for (std::uint32_t worker = 0; worker < what_.workers; ++worker)
      plan.workers.push_back({{worker}, {}});
    say_to_holders(plan);
    for (const auto& worker : workers_)
      caf::anon_send(worker, plan);
  }

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
  void drain() { run_until([] { return false; }); }

  heard& hears() { return *heard_; }
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
  static constexpr std::int64_t batch = 8, partition_bytes = 4096;

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
      spawn_holder(place, *peers);
    for (std::uint32_t worker = 0; worker < what_.workers; ++worker)
      spawn_worker({worker}, *peers);
    peers->evaluator = watched(system_.spawn<params_actor::stateful_impl<listening_evaluator_state>>(heard_), "evaluator");
    peers->coordinator = watched(system_.spawn<coordinator_actor::stateful_impl<listening_coordinator_state>>(heard_), "coordinator");
    peers->is_behind = [](protocols::worker_id) { return false; };
    peers_ptr shared = peers;
    say_to_holders(shared);
    for (const auto& worker : workers_)
      caf::anon_send(worker, shared);
  }

  void spawn_holder(const protocols::holder_place& place, role_peers& peers) {
    const auto number = place.self.value;
    auto queue = open(what_.shard_device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    const flat_range range = place.is_shard ? shards_[number] : all_;
    const holder_landing landing{std::make_shared<push_assembler>(range, allocate), std::make_shared<partial_assembler>(range, allocate)};
    holder_control actor;
    if (place.is_shard) {
      auto first = queue->allocate_host(static_cast<std::size_t>(all_.size()) * sizeof(float));
      std::fill_n(first.as<float>(), all_.size(), 0.0F);
      initialize_parameters(net_->layout(), 1, first.as<float>());
      shard_setup setup;
      setup.place = place;
      setup.range = range;
      setup.alone = what_.shards == 1;
      setup.partitions = cut_into_partitions(range, partition_bytes);
      setup.initial = first.slice(static_cast<std::size_t>(range.begin) * sizeof(float), static_cast<std::size_t>(range.size()) * sizeof(float));
      setup.queue = queue;
      setup.optimizer = what_.optimizer;
      setup.data_size = data_.train->size();
      setup.landing = landing;
      setup.per_push = entry_.per_push;
      setup.floats_per_piece = 100;
      if (number == 0 || entry_.per_push)
        setup.lead = std::make_shared<protocols::lead>(entry_.make_rule(spec_, 1),
                                                       entry_.per_push || tree_.size() > what_.shards ? 1 : what_.shards, entry_.per_push);
      actor = system_.spawn<shard_impl>(std::move(setup));
    } else {
      aggregator_setup setup{.place = place, .floats = all_.size(), .partitions = {}, .queue = queue, .landing = landing, .trace = nullptr};
      for (auto parent : place.parents)
        setup.partitions.push_back(cut_into_partitions(tree_[parent.value].is_shard ? shards_[parent.value] : all_, partition_bytes));
      actor = system_.spawn<aggregator_impl>(std::move(setup));
    }
    holders_.push_back(watched(actor, fmt::format("holder {}", number)));
    peers.holders.push_back(actor);
    if (!queue->on_host() && !what_.apart)
      peers.near_holders.emplace(place.self, actor);
  }

  void spawn_worker(protocols::worker_id id, role_peers& peers) {
    auto queue = open(what_.worker_device);
    auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
    worker_setup setup;
    setup.self = id;
    setup.batch = batch;
    setup.data_size = data_.train->size();
    setup.optimizer = what_.optimizer;
    setup.net = net_;
    setup.meter = std::make_shared<emulation_meter>();
    for (const auto& holder : tree_)
      if (holder.workers.contains(id))
        setup.targets.push_back({holder.self, cut_into_partitions(holder.is_shard ? shards_[holder.self.value] : all_, partition_bytes)});
    setup.landing = std::make_shared<params_assembler>(all_, allocate);
    setup.from_peers = std::make_shared<peer_assembler>(all_, allocate);
    setup.machine = entry_.make_worker(spec_, {id, {}}, 1);
    auto compute = system_.spawn<compute_impl>(compute_setup{queue, net_, what_.optimizer, batch, 2048});
    setup.compute = compute;
    if (!queue->on_host()) {
      setup.device = queue;
      setup.device_compute = compute;
    }
    setup.loader = system_.spawn<loader_impl>(data_.train, std::uint64_t{1}, allocate);
    workers_.push_back(watched(system_.spawn<worker_impl>(std::move(setup)), fmt::format("worker {}", id.value)));
    peers.workers.push_back(workers_.back());
    if (!queue->on_host() && !what_.apart)
      peers.near_workers.emplace(id, workers_.back());
  }

  arrangement what_;
  protocols::catalog_entry entry_;
  protocols::protocol_spec spec_;
  std::mt19937_64 random_;
  std::vector<protocols::holder_place> tree_;
  data_pair data_ = *load_data({.source = "digits", .train_samples = 44, .test_samples = 1}, 1);
  std::shared_ptr<const model> net_ = std::make_shared<const model>(
    *model::build({.layers = what_.layers}, data_.train->sample(), data_.train->classes()));
  flat_range all_{0, net_->layout().floats()};
  std::vector<flat_range> shards_ = cut_into_shards(all_.size(), static_cast<int>(what_.shards));
  std::shared_ptr<guarded_memory> memory_ = std::make_shared<guarded_memory>();
  std::shared_ptr<heard> heard_ = std::make_shared<heard>();
  std::vector<std::shared_ptr<simulated_device>> devices_;
  tests::testing_config config_;
  caf::actor_system system_{config_};
  caf::scheduler::test_coordinator& schedule_ = dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  bool copies_out_ = true;
  std::vector<holder_control> holders_;
  std::vector<worker_actor> workers_;
  std::vector<caf::actor> spawned_, monitors_; ///< nobody else knows the monitors, and an actor that nobody knows ends
};

std::vector<float> trained(const arrangement& what, std::uint64_t seed) {
  cluster run{what, seed};
  run.train();
  EXPECT_THAT(run.hears().ends, ::testing::IsEmpty());
  return run.parameters();
}

/// On every arrangement of devices, whatever runs when, the bits of the CPU.
void expect_the_cpus_numbers(arrangement what) {
  const auto expected = trained(what, 0);
  ASSERT_TRUE(std::ranges::all_of(expected, [](float p) { return std::isfinite(p); }));
  struct places {
    std::string worker, shard;
    bool apart = false;
  };
  for (const auto& [worker, shard, apart] : std::vector<places>{
         {"cpu", "cpu"}, {"sim:0", "cpu"}, {"cpu", "sim:0"}, {"sim:0", "sim:0"}, {"sim:0", "sim:1"}, {"sim:0", "sim:1", true}}) {
    what.worker_device = worker;
    what.shard_device = shard;
    what.apart = apart;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      ASSERT_TRUE(trained(what, seed) == expected)
        << what.protocol << ", workers on " << worker << ", shards on " << shard << (apart ? ", apart" : "") << ", seed " << seed;
  }
}

TEST(DeviceRoles, ARoundsStepIsTheCpus) { expect_the_cpus_numbers({}); }
TEST(DeviceRoles, SeveralShardsAndAdamw) { expect_the_cpus_numbers({.shards = 3, .optimizer = {.name = "adamw", .lr = 0.01}}); }
TEST(DeviceRoles, ATreeOfAggregators) { expect_the_cpus_numbers({.workers = 4, .shards = 2, .fan_in = 2, .versions = 6}); }
TEST(DeviceRoles, LocalStepsStayOnTheDevice) { expect_the_cpus_numbers({.protocol = "local", .parameters = {{"steps", std::int64_t{3}}}, .shards = 2, .versions = 4}); }
TEST(DeviceRoles, PushesOfOneWorkerAppliedAlone) { expect_the_cpus_numbers({.protocol = "async", .workers = 1}); }
TEST(DeviceRoles, DelayCompensation) { expect_the_cpus_numbers({.protocol = "dc-async", .workers = 1, .optimizer = {.lr = 0.05}}); }
TEST(DeviceRoles, ElasticAveraging) { expect_the_cpus_numbers({.protocol = "easgd", .parameters = {{"steps", std::int64_t{3}}}, .workers = 1, .versions = 5}); }
TEST(DeviceRoles, ElasticAveragingWithMomentum) { expect_the_cpus_numbers(
    {.protocol = "easgd", .parameters = {{"momentum", 0.9}, {"steps", std::int64_t{2}}}, .workers = 1, .versions = 5, .optimizer = {.lr = 0.05, .weight_decay = 0.01}}); }
TEST(DeviceRoles, ProximalAndDualTerms) { expect_the_cpus_numbers(
    {.protocol = "admm", .parameters = {{"barrier", std::int64_t{2}}, {"l1", 0.001}, {"steps", std::int64_t{3}}}, .versions = 4}); }
TEST(DeviceRoles, CodedSums) { expect_the_cpus_numbers({.protocol = "coded", .versions = 6}); }

/// The centre after so many exchanges of one worker, by algorithms 1 and 2 of the paper, where 44 samples are cut into batches of 8.
std::vector<double> elastic_centre(std::uint64_t exchanges, std::uint64_t period, double delta, const optimizer_spec& how, double alpha) {
  const auto data = *load_data({.source = "digits", .train_samples = 44, .test_samples = 1}, 1);
  const auto net = *model::build({.layers = {"flatten", "linear 8", "relu", "linear 10"}}, data.train->sample(), data.train->classes());
  const std::shared_ptr<kernels::backend> queue = kernels::open_backend({});
  const auto compiled = plan::compile(net, *queue, {.max_rows = 8, .training = true});
  batch_loader loader{data.train, 1, [queue](std::size_t bytes) { return queue->allocate_host(bytes); }};
  std::vector<float> at(static_cast<std::size_t>(net.layout().floats())), g(at.size());
  initialize_parameters(net.layout(), 1, at.data());
  std::vector<double> x(at.begin(), at.end()), centre = x, v(x.size());
  std::uint64_t position = 0;
  for (std::uint64_t t = 0, done = 0;; ++t) {
    const auto before = x;
    if (t > 0 && t % period == 0) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] -= alpha * (before[k] - centre[k]);
        centre[k] += alpha * (before[k] - centre[k]);
      }
      if (++done == exchanges)
        return centre;
    }
    for (std::size_t k = 0; k < x.size(); ++k)
      at[k] = static_cast<float>(before[k] + delta * v[k]);
    const auto rows = global_batch(position, 8, 44);
    const auto loaded = loader.load(rows);
    (*compiled)->enqueue_step({.parameters = at.data(), .gradients = g.data(), .x = loaded.x.as<const float>(),
                        .labels = loaded.labels.as<const std::int32_t>(), .rows = loaded.rows});
    queue->synchronize();
    for (std::size_t k = 0; k < x.size(); ++k) {
      v[k] = delta * v[k] - how.lr * (static_cast<double>(g[k]) + how.weight_decay * static_cast<double>(at[k]));
      x[k] += v[k];
    }
    position += static_cast<std::uint64_t>(rows.size());
  }
}

TEST(RolesOfAJob, ElasticAveragingIsThePapersAlgorithm) {
  for (const double delta : {0.0, 0.9})
    for (const std::int64_t period : {1, 3}) {
      const arrangement what{.protocol = "easgd", .parameters = {{"momentum", delta}, {"steps", period}}, .workers = 1, .shards = 2,
                             .versions = 10, .optimizer = {.lr = 0.05, .weight_decay = 0.01}};
      const auto found = trained(what, 3);
      const auto expected = elastic_centre(10, static_cast<std::uint64_t>(period), delta, what.optimizer, 0.9);
      for (std::size_t k = 0; k < found.size(); ++k)
        ASSERT_NEAR(found[k], expected[k], 2e-5) << "momentum " << delta << ", H = " << period;
    }
}

// Two workers that compute the same rows draw the same masks, so what is decoded is one gradient.
TEST(RolesOfAJob, ACodedStepWithDropoutIsTheSameWhoeverComes) {
  const arrangement what{.protocol = "coded", .parameters = {{"scheme", "cyclic"}}, .workers = 5, .worker_device = "sim:0", .versions = 1,
                         .layers = {"flatten", "linear 8", "relu", "dropout 0.5", "linear 10"}};
  const auto first = trained(what, 1);
  const float largest = std::abs(*std::ranges::max_element(first, {}, [](float p) { return std::abs(p); }));
  bool differ = false;
  for (std::uint64_t seed = 2; seed <= 12; ++seed) {
    const auto other = trained(what, seed);
    differ = differ || other != first;
    for (std::size_t k = 0; k < first.size(); ++k)
      ASSERT_NEAR(other[k], first[k], 1e-6F * largest) << "seed " << seed;
  }
  EXPECT_TRUE(differ) << "others have come";
}

TEST(DeviceRoles, WhoReadsFromElsewhereGetsOneVersionWhileTheJobGoesOn) {
  for (const std::string device : {"cpu", "sim:0"}) {
    arrangement what{.shards = 2, .versions = 30};
    what.shard_device = device;
    cluster run{what, 5};
    caf::scoped_actor reader{run.system()}, other{run.system()};
    EXPECT_FALSE(run.read(reader, 0, 100)) << "never begun";
    run.begin();
    run.run_until([&, steps = 0]() mutable { return ++steps > 1500; });
    std::vector<parameters_piece> readings;
    for (std::size_t shard : {0, 1})
      readings.push_back(*run.read(reader, shard, 0));
    run.drain(); // to the last version
    EXPECT_EQ(run.read(other, 0, 0)->ver, protocols::version{30}) << "the newest, whatever others read";
    for (std::size_t shard : {0, 1}) {
      auto& all = readings[shard];
      ASSERT_GT(all.ver, protocols::version{0});
      ASSERT_LT(all.ver, protocols::version{30});
      while (!all.last) {
        const auto piece = run.read(reader, shard, all.values.size());
        ASSERT_TRUE(piece);
        EXPECT_EQ(piece->ver, all.ver);
        EXPECT_LE(piece->values.size(), 100U);
        all.values.insert(all.values.end(), piece->values.begin(), piece->values.end());
        all.last = piece->last;
      }
      auto until_then = what;
      until_then.versions = all.ver.value;
      const auto expected = trained(until_then, 6);
      const auto range = run.range(shard);
      EXPECT_TRUE(std::equal(all.values.begin(), all.values.end(), expected.begin() + range.begin, expected.begin() + range.end)) << device;
      EXPECT_FALSE(run.read(reader, shard, 100)) << "it has ended";
    }
  }
}

TEST(DeviceRoles, WhatLeavesADeviceIsTheVersionThatWasAskedForHoweverLateItIsCopied) {
  for (std::uint32_t shards : {1, 2}) {
    const arrangement what{.shards = shards, .worker_device = "sim:0", .shard_device = "sim:0", .versions = 20};
    cluster run{what, 7};
    run.begin();
    run.run_until([steps = 0]() mutable { return ++steps > 1000; });
    run.let_copies_out(false);
    run.ask_for_parameters();
    run.drain(); // to the last version: nobody holds the one that was asked for, but its copy
    ASSERT_TRUE(run.hears().held);
    run.let_copies_out(true);
    run.drain();
    auto until_then = what;
    until_then.versions = run.hears().evaluated.value;
    ASSERT_GT(until_then.versions, 0U);
    ASSERT_LT(until_then.versions, what.versions);
    EXPECT_TRUE(run.what_arrived() == trained(until_then, 8)) << shards << " shards, version " << until_then.versions;
  }
}

const arrangement all_on_devices{.worker_device = "sim:0", .shard_device = "sim:0"};

TEST(DeviceRoles, StepsAreReplayedInMemoryThatDoesNotGrow) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    std::vector<std::size_t> peaks;
    for (std::uint64_t versions : {15, 45}) {
      auto what = all_on_devices;
      what.versions = versions;
      cluster run{what, seed};
      run.train();
      peaks.push_back(run.peak_bytes());
      // Two workers; batches of 8 and of 6 rows; at most three blocks of parameters, and three of gradients.
      EXPECT_LE(run.captures(), 2 * 2 * 3 * 3);
      EXPECT_EQ(run.replays(), static_cast<int>(2 * versions)) << "each step is a replay";
    }
    EXPECT_LE(peaks[1], peaks[0] + peaks[0] / 4) << "seed " << seed;
  }
}

TEST(DeviceRoles, ALostDeviceEndsItsRoleWithTheReason) {
  auto what = all_on_devices;
  what.versions = 1000;
  for (const bool shard : {true, false}) {
    cluster run{what, 3};
    auto& device = run.device(shard ? 0 : 1); // holders come first
    run.begin();
    run.run_until([&, steps = 0]() mutable { return ++steps > 4000 && device.waiting() > 0; });
    device.lose(); // and whoever waits for it hears nothing
    run.drain();
    EXPECT_THAT(run.hears().ends, ::testing::IsEmpty());
    run.pass_time();
    run.drain();
    EXPECT_THAT(run.hears().ends, ::testing::ElementsAre(fmt::format(
                                    "{} 0: its device sim:0 failed: the simulated device is lost", shard ? "holder" : "worker")));
    run.pass_time(10); // what it left behind is given up
  }
}

TEST(DeviceRoles, WhatIsEnqueuedOutlivesItsActor) {
  auto what = all_on_devices;
  what.versions = 1000;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    cluster run{what, seed};
    run.begin();
    run.run_until([&, steps = std::uint64_t{0}]() mutable { return ++steps > 2000 + 10 * seed && run.device(1).waiting() > 0; });
    run.crash(0);
    run.run_until([&, steps = 0]() mutable { return ++steps > 300 || !run.hears().ends.empty(); }); // the rest in any order
    run.drain();
    EXPECT_THAT(run.hears().ends, ::testing::ElementsAre(::testing::HasSubstr("worker 0")));
    EXPECT_EQ(run.device(1).waiting(), 0U);
  }
}

} // namespace
} // namespace troupe::actors
