// SPDX-License-Identifier: BSD-3-Clause
// CAF's type ids of every message, and how those that cross hosts are inspected.
#pragma once

#include <caf/type_id.hpp>

#include "actors/cluster_messages.hpp"
#include "actors/messages.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)

// between actors of one process; the tensors in them never pass through CAF's network layer
CAF_ADD_TYPE_ID(troupe, (troupe::kernels::buffer))
CAF_ADD_TYPE_ID(troupe, (troupe::slice))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::wire::push_part))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::wire::push_end))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::wire::params_part))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::wire::partial_part))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::wire::peer_part))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::arrival))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::close))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::send_order))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::drop_order))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::expired))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::version))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::report))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::loaded_batch))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::compute_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::compute_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::step_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::mix_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::dual_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::sum_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::sum_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::compute_finished))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::gradient_ready))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::device_tensor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::device_check))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::bring_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::stage_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::fetch_request))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::collected))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::evaluation))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::peers_ptr))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::data_loaded))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::lane_event))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::shown_actor))
CAF_ADD_TYPE_ID(troupe, (std::vector<troupe::actors::actor_report>))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::piece_landed))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_finished))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_news))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_back))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_leaves))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::stand_still))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::traces_ptr))

// across hosts
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::plan))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::worker_down))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::holder_down))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::hold_order))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::resume_order))
CAF_ADD_TYPE_ID(troupe, (troupe::protocols::fetch_order))
CAF_ADD_TYPE_ID(troupe, (std::vector<std::uint32_t>))
CAF_ADD_TYPE_ID(troupe, (std::vector<std::string>))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_hello))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::prepare_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_prepared))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_places))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_place))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::totals_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_totals))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::clock_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::trace_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::trace_chunk))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::stop_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::role_lost))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::waiting_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::pause_order))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::role_order))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::actor_order))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::change_order))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::record_order))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::coordinator_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_description))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::submit_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::attach_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cancel_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_waits))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_begins))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_says))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::weights_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::weights_piece))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_trace_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_trace_piece))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::release_job))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::recording))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cluster_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::inspect_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::actor_report))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::link_report))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_report))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cluster_report))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::member_view))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_view))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cluster_view))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::wall_clock_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::clock_reading))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::probe_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_probe))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cluster_probe))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::leave_cluster))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::undrain_node))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::node_notice))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::history_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::history))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::progress))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::evaluation_point))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::job_result))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::client_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::cluster_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::parameters_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::parameters_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::parameters_piece))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::shards_query))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::shards_view))

CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::kernels::buffer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::slice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::wire::push_part)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::wire::push_end)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::wire::params_part)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::wire::partial_part)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::wire::peer_part)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::arrival)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::close)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::send_order)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::drop_order)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::expired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocols::report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::loaded_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::compute_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::compute_result)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::step_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::mix_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::dual_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::sum_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::sum_result)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::compute_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::gradient_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::device_tensor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::device_check)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::bring_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::stage_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::fetch_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::collected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::evaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::peers_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::data_loaded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::lane_event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::shown_actor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::piece_landed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::job_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::job_news)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::node_back)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::node_leaves)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::stand_still)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::traces_ptr)

// Inspection, found by argument-dependent lookup.

#include "actors/type_values.hpp"

