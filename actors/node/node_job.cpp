// SPDX-License-Identifier: BSD-3-Clause
// A job in one process: prepared, started, watched, ended.
#include "actors/node/node_job.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/node/job_data.hpp"
#include "actors/node/parts/adoption_answer.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds lane_deadline{20};

protocols::protocol protocol_of(const job& job, const extensions& added) {
  auto found = protocols::find_protocol(job.protocol.name, added.protocols);
  TROUPE_ASSERT(found); // the node has checked that it exists
  return *std::move(found);
}

/// Where gradients are clipped, sums of them are measured before versions are made.
protocols::tree_shape shape_of(const job& job, const protocols::protocol& runs) {
  auto out = job.shape();
  out.clips = job.optimizer.clip_norm > 0 && runs.sums_gradients(job.protocol);
  return out;
}

/// But for the memory.
net::lane_options lane_options_of(const node_options& where, std::uint32_t number, const job_incarnation& run,
                                  const std::vector<std::string>& names) {
  net::lane_options out;
  out.self = net::node_id{number};
  out.job_key = run.job_key;
  out.life = run.incarnation;
  out.host = where.host;
  out.port = where.lane_port;
  out.listens = number != 0; // of two nodes the one with the lower number connects
  out.security = where.security;
  out.names = names;
  out.credit_bytes = where.credit_bytes;
  out.window_bytes = where.window_bytes;
  out.shared_memory = where.shared_memory;
  out.congestion = where.congestion;
  return out;
}

void add_wait(actor_report& out, std::string whom, std::string on, double deadline_s) {
  out.waits_for.push_back(std::move(whom));
  out.waits_on = std::move(on);
  out.wait_deadline_s = deadline_s;
}

std::vector<parameter_place> parameters_in(const parameter_layout& layout) {
  std::vector<parameter_place> out;
  for (const auto& slot : layout.slots)
    out.push_back({slot.name, {slot.dims.extents().begin(), slot.dims.extents().end()}, static_cast<std::uint64_t>(slot.offset)});
  return out;
}

/// The shards on this node, and the model's parameters.
shards_view view_of(const parameter_layout& layout, const std::map<std::uint32_t, parameters_actor>& shards,
                    const std::vector<flat_range>& ranges, const std::string& node) {
  shards_view out{.parameters = parameters_in(layout)};
  for (const auto& [index, shard] : shards)
    out.shards.push_back(
        {index, static_cast<std::uint64_t>(ranges[index].begin), static_cast<std::uint64_t>(ranges[index].end), node, shard});
  return out;
}

} // namespace

node_job::node_job(measured_pointer<node_control> self, const node_options& where, const prepare_job& order,
                   std::optional<kept> from)
    : self_(self), where_(where), job_(order.job), number_(order.self), run_{order.job_key, order.incarnation},
      coordinator_(order.coordinator), orphan_s_(order.orphan_s), names_(order.names), protocol_(protocol_of(job_, where.added)),
      tree_(protocols::holder_tree(shape_of(job_, protocol_))), traces_devices_(order.trace), records_rounds_(order.rounds),
      trace_(from ? from->trace : std::make_shared<tracer>(order.trace)) {
  if (job_.cluster.may_span_nodes() || names_.size() > 1)
    open_lanes();
  if (from) {
    from->data.run = run_;
    caf::anon_send(node_control{self_}, std::move(from->data));
    return;
  }
  // Loading the data takes seconds, so it runs on another thread.
  const auto folder = order.writes_checkpoints ? job_.checkpoint.dir : "";
  self_->spawn<caf::detached>([me = node_control{self_}, run = run_, job = job_, added = where_.added,
                               folder](caf::event_based_actor*) { caf::anon_send(me, load_job_data(run, job, added, folder)); });
}

node_job::~node_job() {
  roles_.for_each([this](const auto& actor) {
    self_->demonitor(actor);
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  });
  if (router_)
    router_->clear();
  if (hub_)
    hub_->leave(); // proxies that have not ended yet hold it too
  const auto stopped = failure("the job has been stopped");
  if (preparing_.pending())
    preparing_.deliver(stopped);
  if (starting_.pending())
    starting_.deliver(stopped);
}

void node_job::open_lanes() {
  router_ = std::make_shared<lane_router>(node_control{self_}, run_, where_.refused);
  auto options = lane_options_of(where_, number_, run_, names_);
  options.allocate = [queue = open_queue("cpu")](std::size_t bytes) { return queue->allocate_host(bytes); };
  hub_ = net::lane_hub::open(options, router_);
}

caf::result<node_prepared> node_job::prepared() {
  preparing_ = self_->make_response_promise<node_prepared>();
  return preparing_;
}

