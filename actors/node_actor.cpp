// SPDX-License-Identifier: BSD-3-Clause
// The node's handlers: a job's life in one process.
#include "actors/node_actor.hpp"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/net/ports.hpp"
#include "actors/process.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds lane_deadline{20};

/// Whatever goes wrong is said: the node waits for the answer.
data_loaded load(job_life of, const job& what, const extensions& added) {
  try {
    auto loaded = load_data(what, added);
    return loaded ? data_loaded{of, *loaded, {}} : data_loaded{of, {}, loaded.error().what};
  } catch (const std::exception& e) {
    return {of, {}, e.what()};
  }
}

/// The job was checked by the program that started it, which may be another build.
kernels::precision precision_of(const std::string& name) {
  static const std::map<std::string, kernels::precision> known{
    {"fp32", kernels::precision::fp32}, {"tf32", kernels::precision::tf32}, {"bf16", kernels::precision::bf16}};
  if (const auto found = known.find(name); found != known.end())
    return found->second;
  throw std::runtime_error(fmt::format("compute.precision = \"{}\" is not known here; there are fp32, tf32 and bf16", name));
}

} // namespace

node_state::node_state(measured_pointer<node_control> self, node_options where) : self_(self), where_(std::move(where)) {
  end_with_reason(*self);
  self->set_down_handler([this](const caf::down_msg& msg) { on_down(msg); });
  self->set_exit_handler([this](const caf::exit_msg& msg) {
    stop();
    self_->quit(msg.reason);
  });
  if (where_.metrics) {
    metrics_.emplace(self->home_system());
    measure_every_second();
  }
}

node_control::behavior_type node_state::make_behavior() {
  return {
    [this](const prepare_job& msg) { return prepare(msg); },
    [this](const job_places& msg) { return start(msg); },
    [this](const node_place& msg) { on_back(msg); },
    [this](const protocols::plan& msg) {
      tell_all(msg);
      tell_evaluator(msg);
    },
    [this](const protocols::worker_down& msg) { tell_holders(msg); },
    [this](const protocols::holder_down& msg) { tell_holders(msg); },
    [this](const protocols::hold_order& msg) { tell_lead(msg); },
    [this](pause_order msg) { tell_all(msg); },
    [this](const protocols::resume_order& msg) { tell_all(msg); },
    [this](const protocols::fetch_order& msg) {
      if (!centreless_)
        return tell_lead(msg);
      tell_evaluator(msg);
      for (auto& [number, worker] : roles_.workers)
        caf::anon_send(worker, msg);
    },
    [this](waiting_query query) -> caf::result<std::vector<std::uint32_t>> {
      auto lead = roles_.holders.find(0);
      if (lead == roles_.holders.end())
        return std::vector<std::uint32_t>{};
      return self_->delegate(lead->second, query);
    },
    [this](totals_query) {
      node_totals totals;
      if (hub_)
        for (const auto& lane : hub_->stats()) {
          totals.bytes_sent += lane.bytes_sent;
          totals.bytes_received += lane.bytes_received;
        }
      totals.resident_bytes = resident_bytes();
      if (meter_) {
        totals.computed_ns = meter_->computed_ns;
        totals.emulated_ns = meter_->emulated_ns;
      }
      return totals;
    },
    [this](const inspect_query& query) { return inspect_roles(query); },
    [this](const role_order& msg) { return carry_out(msg); },
    [this](const record_order& msg) {
      if (trace_ && msg.on)
        trace_->begin();
    },
    [](clock_query) { return steady_ns(); },
    [this](trace_query) { return trace_ ? trace_->take() : trace_chunk{}; },
    [this](shards_query) { return shards(); },
    [](wall_clock_query) { return clock_reading{wall_clock_ns()}; },
    [this](const probe_query& what) { return probe(what); },
    [this](const stop_job&) { stop(); },
    [this](const data_loaded& msg) { on_data(msg); },
    [this](const lane_event& msg) { on_lane(msg); },
    [this](const shown_actor& what) {
      self_->monitor(what.actor);
      guests_.push_back(what);
    },
  };
}

/// Looking takes seconds: not on this actor's thread.
caf::result<node_probe> node_state::probe(const probe_query& what) {
  using looker = caf::typed_actor<caf::result<node_probe>(probe_query)>;
  const bool lanes_open = hub_ != nullptr; // this job has the port
  auto once = self_->spawn<caf::detached>([where = where_, lanes_open](looker::pointer me) -> looker::behavior_type {
    return {[=](const probe_query& query) {
      me->quit();
      node_probe seen = look_around(query);
      seen.lane_port = where.lane_port;
      if (where.lane_port != 0 && !lanes_open)
        seen.lane_port_wrong = net::cannot_listen(where.host, where.lane_port);
      return seen;
    }};
  });
  return self_->delegate(once, what);
}