namespace troupe::actors {

template <class Inspector>
bool inspect(Inspector& f, placement& x) {
  return protocols::inspect_enum(f, x, placement::colocated);
}
template <class Inspector>
bool inspect(Inspector& f, compute_spec& x) {
  return f.object(x).fields(f.field("device", x.device), f.field("threads", x.threads), f.field("precision", x.precision),
                            f.field("shard_device", x.shard_device));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_spec& x) {
  return f.object(x).fields(f.field("nodes", x.nodes), f.field("workers", x.workers), f.field("shards", x.shards),
                            f.field("where", x.where));
}
template <class Inspector>
bool inspect(Inspector& f, evaluate_spec& x) {
  return f.object(x).fields(f.field("every_samples", x.every_samples), f.field("every_s", x.every_s),
                            f.field("train_samples", x.train_samples));
}
template <class Inspector>
bool inspect(Inspector& f, stop_spec& x) {
  return f.object(x).fields(f.field("epochs", x.epochs), f.field("steps", x.steps), f.field("seconds", x.seconds),
                            f.field("samples", x.samples), f.field("target_accuracy", x.target_accuracy));
}
template <class Inspector>
bool inspect(Inspector& f, own_spec& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("parameters", x.parameters));
}
template <class Inspector>
bool inspect(Inspector& f, job& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("seed", x.seed), f.field("data", x.data),
                            f.field("own_data", x.own_data), f.field("model", x.model), f.field("own_model", x.own_model),
                            f.field("init", x.init), f.field("optimizer", x.optimizer), f.field("compute", x.compute),
                            f.field("protocol", x.protocol), f.field("cluster", x.cluster), f.field("evaluate", x.evaluate),
                            f.field("stop", x.stop), f.field("inject", x.inject));
}
template <class Inspector>
bool inspect(Inspector& f, role_place& x) {
  return f.object(x).fields(f.field("index", x.index), f.field("node", x.node), f.field("device", x.device));
}
template <class Inspector>
bool inspect(Inspector& f, node_place& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("name", x.name), f.field("host", x.host),
                            f.field("lane_port", x.lane_port), f.field("life", x.life));
}
template <class Inspector>
bool inspect(Inspector& f, job_places& x) {
  return f.object(x).fields(f.field("nodes", x.nodes), f.field("workers", x.workers), f.field("holders", x.holders));
}
template <class Inspector>
bool inspect(Inspector& f, node_hello& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("version", x.version), f.field("pid", x.pid),
                            f.field("added", x.added));
}
template <class Inspector>
bool inspect(Inspector& f, prepare_job& x) {
  return f.object(x).fields(f.field("job_key", x.job_key), f.field("self", x.self), f.field("what", x.what),
                            f.field("coordinator", x.coordinator), f.field("life", x.life), f.field("trace", x.trace),
                            f.field("names", x.names));
}
template <class Inspector>
bool inspect(Inspector& f, node_prepared& x) {
  return f.object(x).fields(f.field("lane_port", x.lane_port), f.field("data_size", x.data_size), f.field("files", x.files),
                            f.field("scaling", x.scaling));
}
template <class Inspector>
bool inspect(Inspector& f, totals_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, node_totals& x) {
  return f.object(x).fields(f.field("bytes_sent", x.bytes_sent), f.field("bytes_received", x.bytes_received),
                            f.field("resident_bytes", x.resident_bytes), f.field("computed_ns", x.computed_ns),
                            f.field("emulated_ns", x.emulated_ns));
}
template <class Inspector>
bool inspect(Inspector& f, trace_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, span_kind& x) {
  return protocols::inspect_enum(f, x, span_kind::to_device);
}
template <class Inspector>
bool inspect(Inspector& f, trace_event& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("role", x.role), f.field("begin_ns", x.begin_ns),
                            f.field("end_ns", x.end_ns), f.field("args", x.args), f.field("name", x.name),
                            f.field("pushes", x.pushes));
}
template <class Inspector>
bool inspect(Inspector& f, clock_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, trace_chunk& x) {
  return f.object(x).fields(f.field("events", x.events), f.field("dropped", x.dropped), f.field("last", x.last));
}
template <class Inspector>
bool inspect(Inspector& f, stop_job& x) {
  return f.object(x).fields(f.field("failed", x.failed), f.field("reason", x.reason));
}
template <class Inspector>
bool inspect(Inspector& f, role_lost& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("is_worker", x.is_worker), f.field("index", x.index),
                            f.field("reason", x.reason), f.field("life", x.life));
}
template <class Inspector>
bool inspect(Inspector& f, waiting_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, pause_order& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, role_verb& x) {
  return protocols::inspect_enum(f, x, role_verb::restart);
}
template <class Inspector>
bool inspect(Inspector& f, role_order& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("role", x.role), f.field("index", x.index), f.field("life", x.life));
}
template <class Inspector>
bool inspect(Inspector& f, actor_order& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("what", x.what), f.field("actor", x.actor));
}
template <class Inspector>
bool inspect(Inspector& f, change_order& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("key", x.key), f.field("value", x.value));
}
template <class Inspector>
bool inspect(Inspector& f, record_order& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("on", x.on), f.field("file", x.file));
}
template <class Inspector>
bool inspect(Inspector& f, parameters_query& x) {
  return f.object(x).fields(f.field("offset", x.offset));
}
template <class Inspector>
bool inspect(Inspector& f, parameters_piece& x) {
  return f.object(x).fields(f.field("ver", x.ver), f.field("values", x.values), f.field("last", x.last));
}
template <class Inspector>
bool inspect(Inspector& f, parameter_place& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("dims", x.dims), f.field("begin", x.begin));
}
template <class Inspector>
bool inspect(Inspector& f, shard_place& x) {
  return f.object(x).fields(f.field("index", x.index), f.field("begin", x.begin), f.field("end", x.end), f.field("node", x.node),
                            f.field("actor", x.actor));
}
template <class Inspector>
bool inspect(Inspector& f, shards_query& x) {
  return f.object(x).fields(f.field("job", x.job));
}
template <class Inspector>
bool inspect(Inspector& f, shards_view& x) {
  return f.object(x).fields(f.field("job", x.job), f.field("name", x.name), f.field("parameters", x.parameters),
                            f.field("shards", x.shards));
}
template <class Inspector>
bool inspect(Inspector& f, node_description& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("host", x.host), f.field("shard", x.shard),
                            f.field("worker", x.worker), f.field("devices", x.devices));
}
template <class Inspector>
bool inspect(Inspector& f, submit_job& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("trace", x.trace), f.field("detached", x.detached));
}
template <class Inspector>
bool inspect(Inspector& f, attach_job& x) {
  return f.object(x).fields(f.field("number", x.number));
}
template <class Inspector>
bool inspect(Inspector& f, cancel_job& x) {
  return f.object(x).fields(f.field("number", x.number));
}
template <class Inspector>
bool inspect(Inspector& f, job_waits& x) {
  return f.object(x).fields(f.field("reason", x.reason));
}
template <class Inspector>
bool inspect(Inspector& f, job_begins& x) {
  return f.object(x).fields(f.field("nodes", x.nodes), f.field("data_size", x.data_size));
}
template <class Inspector>
bool inspect(Inspector& f, job_says& x) {
  return f.object(x).fields(f.field("text", x.text));
}
template <class Inspector>
bool inspect(Inspector& f, weights_query& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("offset", x.offset));
}
template <class Inspector>
bool inspect(Inspector& f, weights_piece& x) {
  return f.object(x).fields(f.field("values", x.values));
}
template <class Inspector>
bool inspect(Inspector& f, node_trace_query& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("node", x.node), f.field("offset", x.offset));
}
template <class Inspector>
bool inspect(Inspector& f, node_trace_piece& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("events", x.events), f.field("nodes", x.nodes));
}
template <class Inspector>
bool inspect(Inspector& f, release_job& x) {
  return f.object(x).fields(f.field("number", x.number));
}
template <class Inspector>
bool inspect(Inspector& f, recording& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("file", x.file));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, member_view& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("here", x.here), f.field("leaving", x.leaving),
                            f.field("pid", x.pid), f.field("job", x.job), f.field("actor", x.actor), f.field("last", x.last),
                            f.field("leaving_s", x.leaving_s));
}
template <class Inspector>
bool inspect(Inspector& f, job_view& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("name", x.name), f.field("protocol", x.protocol),
                            f.field("state", x.state), f.field("since_s", x.since_s), f.field("nodes", x.nodes),
                            f.field("steps", x.steps), f.field("samples", x.samples), f.field("epochs", x.epochs));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_view& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("members", x.members), f.field("jobs", x.jobs));
}
template <class Inspector>
bool inspect(Inspector& f, leave_cluster& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("ends", x.ends));
}
template <class Inspector>
bool inspect(Inspector& f, undrain_node& x) {
  return f.object(x).fields(f.field("name", x.name));
}
template <class Inspector>
bool inspect(Inspector& f, node_notice& x) {
  return f.object(x).fields(f.field("text", x.text));
}
template <class Inspector>
bool inspect(Inspector& f, progress& x) {
  return f.object(x).fields(f.field("step", x.step), f.field("samples", x.samples), f.field("epoch", x.epoch),
                            f.field("train_loss", x.train_loss), f.field("seconds", x.seconds),
                            f.field("slowest_worker", x.slowest_worker), f.field("slowest_ms", x.slowest_ms));
}
template <class Inspector>
bool inspect(Inspector& f, evaluation_point& x) {
  return f.object(x).fields(f.field("step", x.step), f.field("samples", x.samples), f.field("seconds", x.seconds),
                            f.field("train_loss", x.train_loss), f.field("test_loss", x.test_loss),
                            f.field("test_accuracy", x.test_accuracy));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_event& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("at_ms", x.at_ms), f.field("job", x.job),
                            f.field("text", x.text));
}
template <class Inspector>
bool inspect(Inspector& f, job_title& x) {
  return f.object(x).fields(f.field("number", x.number), f.field("name", x.name), f.field("protocol", x.protocol),
                            f.field("state", x.state), f.field("ended", x.ended), f.field("now", x.now),
                            f.field("evaluated", x.evaluated));
}
template <class Inspector>
bool inspect(Inspector& f, history_query& x) {
  return f.object(x).fields(f.field("job", x.job));
}
template <class Inspector>
bool inspect(Inspector& f, history& x) {
  return f.object(x).fields(f.field("jobs", x.jobs), f.field("steps", x.steps), f.field("evaluations", x.evaluations),
                            f.field("events", x.events));
}
/// Without parameters and trace: they follow in pieces.
template <class Inspector>
bool inspect(Inspector& f, job_result& x) {
  return f.object(x).fields(
      f.field("failed", x.failed), f.field("lost_before_start", x.lost_before_start), f.field("interrupted", x.interrupted),
      f.field("reason", x.reason), f.field("steps", x.steps), f.field("gradients", x.gradients), f.field("samples", x.samples),
      f.field("discarded", x.discarded), f.field("epochs", x.epochs), f.field("seconds", x.seconds), f.field("last", x.last),
      f.field("target_reached", x.target_reached), f.field("time_to_target_s", x.time_to_target_s),
      f.field("staleness", x.staleness), f.field("residual_max", x.residual_max), f.field("computed_ns", x.computed_ns),
      f.field("emulated_ns", x.emulated_ns), f.field("bytes_sent", x.bytes_sent), f.field("bytes_received", x.bytes_received),
      f.field("resident_bytes", x.resident_bytes), f.field("resident_bytes_first", x.resident_bytes_first),
      f.field("restarts", x.restarts), f.field("period", x.period), f.field("weights_step", x.weights_step),
      f.field("scaling", x.scaling));
}
template <class Inspector>
bool inspect(Inspector& f, inspect_query& x) {
  return f.object(x).fields(f.field("page", x.page), f.field("gathering", x.gathering), f.field("job", x.job),
                            f.field("node", x.node));
}
template <class Inspector>
bool inspect(Inspector& f, actor_report& x) {
  return f.object(x).fields(f.field("id", x.id), f.field("role", x.role), f.field("parent", x.parent),
                            f.field("watched_by", x.watched_by), f.field("node", x.node), f.field("job", x.job),
                            f.field("state", x.state), f.field("since_s", x.since_s), f.field("mailbox", x.mailbox),
                            f.field("messages", x.messages), f.field("messages_per_s", x.messages_per_s), f.field("busy", x.busy),
                            f.field("handler_s", x.handler_s), f.field("waits_for", x.waits_for), f.field("waits_on", x.waits_on),
                            f.field("last_error", x.last_error), f.field("fields", x.fields), f.field("paused", x.paused),
                            f.field("stuck", x.stuck), f.field("ended", x.ended));
}
template <class Inspector>
bool inspect(Inspector& f, link_report& x) {
  return f.object(x).fields(f.field("peer", x.peer), f.field("bytes_sent", x.bytes_sent),
                            f.field("bytes_received", x.bytes_received), f.field("queued_bytes", x.queued_bytes),
                            f.field("credit_bytes", x.credit_bytes), f.field("stalled_s", x.stalled_s),
                            f.field("round_trip_s", x.round_trip_s));
}
template <class Inspector>
bool inspect(Inspector& f, node_report& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("job", x.job), f.field("pid", x.pid),
                            f.field("resident_bytes", x.resident_bytes), f.field("actors", x.actors), f.field("links", x.links),
                            f.field("silent", x.silent), f.field("gathering", x.gathering), f.field("pages", x.pages));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_report& x) {
  return f.object(x).fields(f.field("nodes", x.nodes));
}

