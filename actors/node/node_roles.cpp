// SPDX-License-Identifier: BSD-3-Clause
// How a node spawns its job's roles and introduces them to each other.
#include "actors/node/node_job.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "actors/checkpoint/first_parameters.hpp"
#include "actors/checkpoint/job_facts.hpp"
#include "actors/checkpoint/names.hpp"
#include "actors/errors.hpp"
#include "actors/node/place_roles.hpp"
#include "actors/roles/evaluator/evaluator_actor.hpp"
#include "actors/roles/holder/aggregator_actor.hpp"
#include "actors/roles/holder/shard_actor.hpp"
#include "actors/roles/worker/compute_actor.hpp"
#include "actors/roles/worker/loader_actor.hpp"
#include "kernels/codec.hpp"
#include "tensor/foreign.hpp"

namespace troupe::actors {

namespace {

/// The device of a role: chosen from its node's list, or else the job's.
const std::string& device_of(const role_place& where, const std::string& wanted) {
  return where.device.empty() ? wanted : where.device;
}

std::size_t to_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

/// The result of `make`; a device failure is reported with the role's name.
template <class F>
auto for_role(const std::string& role, const std::string& device, F make) {
  try {
    return make();
  } catch (const kernels::device_error& e) {
    throw std::runtime_error(fmt::format("{}: {}", role, describe_failure(device, e)));
  }
}

/// The job was validated by the submitting program, which may be another build.
kernels::precision precision_of(const std::string& name) {
  static const std::map<std::string, kernels::precision> known{
      {"fp32", kernels::precision::fp32}, {"tf32", kernels::precision::tf32}, {"bf16", kernels::precision::bf16}};
  if (const auto found = known.find(name); found != known.end())
    return found->second;
  throw std::runtime_error(fmt::format("compute.precision = \"{}\" is not known here; there are fp32, tf32 and bf16", name));
}

/// What the job alone says of a worker.
worker_setup working(const job& job, const protocols::protocol& runs, protocols::member self, std::int64_t data_size,
                     std::shared_ptr<const model> net, const push_encoder::allocate_fn& allocate) {
  const auto floats = net->layout().floats();
  worker_setup out;
  out.self = self.worker;
  out.incarnation = self.incarnation;
  out.seed = job.seed;
  out.batch = job.data.batch;
  out.data_size = data_size;
  out.assignment = assignment_for(job.data, static_cast<int>(self.worker.value), static_cast<int>(job.cluster.workers));
  out.optimizer = job.optimizer;
  out.inject = job.inject;
  out.keeps_own = runs.decentralized;
  out.machine = runs.make_worker(job.protocol, self, job.seed);
  out.machine->model_is(static_cast<std::uint64_t>(floats) * sizeof(float));
  out.machine->nodes_are(job.cluster.blocks);
  out.sum_partitions = [job, runs, floats](std::uint32_t kib) { return sum_partitions(job, runs, floats, kib); };
  out.machine->partitions_are(out.sum_partitions);
  out.pushes.keeps = job.cluster.replicas > 1;
  out.pushes.overlaps = job.exchange.overlap;
  out.receive_buffers = std::make_shared<params_assembler>(flat_range{0, floats}, allocate);
  out.from_peers = std::make_shared<peer_assembler>(flat_range{0, floats}, allocate);
  if (job.codec.encodes_pushes() && !runs.reduces)
    out.pushes.encoder = std::make_shared<push_encoder>(job, self.worker, floats, allocate, factored_slots_of(job, *net));
  out.pushes.budget = push_budget_of(job, runs, floats);
  if (job.codec.encodes_params())
    out.decoder = std::make_shared<decoded_parameters>(job.codec.params_form(), floats);
  out.saves = job.checkpoint.enabled() && workers_keep_state(job, runs);
  out.net = std::move(net);
  return out;
}

evaluator_setup evaluating(const data_pair& data, const job& job, const protocols::protocol& runs,
                           std::shared_ptr<const model> net, std::shared_ptr<kernels::backend> queue, tracer_ptr trace) {
  evaluator_setup out{.data = data, .train_samples = job.evaluate.train_samples, .batch_rows = job.data.piece_rows()};
  out.net = std::move(net);
  out.queue = std::move(queue);
  out.trace = std::move(trace);
  out.keeps_best = job.stop.patience > 0;
  out.same_replicas = static_cast<bool>(runs.reduces);
  return out;
}

/// The queue is not that of the compute actor, which has a thread of its own. Null where workers have nothing in common.
std::shared_ptr<common_replica> common_of(const job& job, const protocols::protocol& runs, protocols::member self,
                                          const model& net, std::int64_t data_size,
                                          const std::function<std::shared_ptr<kernels::backend>()>& open_queue) {
  if (!runs.reduces)
    return nullptr;
  const auto floats = net.layout().floats();
  const auto queue = open_queue();
  auto out = std::make_shared<common_replica>(queue, job.optimizer, floats, data_size, update_ranges(net.layout(), {0, floats}),
                                              runs.steps_by ? runs.steps_by(job.protocol) : protocols::step_rule{},
                                              job.codec.cut_unit());
  if (job.codec.encodes_pushes())
    out->encode_by(std::make_unique<chunk_encoder>(
        job, self, floats, [queue](std::size_t bytes) { return queue->allocate_host(bytes); }, factored_slots_of(job, net)));
  return out;
}

/// Who takes this worker's pushes, and in what partitions: see push_setup::targets_under.
auto targets_of(const job& job, protocols::worker_id worker, const std::vector<flat_range>& shards,
                const factored_slots& factored) {
  return [=, shape = job.shape(), exchange = job.exchange](const std::set<protocols::holder_id>& gone, std::uint32_t kib) {
    std::vector<push_target> out;
    for (const auto holder : protocols::takers_of(shape, gone, worker)) {
      const bool shard = holder.value < shards.size();
      const auto whole = shard ? shards[holder.value] : flat_range{0, shards.back().end};
      out.push_back({holder, cut_into_partitions(whole, exchange.partition_bytes(kib), factored)});
    }
    return out;
  };
}

/// Whom it pushes to.
void aim(worker_setup& at, const job& job, const std::vector<flat_range>& shards) {
  auto targets = targets_of(job, at.self, shards, factored_slots_of(job, *at.net));
  at.pushes.targets = targets({}, 0);
  if (!protocols::is_flat(job.shape()) || job.exchange.tries_sizes())
    at.pushes.targets_under = std::move(targets);
}

/// Of a backup that comes later: as of those of its shard that were there from the beginning.
protocols::holder_place place_of(const std::vector<protocols::holder_place>& tree, const role_place& where) {
  if (where.index < tree.size())
    return tree[where.index];
  auto out = tree[*where.backup_of];
  out.self = {where.index};
  out.backup_of = {*where.backup_of};
  out.backups.clear();
  return out;
}

shard_setup sharding(const job& job, const protocols::protocol& runs, const protocols::holder_place& place, flat_range range,
                     const parameter_layout& layout, const push_encoder::allocate_fn& allocate) {
  shard_setup out;
  out.place = place;
  out.range = range;
  out.alone = job.cluster.shards == 1;
  out.shards = job.cluster.shards;
  const auto cut = [range, exchange = job.exchange](std::uint32_t kib) {
    return cut_into_partitions(range, exchange.partition_bytes(kib));
  };
  out.partitions = cut(0);
  if (job.exchange.tries_sizes())
    out.partitions_under = cut;
  out.optimizer = job.shard_optimizer();
  out.per_push = runs.per_push;
  out.counts_alone = runs.decentralized;
  out.checkpoints = job.checkpoint.dir;
  out.ranges = update_ranges(layout, range);
  out.link = job.inject.link;
  if (job.codec.encodes_params())
    out.codec.emplace(job.codec.params_form(), job.seed, range, out.partitions, allocate);
  return out;
}

/// Its partitions by the holders that it may send to.
aggregator_setup aggregating(const job& job, const protocols::holder_place& place, const std::vector<flat_range>& shards) {
  aggregator_setup out;
  out.place = place;
  out.floats = shards.back().end;
  out.partitions = cut_into_partitions({0, out.floats}, job.exchange.partition_bytes());
  for (const auto& each : shards)
    out.shard_partitions.push_back(cut_into_partitions(each, job.exchange.partition_bytes()));
  out.sparse = kernels::is_sparse(job.codec.form());
  if (job.protocol.fan_in != protocols::fan_in_of_nodes) // else those that push to it are on its host
    out.link = job.inject.link;
  return out;
}

/// Of the job's leads, which live in shards: it owns what it uses.
protocols::lead_succession succession_of(const job& job, const protocols::protocol& runs,
                                         const std::vector<protocols::holder_place>& tree, bool records_rounds,
                                         const protocols::lead_state& from) {
  protocols::lead_succession out{
      .make = [runs, spec = job.protocol, seed = job.seed, shape = job.shape(), records_rounds](protocols::lead_state from) {
        auto made = std::make_shared<protocols::lead>(runs.make_rule(spec, seed), shape, runs.per_push, std::move(from));
        if (records_rounds)
          made->record_rounds();
        return made;
      }};
  out.first.from = from;
  for (const auto& place : tree)
    if (place.is_shard)
      out.first.holders.insert(place.self);
  return out;
}

/// The handles of a job's roles on node `self`: local ones, and of those elsewhere what `far_holder` makes for each holder, and
/// `far_params` for each node.
template <class FarHolder, class FarParams>
role_peers introduced(const job_places& places, std::uint32_t self, const local_roles& roles, FarHolder far_holder,
                      FarParams far_params) {
  role_peers out;
  std::map<std::uint32_t, params_actor> nodes;
  const auto workers_of = [&](std::uint32_t node) {
    auto& proxy = nodes[node];
    return proxy ? proxy : proxy = params_actor{far_params(node)};
  };
  for (const auto& where : places.holders)
    out.holders.push_back(where.node == nowhere ? holder_actor{}
                          : where.node == self  ? holder_actor{roles.holders.at(where.index)}
                                                : holder_actor{far_holder(where)});
  for (const auto& where : places.workers)
    out.workers.push_back(where.node == self ? params_actor{roles.workers.at(where.index)} : workers_of(where.node));
  out.evaluator = places.evaluator == self ? params_actor{roles.evaluator} : workers_of(places.evaluator);
  return out;
}

/// At most a few replicas are queued for a node, and no more than its lane's credit: a replica in a long queue would be outdated.
std::function<bool(protocols::worker_id)> who_is_behind(const job_places& places, std::uint32_t self,
                                                        const std::shared_ptr<net::lane_hub>& hub, std::size_t model_bytes) {
  std::map<protocols::worker_id, net::node_id> far;
  for (const auto& where : places.workers)
    if (where.node != self)
      far.emplace(protocols::worker_id{where.index}, net::node_id{where.node});
  return [hub, far = std::move(far), most = 4 * model_bytes](protocols::worker_id worker) {
    const auto node = far.find(worker);
    if (node == far.end())
      return false;
    for (const auto& lane : hub->stats())
      if (lane.peer == node->second)
        return lane.queued_bytes > std::min<std::uint64_t>(most, lane.credit_bytes);
    return true;
  };
}

proxy_target far(const job& job, const std::shared_ptr<net::lane_hub>& hub, std::uint32_t node) {
  return {hub, net::node_id{node}, job.exchange.partition_bytes(), job.exchange.order == "layers"};
}

first_parameters first_of(const job& job, const model& net) {
  const auto& by = net.computed_by();
  return {job, net.layout(), by ? by->initial() : std::span<const float>{}};
}

compute_setup computing(const job& job, const protocols::protocol& runs, const std::shared_ptr<kernels::backend>& queue,
                        const std::shared_ptr<const model>& net, std::uint32_t worker, std::uint32_t life) {
  compute_setup out{.queue = queue, .net = net, .local_optimizer = job.optimizer, .max_rows = job.data.batch};
  out.piece_rows = job.data.piece_rows();
  out.recompute = job.compute.recomputes();
  out.factors = job.codec.factors();
  out.clips_pushes = runs.per_push;
  out.keeps_replica = runs.keeps && runs.keeps(job.protocol).dual; // one without the other is of no use
  out.worker = worker;
  out.life = life;
  out.checkpoints = job.checkpoint.dir;
  return out;
}

/// A worker of a job that goes on from a checkpoint has what it kept, as far as there is something.
void resume(worker_setup& worker, compute_setup& computes, const first_parameters& from, std::int64_t floats,
            const push_encoder::allocate_fn& allocate) {
  computes.start = from.of_worker(worker.self.value, allocate);
  if (worker.pushes.encoder)
    worker.pushes.encoder->resume(computes.start);
  if (worker.common) {
    worker.common->resume(from.of_shard({0, floats}, allocate));
    worker.common->resume_codes(computes.start);
  }
  const saved_state& kept = computes.start;
  const auto* replica = kept.find(replica_name);
  const bool is_of_use = replica != nullptr && kernels::every_finite(replica->span<const float>()) && std::isfinite(kept.weight);
  worker.machine->goes_on({.samples = from.lead().samples_applied,
                           .has_replica = is_of_use,
                           .weight = kept.weight,
                           .position = kept.position,
                           .open = kept.open});
}

/// How a worker writes what all have alike.
auto saving(std::shared_ptr<const common_replica> common, caf::actor_system& system, std::string dir,
            std::function<void(const file_saved&)> tell) {
  return [=, &system](protocols::version ver, const protocols::lead_state& from) {
    auto out = std::make_shared<role_snapshot>(common->saved(ver));
    out->add(from, 0); // the coordinator knows the time
    write_behind(system, std::move(out), dir, tell);
  };
}

} // namespace

void node_job::spawn_roles() {
  spawn_holders();
  for (const auto& where : places_.workers)
    if (where.node == number_)
      spawn_worker(where.index, run_.incarnation);
  if (number_ == places_.evaluator)
    spawn_evaluator();
  introduce();
}

/// It may be another one by then.
std::function<void(const file_saved&)> node_job::for_coordinator() const {
  return [me = node_control{self_}, run = run_](const file_saved& msg) { caf::anon_send(me, part_saved{run, msg}); };
}

void node_job::spawn_holders() {
  kernels::buffer first;
  const auto source = first_of(job_, *net_);
  for (const auto& where : places_.holders)
    if (where.node == number_)
      spawn_holder(where, source, first);
}

/// `first`: the whole model's first parameters, once some holder has needed them.
void node_job::spawn_holder(const role_place& where, const first_parameters& source, kernels::buffer& first) {
  auto floats = net_->layout().floats();
  const auto place = place_of(tree_, where);
  const char* role = place.backup_of ? "replica" : place.is_shard ? "shard" : "aggregator";
  const auto name = fmt::format("{} {}", role, where.index);
  const auto& device = device_of(where, job_.compute.shard_device);
  auto queue = for_role(name, device, [&] { return open_queue(device, where.index | of_holder); });
  auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
  flat_range range = place.is_shard ? shard_ranges_[place.backup_of.value_or(place.self).value] : flat_range{0, floats};
  holder_receive_buffers receive_buffers{std::make_shared<push_assembler>(range, allocate),
                                         std::make_shared<partial_assembler>(range, allocate)};
  holder_control actor;
  if (place.is_shard) {
    if (!first)
      first = source.flat(allocate);
    auto setup = sharding(job_, protocol_, place, range, net_->layout(), allocate);
    setup.initial = first.slice(to_bytes(range.begin), to_bytes(range.size()));
    setup.queue = queue;
    setup.data_size = loaded_.data.train->size();
    setup.receive_buffers = receive_buffers;
    setup.catches_up = where.catches_up;
    setup.start = source.of_shard(range, allocate);
    setup.saved = for_coordinator();
    setup.trace = trace_;
    auto leads = succession_of(job_, protocol_, tree_, records_rounds_, source.lead());
    if (place.commits)
      setup.leads = std::move(leads);
    else if (where.index == 0 || protocol_.per_push)
      setup.lead = leads.make(source.lead());
    const shard_control shard = for_role(name, device, [&] { return self_->spawn<shard_impl, caf::detached>(std::move(setup)); });
    if (!place.backup_of)
      roles_.shards.emplace(where.index, shard);
    actor = shard;
  } else {
    auto setup = aggregating(job_, place, shard_ranges_);
    setup.start = source.ver();
    setup.queue = queue;
    setup.receive_buffers = receive_buffers;
    setup.trace = trace_;
    actor = self_->spawn<aggregator_impl, caf::detached>(std::move(setup));
  }
  self_->monitor(actor);
  if (router_)
    router_->add(place.self, holder_actor{actor}, receive_buffers);
  if (router_ && place.backup_of) // others may take it for the shard before this node has heard that it is
    router_->add(*place.backup_of, holder_actor{actor}, receive_buffers);
  if (!queue->on_host())
    local_device_holders_.insert_or_assign(place.self, actor);
  roles_.holders.emplace(where.index, actor);
  shown_.push_back({actor, name, role, own_id()});
}

caf::result<void> node_job::on_backup(const role_place& msg) {
  if (!net_ || msg.node >= places_.nodes.size() || !msg.backup_of || *msg.backup_of >= job_.cluster.shards)
    return failure("a backup comes to a job that has no place for it, or not yet");
  places_.add(msg);
  if (msg.node == number_) {
    kernels::buffer first;
    spawn_holder(msg, first_of(job_, *net_), first);
  }
  if (router_)
    router_->take_only_from(places_);
  lanes_needed_ = places_.peers_of(number_, decentralized());
  for (const auto peer : lanes_needed_)
    if (!lanes_up_.contains(peer))
      dial(peer);
  introduce();
  return caf::unit;
}

void node_job::note(const protocols::takes_over& msg) {
  if (msg.by.value >= places_.holders.size() || !places_.holders[msg.by.value].backup_of)
    return;
  places_.take_over(msg);
  if (auto actor = roles_.holders.extract(msg.by.value)) {
    shown_.push_back({actor.mapped(), fmt::format("shard {}", msg.shard.value), "shard", own_id()});
    std::erase_if(shown_, [&](const shown_actor& each) { return each.id == fmt::format("replica {}", msg.by.value); });
    roles_.shards.insert_or_assign(msg.shard.value, caf::actor_cast<parameters_actor>(actor.mapped()));
    roles_.holders.insert_or_assign(msg.shard.value, std::move(actor.mapped()));
  }
  if (auto near = local_device_holders_.extract(msg.by))
    local_device_holders_.insert_or_assign(msg.shard, std::move(near.mapped()));
  if (router_)
    router_->take_only_from(places_);
  introduce();
}

void node_job::spawn_worker(std::uint32_t index, std::uint32_t incarnation) {
  auto floats = net_->layout().floats();
  protocols::worker_id id{index};
  const auto name = fmt::format("worker {}", index);
  const auto& device = device_of(places_.workers[index], job_.compute.device);
  auto queue = for_role(name, device, [&] { return open_queue(device, index); });
  auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
  auto setup = working(job_, protocol_, {id, protocols::incarnation{incarnation}}, loaded_.data.train->size(), net_, allocate);
  aim(setup, job_, shard_ranges_);
  setup.meter = meter_;
  setup.trace = trace_;
  setup.common =
      common_of(job_, protocol_, {id, setup.incarnation}, *net_, setup.data_size, [&] { return open_queue("cpu", index); });
  if (setup.common)
    setup.save_common = saving(setup.common, self_->home_system(), job_.checkpoint.dir, for_coordinator());
  auto computes = computing(job_, protocol_, queue, net_, index, incarnation);
  if (incarnation == 0) // a later life begins without what this one kept, as in a job without checkpoints
    resume(setup, computes, first_of(job_, *net_), floats, allocate);
  computes.saved = for_coordinator();
  auto compute = for_role(name, device, [&] { return self_->spawn<compute_impl, caf::detached>(std::move(computes)); });
  setup.compute = compute;
  if (!queue->on_host()) {
    setup.device = queue;
    setup.device_compute = compute;
  }
  auto loader =
      self_->spawn<loader_impl, caf::detached>(loaded_.data.train, job_.seed, allocate, setup.assignment, trace_, index);
  setup.loader = loader;
  auto receive_buffers = setup.receive_buffers;
  auto from_peers = setup.from_peers;
  auto actor = self_->spawn<worker_impl>(std::move(setup));
  self_->monitor(actor);
  if (router_)
    router_->add(id, params_actor{actor}, receive_buffers, from_peers);
  receive_buffers_.insert_or_assign(id, receive_buffers);
  if (!queue->on_host())
    local_device_workers_.insert_or_assign(id, actor);
  roles_.workers.insert_or_assign(index, actor);
  roles_.incarnations.insert_or_assign(index, incarnation);
  unheard_.replaced(role_lost::kind::worker, index);
  std::erase_if(shown_, [&](const shown_actor& old) { return old.id == name || old.watched_by == name; });
  shown_.push_back({actor, name, "worker", own_id()});
  shown_.push_back({compute, fmt::format("compute {}", index), "compute", name});
  shown_.push_back({loader, fmt::format("loader {}", index), "loader", name});
}

/// Introduces the new worker to the roles of this process; over lanes it has the old one's number. The old worker ends first,
/// even if the new one cannot be made: a device may have room for only one of them.
void node_job::restart_worker(std::uint32_t index, std::uint32_t incarnation) {
  if (const auto old = roles_.workers.find(index); old != roles_.workers.end()) {
    self_->demonitor(old->second);
    self_->send_exit(old->second, caf::exit_reason::user_shutdown);
    note_end(fmt::format("worker {}", index), "a restarted one takes its place");
  }
  spawn_worker(index, incarnation);
  introduce();
}

/// On the device of this node's workers, or else of its shards: a CPU might take longer than the training does.
void node_job::spawn_evaluator() {
  const auto of_the_first = [this](const std::vector<role_place>& roles, const std::string& wanted) {
    const auto here = std::ranges::find(roles, number_, &role_place::node);
    return here == roles.end() ? std::string{} : device_of(*here, wanted);
  };
  auto device = of_the_first(places_.workers, job_.compute.device);
  if (device.empty())
    device = of_the_first(places_.holders, job_.compute.shard_device);
  auto queue = for_role("the evaluator", device, [&] { return open_queue(device); });
  auto setup = evaluating(loaded_.data, job_, protocol_, net_, queue, trace_);
  const flat_range all{0, net_->layout().floats()};
  auto allocate = [queue](std::size_t bytes) { return queue->allocate_host(bytes); };
  auto receive_buffers = setup.receive_buffers = std::make_shared<params_assembler>(all, allocate);
  auto from_workers = setup.from_workers = std::make_shared<peer_assembler>(all, allocate);
  roles_.evaluator =
      for_role("the evaluator", device, [&] { return self_->spawn<evaluator_impl, caf::detached>(std::move(setup)); });
  self_->monitor(roles_.evaluator);
  unheard_.replaced(role_lost::kind::evaluator, 0);
  shown_.push_back({roles_.evaluator, "evaluator 0", "evaluator", own_id()});
  if (router_)
    router_->add(protocols::evaluator, params_actor{roles_.evaluator}, receive_buffers, from_workers);
  if (plan_.epoch != protocols::plan_epoch{}) // it takes another one's place
    caf::anon_send(roles_.evaluator, plan_);
}

/// Here or elsewhere. `why` the last one ends, if it is here.
void node_job::replace_evaluator(const std::string& why) {
  if (auto last = std::exchange(roles_.evaluator, nullptr)) {
    self_->demonitor(last);
    self_->send_exit(last, caf::exit_reason::user_shutdown);
    note_end("evaluator 0", why);
  }
  if (places_.evaluator == number_)
    spawn_evaluator();
  introduce();
}

holder_actor node_job::proxy_of(const role_place& holder) {
  auto& proxy = proxies_[{holder.node, holder.index}];
  if (!proxy)
    proxy = self_->spawn<holder_proxy_impl>(far(job_, hub_, holder.node), protocols::holder_id{holder.index});
  return proxy;
}

/// Local roles directly, remote ones by proxies: the roles cannot tell the difference.
void node_job::introduce() {
  auto peers = std::make_shared<role_peers>(introduced(
      places_, number_, roles_, [this](const role_place& at) { return proxy_of(at); },
      [&](std::uint32_t node) { return self_->spawn<params_proxy_impl>(far(job_, hub_, node)); }));
  // Only on the host: from a device, parameters must be copied to the workers anyway.
  if (job_.compute.device == "cpu" && job_.compute.shard_device == "cpu")
    peers->receive_buffers = receive_buffers_;
  peers->local_device_holders = local_device_holders_;
  peers->local_device_workers = local_device_workers_;
  peers->is_behind = who_is_behind(places_, number_, hub_, to_bytes(net_->layout().floats()));
  peers->coordinator = coordinator_;
  roles_.tell(peers_ptr{peers});
}

std::shared_ptr<kernels::backend> node_job::open_queue(const std::string& device, std::optional<std::uint32_t> role) const {
  kernels::backend_options options{
      .device = device, .threads = job_.compute.threads, .products = precision_of(job_.compute.precision)};
  if (role)
    options.on_span = device_recorder(traces_devices_ ? trace_ : nullptr, *role);
  return kernels::open_backend(options);
}

} // namespace troupe::actors