caf::result<node_prepared> node_state::prepare(const prepare_job& msg) {
  stop(); // whatever ran here before
  if (const auto missing = missing_names(msg.what, where_.added); !missing.empty())
    return failure(fmt::format("its program has no {}", fmt::join(missing, ", no ")));
  job_ = msg.what;
  number_ = msg.self;
  of_ = {msg.job_key, msg.life};
  coordinator_ = msg.coordinator;
  trace_ = std::make_shared<tracer>(msg.trace);
  traces_devices_ = msg.trace;
  self_->doing.enter("loads data");
  try {
    if (job_.cluster.nodes > 1)
      open_lanes(msg.names);
  } catch (const std::exception& e) { // the port is taken: the job fails, the node does not
    return failure(e.what());
  }
  // Reading or drawing the data takes seconds: not on this actor's thread.
  self_->spawn<caf::detached>([me = node_control{self_}, of = of_, what = job_, added = where_.added](caf::event_based_actor*) {
    caf::anon_send(me, load(of, what, added));
  });
  preparing_ = self_->make_response_promise<node_prepared>();
  return preparing_;
}

void node_state::open_lanes(const std::vector<std::string>& names) {
  router_ = std::make_shared<lane_router>(node_control{self_}, of_);
  net::lane_options options;
  options.self = net::node_id{number_};
  options.job_key = of_.job_key;
  options.host = where_.host;
  options.port = where_.lane_port;
  options.security = where_.security;
  options.names = names;
  options.credit_bytes = where_.credit_bytes;
  options.allocate = [queue = open_queue("cpu")](std::size_t bytes) { return queue->allocate_host(bytes); };
  hub_ = net::lane_hub::open(options, router_);
}

void node_state::measure() {
  if (!metrics_)
    return;
  metrics_->on_memory(resident_bytes());
  if (hub_)
    for (const auto& lane : hub_->stats())
      if (lane.peer.value < places_.nodes.size()) // else one that is up before this node has heard of its peers
        metrics_->on_lane(places_.nodes[lane.peer.value].name, lane);
}

void node_state::measure_every_second() {
  measure();
  self_->run_delayed(std::chrono::seconds{1}, [this] { measure_every_second(); });
}

void node_state::on_data(const data_loaded& msg) {
  if (msg.of != of_ || !preparing_.pending())
    return;
  if (!msg.error.empty()) {
    self_->doing.failed(msg.error);
    preparing_.deliver(failure(msg.error));
    return;
  }
  data_ = msg.data;
  auto built = build_model(job_, data_.train->sample(), data_.train->classes(), where_.added);
  if (!built) {
    preparing_.deliver(to_caf(built.error()));
    return;
  }
  net_ = std::make_shared<const model>(std::move(*built));
  self_->doing.enter("is prepared");
  preparing_.deliver(node_prepared{hub_ ? hub_->port() : std::uint16_t{0}, data_.train->size()});
}

caf::result<void> node_state::start(const job_places& msg) {
  if (!net_)
    return failure("a job must be prepared before it is started");
  places_ = msg;
  try {
    spawn_roles();
  } catch (const std::exception& e) {
    return failure(e.what());
  }
  for (const auto& node : places_.nodes)
    dial(node.node);
  starting_ = self_->make_response_promise<void>();
  self_->doing.enter("opens lanes");
  if (lanes_ready())
    started();
  return starting_;
}

void node_state::started() {
  self_->doing.enter("runs");
  starting_.deliver();
}

std::set<std::uint32_t> node_state::lanes_needed() const {
  std::set<std::uint32_t> with_holders;
  for (const auto& place : places_.holders)
    with_holders.insert(place.node);
  std::set<std::uint32_t> needed;
  for (const auto& node : places_.nodes)
    if (node.node != number_ && (centreless_ || with_holders.contains(node.node) || with_holders.contains(number_)))
      needed.insert(node.node);
  return needed;
}

bool node_state::lanes_ready() const {
  auto needed = lanes_needed();
  return std::includes(lanes_up_.begin(), lanes_up_.end(), needed.begin(), needed.end());
}

void node_state::on_lane(const lane_event& msg) {
  if (msg.of != of_)
    return;
  if (msg.up)
    lanes_up_.insert(msg.peer);
  else
    lanes_up_.erase(msg.peer);
  if (!msg.up && renewed_.erase(msg.peer) != 0)
    return dial(msg.peer);
  if (!msg.up && msg.peer < places_.nodes.size())
    self_->doing.failed(fmt::format("the lane to node {} closed: {}", places_.nodes[msg.peer].name, msg.reason));
  if (starting_.pending()) {
    if (!msg.up)
      starting_.deliver(failure(fmt::format("no lane to node {}: {}", msg.peer, msg.reason)));
    else if (lanes_ready())
      started();
    return;
  }
  if (!msg.up && net_) { // the roles there cannot be reached any more; workers that are but each other's peers can do without
    for (const auto& worker : places_.workers)
      if (worker.node == msg.peer && !roles_.holders.empty())
        self_->send(coordinator_, role_lost{msg.peer, true, worker.index, "its lane closed: " + msg.reason, places_.nodes[msg.peer].life});
    for (const auto& holder : places_.holders)
      if (holder.node == msg.peer)
        self_->send(coordinator_, role_lost{msg.peer, false, holder.index, "its lane closed: " + msg.reason, places_.nodes[msg.peer].life});
  }
}