void node_job::on_data(const data_loaded& msg) {
  if (msg.run != run_ || !preparing_.pending())
    return;
  if (!msg.error.empty()) {
    self_->doing.failed(msg.error);
    preparing_.deliver(failure(msg.error));
    return;
  }
  loaded_ = msg;
  const data_pair& data = loaded_.data;
  auto built = build_model(job_, data.train->format(), where_.added);
  if (!built) {
    preparing_.deliver(to_caf(built.error()));
    return;
  }
  net_ = std::make_shared<const model>(std::move(*built));
  shard_ranges_ = cut_into_shards(net_->layout().floats(), static_cast<int>(job_.cluster.shards), job_.codec.cut_unit());
  self_->doing.enter("is prepared");
  prepared_ = {.lane_port = hub_ ? hub_->port() : std::uint16_t{0},
               .data_size = data.train->size(),
               .files = msg.files,
               .checkpoints = msg.checkpoints,
               .scaling = data.scaling,
               .floats = net_->layout().floats(),
               .parameters = parameters_in(net_->layout())};
  auto ready = prepared_;
  if (number_ != 0) { // of one node it is enough
    ready.scaling = {};
    ready.parameters.clear();
  }
  preparing_.deliver(std::move(ready));
}

caf::result<void> node_job::start(const job_places& places) {
  if (!net_)
    return failure("a job must be prepared before it is started");
  places_ = places;
  lanes_needed_ = places_.peers_of(number_, decentralized());
  if (router_)
    router_->take_only_from(places_);
  try {
    spawn_roles();
  } catch (const std::exception& e) {
    return failure(e.what());
  }
  for (const auto& node : places_.nodes)
    dial(node.node);
  starting_ = self_->make_response_promise<void>();
  self_->doing.enter("opens lanes");
  start_if_ready();
  return starting_;
}

void node_job::start_if_ready() {
  const auto is_up = [this](std::uint32_t peer) { return lanes_up_.contains(peer) || places_.nodes[peer].absent; };
  if (!starting_.pending() || !std::ranges::all_of(lanes_needed_, is_up))
    return;
  self_->doing.enter("runs");
  starting_.deliver();
}

void node_job::on_lane(const lane_event& msg) {
  if (msg.run != run_)
    return;
  using kind = lane_event::kind;
  if (msg.is == kind::up) {
    lanes_up_.insert(msg.peer);
    return start_if_ready();
  }
  if (msg.is == kind::down) {
    lanes_up_.erase(msg.peer);
    if (msg.peer < places_.nodes.size() && msg.life < places_.nodes[msg.peer].incarnation)
      return; // the lane to its new process comes
    self_->doing.failed(fmt::format("the lane to node {} closed: {}", name_of(msg.peer), msg.reason));
    if (starting_.pending())
      return starting_.deliver(failure(fmt::format("no lane to node {}: {}", name_of(msg.peer), msg.reason)));
  }
  // Without holders at either end, their workers were only peers, and may continue.
  if (places_.holds_parameters(number_) || places_.holds_parameters(msg.peer))
    self_->send(coordinator_, peer_unreachable{number_, msg.peer, msg.life, msg.is == kind::silent, msg.reason});
}

std::optional<node_job::kept> node_job::keep_for(const prepare_job& next) const {
  return net_ && next.job_key == run_.job_key ? std::optional{kept{loaded_, trace_}} : std::nullopt;
}

void node_job::on_back(const node_place& msg) {
  if (!hub_ || msg.node >= places_.nodes.size() || msg.node == number_)
    return;
  places_.nodes[msg.node] = msg;
  dial(msg.node);
}

caf::result<void> node_job::on_evaluator(const evaluator_place& msg) {
  places_.evaluator = msg.node;
  try {
    replace_evaluator("another node has it now");
  } catch (const std::exception& e) {
    return failure(e.what());
  }
  return caf::unit;
}

/// Of two nodes the one with the lower number connects.
void node_job::dial(std::uint32_t peer) {
  const auto& to = places_.nodes[peer];
  if (number_ < peer && lanes_needed_.contains(peer) && !to.absent)
    hub_->connect(net::node_id{peer}, to.host, to.lane_port, lane_deadline, to.incarnation);
}

void node_job::on_down(const caf::down_msg& msg) {
  const auto why = explain(msg.reason);
  const auto is_it = [&](const auto& actor) { return actor && actor.address() == msg.source; };
  if (const auto found = std::ranges::find_if(shown_, is_it, &shown_actor::actor); found != shown_.end())
    note_end(std::string{found->id}, why);
  const auto role = roles_.which(msg.source);
  if (!role)
    return;
  const role_lost lost{number_, role->first, role->second, why, run_.incarnation};
  unheard_.lost(lost);
  self_->send(coordinator_, lost);
  if (!coordinator_ && orphan_s_ > 0)
    where_.say(fmt::format("has lost a role of its job ({}); what needs it waits for the next coordinator", why));
}