template <class Inspector>
bool inspect(Inspector& f, wall_clock_query& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, clock_reading& x) {
  return f.object(x).fields(f.field("wall_ns", x.wall_ns));
}
template <class Inspector>
bool inspect(Inspector& f, probe_query& x) {
  return f.object(x).fields(f.field("data", x.data), f.field("accelerators", x.accelerators));
}
template <class Inspector>
bool inspect(Inspector& f, device_probe& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("usable", x.usable), f.field("reason", x.reason),
                            f.field("memory_bytes", x.memory_bytes), f.field("free_bytes", x.free_bytes));
}
template <class Inspector>
bool inspect(Inspector& f, file_probe& x) {
  return f.object(x).fields(f.field("path", x.path), f.field("bytes", x.bytes), f.field("sha256", x.sha256),
                            f.field("wrong", x.wrong));
}
template <class Inspector>
bool inspect(Inspector& f, node_probe& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("host", x.host), f.field("here", x.here),
                            f.field("silent", x.silent), f.field("job", x.job), f.field("round_trip_s", x.round_trip_s),
                            f.field("clock_ahead_s", x.clock_ahead_s), f.field("version", x.version),
                            f.field("lane_version", x.lane_version), f.field("pid", x.pid), f.field("lane_port", x.lane_port),
                            f.field("lane_port_wrong", x.lane_port_wrong), f.field("devices", x.devices),
                            f.field("files", x.files));
}
template <class Inspector>
bool inspect(Inspector& f, cluster_probe& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("nodes", x.nodes));
}

} // namespace troupe::actors