void node_state::on_back(const node_place& msg) {
  if (!hub_ || msg.node >= places_.nodes.size() || msg.node == number_)
    return;
  places_.nodes[msg.node] = msg;
  if (lanes_up_.contains(msg.node)) { // its end has not been noticed here
    renewed_.insert(msg.node);
    hub_->close(net::node_id{msg.node}, "its node has started anew");
  } else {
    dial(msg.node);
  }
}

/// Of two nodes the one with the lower number connects.
void node_state::dial(std::uint32_t peer) {
  const auto& to = places_.nodes[peer];
  if (number_ < peer && lanes_needed().contains(peer))
    hub_->connect(net::node_id{peer}, to.host, to.lane_port, lane_deadline);
}

void node_state::on_down(const caf::down_msg& msg) {
  note_end(msg);
  auto report = [&](bool is_worker, std::uint32_t index) {
    self_->send(coordinator_, role_lost{number_, is_worker, index, explain(msg.reason), of_.life});
  };
  for (const auto& [number, worker] : roles_.workers)
    if (worker.address() == msg.source)
      report(true, number);
  for (const auto& [number, holder] : roles_.holders)
    if (holder.address() == msg.source)
      report(false, number);
  if (roles_.evaluator && roles_.evaluator.address() == msg.source)
    self_->send(coordinator_, stop_job{true, "the evaluator failed: " + explain(msg.reason)});
}

/// What a person wants of one role.
caf::result<void> node_state::carry_out(const role_order& msg) {
  const auto refuse = [&](const std::string& why) { return failure(fmt::format("{} {} {}", msg.role, msg.index, why)); };
  if (msg.what == role_verb::restart) {
    if (msg.role != "worker")
      return refuse("cannot be started anew");
    try {
      restart_worker(msg.index, msg.life);
    } catch (const std::exception& e) {
      return failure(e.what());
    }
    return caf::unit;
  }
  auto obeys = [&](const auto& role) {
    if (msg.what == role_verb::kill)
      self_->send_exit(role, failure("killed by a person"));
    else
      self_->send(role, stand_still{msg.what == role_verb::pause});
    return caf::unit;
  };
  if (const auto worker = roles_.workers.find(msg.index); msg.role == "worker" && worker != roles_.workers.end())
    return obeys(worker->second);
  if (const auto holder = roles_.holders.find(msg.index); (msg.role == "shard" || msg.role == "aggregator") && holder != roles_.holders.end())
    return obeys(holder->second);
  if (msg.role == "evaluator" && roles_.evaluator)
    return obeys(roles_.evaluator);
  return refuse("is not here");
}

/// Those that live here, and what the model is made of.
shards_view node_state::shards() const {
  shards_view out;
  if (!net_)
    return out;
  for (const auto& slot : net_->layout().slots)
    out.parameters.push_back({slot.name, {slot.dims.extents().begin(), slot.dims.extents().end()}, static_cast<std::uint64_t>(slot.offset)});
  for (const auto& [index, shard] : roles_.shards) {
    const auto range = shard_ranges_[index];
    out.shards.push_back({index, static_cast<std::uint64_t>(range.begin), static_cast<std::uint64_t>(range.end), places_.nodes[number_].name, shard});
  }
  return out;
}

void node_state::stop() {
  of_ = {};
  const auto stopped = failure("the job has been stopped");
  if (preparing_.pending())
    preparing_.deliver(stopped);
  if (starting_.pending())
    starting_.deliver(stopped);
  auto end = [this](const auto& actor) {
    self_->demonitor(actor);
    self_->send_exit(actor, caf::exit_reason::user_shutdown);
  };
  for (auto& [number, worker] : roles_.workers)
    end(worker);
  for (auto& [number, holder] : roles_.holders)
    end(holder);
  if (roles_.evaluator)
    end(roles_.evaluator);
  roles_ = {};
  landings_.clear();
  near_holders_.clear();
  near_workers_.clear();
  shown_.clear();
  self_->doing.enter("idle");
  if (router_)
    router_->clear();
  router_ = nullptr;
  measure();
  hub_ = nullptr;
  trace_ = nullptr;
  lanes_up_.clear();
  renewed_.clear();
  net_ = nullptr;
}

std::shared_ptr<kernels::backend> node_state::open_queue(const std::string& device, std::optional<std::uint32_t> role) const {
  kernels::backend_options options{.device = device, .threads = job_.compute.threads, .products = precision_of(job_.compute.precision)};
  if (role)
    options.on_span = device_recorder(traces_devices_ ? trace_ : nullptr, *role);
  return kernels::open_backend(options);
}

} // namespace troupe::actors