void node_job::on_saved(const part_saved& msg) {
  if (msg.run != run_)
    return;
  unheard_.saved(msg.file);
  self_->send(coordinator_, msg.file);
}

std::chrono::milliseconds node_job::outlives_coordinator() const {
  const bool runs = net_ && !places_.nodes.empty() && !starting_.pending();
  return std::chrono::milliseconds{runs ? static_cast<std::int64_t>(std::min(orphan_s_, 1e9) * 1000) : 0};
}

std::optional<job_standing> node_job::standing() const {
  if (outlives_coordinator().count() == 0)
    return {};
  job_standing out{
      .job_key = run_.job_key, .node = number_, .incarnation = run_.incarnation, .epoch = plan_.epoch, .names = names_};
  roles_.describe(out);
  return out;
}

caf::result<adopted_part> node_job::adopt(const coordinator_actor& next) {
  coordinator_ = next;
  introduce(); // what the roles say from here on goes to this one
  return answer_adoption(self_, roles_,
                         {.standing = *standing(),
                          .places = places_,
                          .prepared = prepared_,
                          .lost = unheard_.lost_roles(),
                          .unreachable = unreachable(),
                          .saved = unheard_.saved_files()});
}

/// As on_lane would say of lanes that are closed.
std::vector<peer_unreachable> node_job::unreachable() const {
  std::vector<peer_unreachable> out;
  for (const auto peer : lanes_needed_)
    if (const auto& its = places_.nodes[peer];
        !its.absent && !lanes_up_.contains(peer) && (places_.holds_parameters(number_) || places_.holds_parameters(peer)))
      out.push_back({number_, peer, its.incarnation, false, "it is closed"});
  return out;
}

void node_job::note_end(const std::string& id, const std::string& why) {
  for (auto& each : shown_)
    if (each.id == id || each.watched_by == id)
      each.ended = why;
}

caf::result<void> node_job::carry_out(const role_order& msg) {
  const auto refuse = [&](const std::string& why) { return failure(fmt::format("{} {} {}", msg.role, msg.index, why)); };
  if (msg.verb == role_verb::restart) {
    const bool evaluator = msg.role == "evaluator" && roles_.evaluator;
    if (msg.role != "worker" && !evaluator)
      return refuse("cannot be restarted");
    try {
      evaluator ? replace_evaluator("a restarted one takes its place") : restart_worker(msg.index, msg.incarnation);
    } catch (const std::exception& e) {
      return failure(e.what());
    }
    return caf::unit;
  }
  const auto role = roles_.find(msg.role, msg.index);
  if (!role)
    return refuse("is not here");
  if (msg.verb == role_verb::kill)
    self_->send_exit(role, failure("killed by the operator"));
  else
    caf::anon_send(role, operator_pause{msg.verb == role_verb::pause});
  return caf::unit;
}

std::string node_job::name_of(std::uint32_t node) const {
  return node < names_.size() ? names_[node] : std::to_string(node);
}

void node_job::describe(actor_report& out) const {
  out.watched_by = "coordinator 0";
  if (!coordinator_ && orphan_s_ > 0)
    add_wait(out, "coordinator 0", "whoever leads next", orphan_s_);
  if (starting_.pending())
    for (auto peer : lanes_needed_)
      if (!lanes_up_.contains(peer) && !places_.nodes[peer].absent)
        add_wait(out, "node " + name_of(peer), "a lane", std::chrono::duration<double>{lane_deadline}.count());
  out.fields = {{"number", std::to_string(number_)},
                {"life", std::to_string(run_.incarnation)},
                {"lanes", std::to_string(lanes_up_.size())}};
}

node_totals node_job::totals() const {
  node_totals out{.computed_ns = meter_->computed_ns, .emulated_ns = meter_->emulated_ns};
  out.exchanged_ns = meter_->exchanged_ns, out.hidden_ns = meter_->hidden_ns;
  for (const auto& lane : lanes()) {
    out.bytes_sent += lane.bytes_sent;
    out.bytes_received += lane.bytes_received;
    out.bytes_push += lane.sent.push;
    out.bytes_params += lane.sent.params;
    out.bytes_peers += lane.sent.peers;
  }
  return out;
}

shards_view node_job::shards() const {
  return net_ ? view_of(net_->layout(), roles_.shards, shard_ranges_, name_of(number_)) : shards_view{};
}

} // namespace troupe::actors
