// SPDX-License-Identifier: BSD-3-Clause
// What actors say to each other: typed interfaces of every role, and the messages that are not protocol messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/assembler.hpp"
#include "actors/device.hpp"
#include "actors/inspection.hpp"
#include "actors/job.hpp"
#include "actors/net/lane.hpp"
#include "actors/probe.hpp"
#include "actors/replica.hpp"
#include "actors/trace.hpp"
#include "kernels/backend.hpp"
#include "protocols/effect.hpp"
#include "protocols/message.hpp"
#include "protocols/wire/message.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/partition.hpp"

namespace troupe::actors {

namespace wire = protocols::wire;

/// A prepared batch and the slice that it holds.
struct loaded_batch {
  slice where;
  batch data;
};

/// A part of a gradient: the mean gradient over a batch, times a weight.
struct weighted_batch {
  batch data;
  double weight = 1;
};
/// Worker to compute actor: one gradient, the sum of its parts.
struct compute_request {
  std::uint64_t step = 0;
  kernels::buffer parameters;      ///< the whole flat array
  std::optional<local_update> own; ///< instead: where a step of the replica with this update takes it
  std::vector<weighted_batch> parts;
  std::uint64_t seed = 0; ///< the job's
};
/// Worker to compute actor, about its replica: a step at such a gradient; parameters or dual variable anew; a sum, answered
/// once it has run.
struct step_request {
  kernels::buffer gradient;
  local_update how;
};
struct mix_request {
  std::vector<replica_term> terms;
};
struct dual_request {
  kernels::buffer anchor;
  double rho = 1;
};
struct sum_request {
  std::vector<replica_term> terms;
};
struct sum_result {
  kernels::buffer sum;
  bool finite = true;
};
/// Compute actor to worker, during backward: this parameter's gradient is complete.
struct gradient_ready {
  std::uint64_t step = 0;
  int slot = 0;
  kernels::buffer gradients; ///< the flat array that it is in
};
/// Compute actor to worker: the step is done.
struct compute_result {
  std::uint64_t step = 0;
  kernels::buffer gradients; ///< the whole flat array
  std::int64_t rows = 0;
  double loss = 0; ///< mean over the rows
  bool finite = true;
  std::int64_t compute_ns = 0;
};

/// The device to its compute actor: a part of the step has run.
struct compute_finished {
  std::uint64_t step = 0;
  std::uint64_t mark = 0; ///< of in_flight: what was enqueued before has run too
  bool summed = false;    ///< the parts' sum
};

/// Worker to a compute actor whose memory is not the host's: parameters that have come, block by block, ahead of whatever uses
/// them.
struct bring_request {
  kernels::buffer to, from;
  bool from_host = true; ///< else from a device of the same kind
};
/// The batch that a later request will name.
struct stage_request {
  batch data;
};
/// What it computed, to host memory. What wrote `from` has run. `done` is called on any thread and only sends messages.
struct fetch_request {
  kernels::buffer from, to;
  std::function<void()> done;
};

/// Where one role of a job lives.
struct role_place {
  std::uint32_t index = 0; ///< worker or holder number
  std::uint32_t node = 0;
  std::string device{}; ///< of those that its node lists; empty: the job's
  friend bool operator==(const role_place&, const role_place&) = default;
};
/// One process of the job's cluster.
struct node_place {
  std::uint32_t node = 0;
  std::string name;
  std::string host;
  std::uint16_t lane_port = 0;
  std::uint32_t life = 0; ///< how often its process has been started anew within the job
};
/// Who lives where, the same on every node.
struct job_places {
  std::vector<node_place> nodes;
  std::vector<role_place> workers;
  std::vector<role_place> holders; ///< shards first, then aggregators
};

/// A node introduces itself to the coordinator's node.
struct node_hello {
  std::string name;
  std::string version;
  std::int32_t pid = 0;
  std::vector<std::string> added{}; ///< what its program has besides Troupe's own: names_of
};
/// What a node answers to prepare_job.
struct node_prepared {
  std::uint16_t lane_port = 0;        ///< 0: nobody connects to it, as the first node of its job
  std::int64_t data_size = 0;         ///< training samples
  std::vector<file_probe> files = {}; ///< that they were read from, where the job has several nodes
  data_scaling scaling = {};          ///< of the coordinator's node
};
/// What a node is asked about the job it runs: traffic and memory.
struct totals_query {};
struct node_totals {
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t resident_bytes = 0;
  std::int64_t computed_ns = 0, emulated_ns = 0; ///< what steps took, and what they were made to take; 0: nothing is emulated
};
/// What a node is asked at the end of a job that is traced: its events, in chunks that fit a message of the control plane.
struct trace_query {};
/// What its clock shows, in nanoseconds: monotonic, of its host.
struct clock_query {};
/// The job is over, or a person interrupts it.
struct stop_job {
  bool failed = false;
  std::string reason;
};
/// A role of a node died.
struct role_lost {
  std::uint32_t node = 0;
  bool is_worker = true; ///< else a holder
  std::uint32_t index = 0;
  std::string reason;
  std::uint32_t life = 0; ///< of the node, as far as the sender knows
};
/// A node of this job is back as a new process; or a person wants it to leave: answered with whether it may go now.
struct node_back {
  std::uint32_t node = 0;
  caf::actor actor; ///< a node_actor
};
struct node_leaves {
  std::uint32_t node = 0;
};
/// Whom the open round waits for.
struct waiting_query {};

/// To a shard: its parameters, piece by piece. Offset 0 begins with the newest version; the pieces that follow, for the same
/// sender, are of that version, however long it takes. A reading that is not ended is forgotten once several others have begun.
struct parameters_query {
  std::uint64_t offset = 0; ///< in floats, within the shard's range
};
struct parameters_piece {
  protocols::version ver;
  std::vector<float> values;
  bool last = false; ///< the range ends with these
};
/// Coordinator to every role: training time stands still from now on; `resume_order` ends it.
struct pause_order {};

/// To a role: stand still until another says that it may go on (standing_still.hpp).
struct stand_still {
  bool on = true;
};
/// What a person may do to a role while its job runs.
enum class role_verb : std::uint8_t {
  pause, ///< it does nothing more; what is sent to it waits in its mailbox
  resume,
  kill,    ///< as if it had died by itself
  restart, ///< a worker: a new life of it takes the place of the old one
};
/// To a role's node: answered once it is done.
struct role_order {
  role_verb what{};
  std::string role; ///< as in actor_report
  std::uint32_t index = 0;
  std::uint32_t life = 0; ///< of the worker that is started
};
/// What a person asks of a job: answered, in words, with what came of it.
struct actor_order {
  std::uint64_t number = 0; ///< of the job
  role_verb what{};
  std::string actor; ///< "worker 2"
};
struct change_order {
  std::uint64_t number = 0;
  std::string key, value; ///< "optimizer.lr", "protocol.steps" or "log.level"
};
/// Record what every role does, from now on; or end that.
struct record_order {
  std::uint64_t number = 0;
  bool on = true;
  std::string file; ///< where the trace shall go: whoever ends the recording writes it
};
/// Evaluator to coordinator: the parameters of a version are here whole, on the host; evaluating them comes next (never sent
/// across hosts).
struct collected {
  protocols::version ver;
  kernels::buffer parameters;
  std::vector<std::pair<protocols::member, protocols::step_count>> made =
      {}; ///< where there is no centre: what its replicas hold
};
/// What evaluating one set of parameters found; the parameters themselves stay with it (never sent across hosts).
struct evaluation {
  protocols::version ver;
  double train_loss = 0, test_loss = 0, test_accuracy = 0;
  kernels::buffer parameters;
  std::vector<std::pair<protocols::member, protocols::step_count>> made = {}; ///< where there is no centre
};

/// Says what it does.
using inspectable_actor = caf::typed_actor<caf::result<actor_report>(inspect_query)>;

/// From the cluster, for the log of a node: what it has decided about that.
struct node_notice {
  std::string text;
};

/// Takes pushes and the lead's orders: a shard, an aggregator, or the proxy of a remote one.
using holder_actor = caf::typed_actor<caf::result<void>(wire::push_part, kernels::buffer), caf::result<void>(wire::push_end),
                                      caf::result<void>(wire::partial_part, kernels::buffer),
                                      caf::result<void>(protocols::arrival), ///< the lead only
                                      caf::result<void>(protocols::close), caf::result<void>(protocols::send_order),
                                      caf::result<void>(protocols::drop_order)>;

/// Takes parameters, shards' or another worker's own: a worker, the evaluator, or the proxy of a remote one.
using params_actor =
    caf::typed_actor<caf::result<void>(wire::params_part, kernels::buffer), caf::result<void>(wire::peer_part, kernels::buffer)>;

/// The same roles where they compute on a device, for senders of this process that do so too.
using near_holder =
    caf::typed_actor<caf::result<void>(wire::push_part, device_tensor), caf::result<void>(wire::partial_part, device_tensor)>;
using near_worker =
    caf::typed_actor<caf::result<void>(wire::params_part, device_tensor), caf::result<void>(wire::peer_part, device_tensor)>;

/// By the key that the parts of one sending share.
using params_assembler = assembler<std::uint64_t>;
/// By sender and round.
using peer_key = std::pair<protocols::member, std::uint64_t>;
using peer_assembler = assembler<peer_key>;

struct role_peers;
/// The handles a role talks to; the same list for every role of a node. Sent once, when all roles of the node are spawned.
using peers_ptr = std::shared_ptr<const role_peers>;

/// What a holder's own node tells it.
using holder_control = holder_actor::extend<
    caf::result<void>(peers_ptr), caf::result<void>(protocols::plan), caf::result<void>(protocols::worker_down),
    caf::result<void>(protocols::holder_down), caf::result<void>(pause_order), caf::result<void>(protocols::resume_order),
    caf::result<void>(protocols::hold_order), ///< this and the next two: the lead only
    caf::result<void>(protocols::fetch_order), caf::result<std::vector<std::uint32_t>>(waiting_query),
    caf::result<actor_report>(inspect_query), caf::result<void>(stand_still), caf::result<void>(protocols::expired),
    caf::result<void>(protocols::version), ///< to itself, from the device: this version is computed
    caf::result<void>(device_check),       ///< to itself
    caf::result<void>(wire::push_part, device_tensor), caf::result<void>(wire::partial_part, device_tensor)>;

/// A shard as actors of other programs see it.
using parameters_actor = caf::typed_actor<caf::result<parameters_piece>(parameters_query)>;
/// A shard to itself, from the device: a piece is in host memory.
struct piece_landed {
  std::uint64_t number = 0;
  protocols::version ver;
  kernels::buffer values;
  bool last = false;
};
using shard_control = holder_control::extend<caf::result<parameters_piece>(parameters_query), caf::result<void>(piece_landed)>;

/// Where one parameter of the model lies among the flat ones.
struct parameter_place {
  std::string name; ///< "linear1.weight"
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0; ///< in floats
};
/// A shard of a running job, and the flat parameters from `begin` to `end` that it keeps.
struct shard_place {
  std::uint32_t index = 0;
  std::uint64_t begin = 0, end = 0;
  std::string node{};
  parameters_actor actor{};
};
/// A job's shards, by index, and its model's parameters, in their order. Between two parameters may be floats that belong to
/// none.
struct shards_view {
  std::uint64_t job = 0;
  std::string name{};
  std::vector<parameter_place> parameters{};
  std::vector<shard_place> shards{};
};
/// Which shards there are: of a node, those of its job that live there.
struct shards_query {
  std::uint64_t job = 0; ///< its number; 0: of those that run the first
};

/// One gradient after the other; `gradient_ready` goes to whoever asked. The second message is the device's, to itself.
using compute_actor = caf::typed_actor<caf::result<compute_result>(compute_request), caf::result<void>(step_request),
                                       caf::result<void>(mix_request), caf::result<void>(dual_request),
                                       caf::result<sum_result>(sum_request), caf::result<void>(compute_finished)>;
/// The same as its node sees it; where its memory is not the host's, as its worker does, too.
using device_compute_actor = compute_actor::extend<caf::result<actor_report>(inspect_query), caf::result<void>(bring_request),
                                                   caf::result<void>(stage_request), caf::result<void>(fetch_request),
                                                   caf::result<void>(device_check)>; ///< to itself
using loader_actor = caf::typed_actor<caf::result<loaded_batch>(slice)>;
using loader_control = loader_actor::extend<caf::result<actor_report>(inspect_query)>;

using worker_actor = params_actor::extend<caf::result<void>(peers_ptr), caf::result<actor_report>(inspect_query),
                                          caf::result<void>(stand_still), caf::result<void>(protocols::plan),
                                          caf::result<void>(pause_order), caf::result<void>(protocols::resume_order),
                                          caf::result<void>(protocols::fetch_order), ///< where there is no centre
                                          caf::result<void>(protocols::expired),     ///< to itself
                                          caf::result<void>(gradient_ready), caf::result<void>(wire::params_part, device_tensor),
                                          caf::result<void>(wire::peer_part, device_tensor)>;

using evaluator_actor = params_actor::extend<caf::result<void>(peers_ptr), caf::result<actor_report>(inspect_query),
                                             caf::result<void>(stand_still), caf::result<void>(protocols::plan),
                                             caf::result<void>(protocols::fetch_order), ///< where there is no centre: before it,
                                                                                        ///< the plan whose workers will send
                                             caf::result<void>(compute_finished)>;

/// What the nodes have recorded, in one piece of memory.
using traces_ptr = std::shared_ptr<const std::vector<node_trace>>;

/// Decides the course of the job. Hears the lead's reports and the evaluator.
using coordinator_actor =
    caf::typed_actor<caf::result<void>(protocols::report), caf::result<void>(collected), caf::result<void>(evaluation),
                     caf::result<void>(role_lost), caf::result<void>(protocols::expired), caf::result<void>(stop_job)>;
/// The same, as the cluster that it runs on sees it.
using coordinator_control =
    coordinator_actor::extend<caf::result<void>(node_back), caf::result<bool>(node_leaves),
                              caf::result<actor_report>(inspect_query), caf::result<std::string>(actor_order),
                              caf::result<std::string>(change_order),
                              caf::result<traces_ptr>(record_order)>; ///< null where it begins

/// Coordinator's node to every node: a job is coming; open your lanes and load the data. Answered with node_prepared.
struct prepare_job {
  std::uint64_t job_key = 0;
  std::uint32_t self = 0; ///< your number in this job
  job what;
  coordinator_actor coordinator;       ///< hears of roles that die
  std::uint32_t life = 0;              ///< of your process in this job; of your workers, too
  bool trace = false;                  ///< record what the roles do, and when
  std::vector<std::string> names = {}; ///< of the job's nodes, by number
};
/// Local actors and proxies of remote ones alike.
struct role_peers {
  std::vector<holder_actor> holders; ///< by holder number
  std::vector<params_actor> workers; ///< by worker number
  /// Those of this process whose memory is a device's: they take tensors from other devices without the host between.
  std::map<protocols::holder_id, near_holder> near_holders;
  std::map<protocols::worker_id, near_worker> near_workers;
  /// Where the workers of this process put their parameters together: a shard computes the next version right there.
  std::map<protocols::worker_id, std::shared_ptr<params_assembler>> landings;
  params_actor evaluator;
  /// Whether this worker cannot be reached, or has not taken yet what was sent to it: more would only queue. Thread-safe.
  std::function<bool(protocols::worker_id)> is_behind;
  coordinator_actor coordinator; ///< on the coordinator's node only
};

/// One process of the cluster on the control plane. Of a job's roles only shards, as parameters_actor, are known to other hosts.
using node_actor = caf::typed_actor<
    caf::result<node_prepared>(prepare_job),
    caf::result<void>(job_places), ///< spawn your roles and connect your lanes; answered when they are up
    caf::result<void>(node_place), ///< a node is back as a new process: your lane to it is a new one
    caf::result<void>(protocols::plan), caf::result<void>(protocols::worker_down), caf::result<void>(protocols::holder_down),
    caf::result<void>(protocols::hold_order), caf::result<void>(pause_order), caf::result<void>(protocols::resume_order),
    caf::result<void>(protocols::fetch_order), caf::result<std::vector<std::uint32_t>>(waiting_query),
    caf::result<node_totals>(totals_query), caf::result<node_report>(inspect_query), caf::result<void>(role_order),
    caf::result<void>(record_order), caf::result<std::int64_t>(clock_query), caf::result<shards_view>(shards_query),
    caf::result<trace_chunk>(trace_query), ///< ask again until the last
    caf::result<clock_reading>(wall_clock_query), caf::result<node_probe>(probe_query), caf::result<void>(node_notice),
    caf::result<void>(stop_job)>;

/// A job that a node works for, and the life of its process in it.
struct job_life {
  std::uint64_t job_key = 0;
  std::uint32_t life = 0;
  friend bool operator==(const job_life&, const job_life&) = default;
};
/// What a node hears from itself: the data are loaded, a lane opened or closed. `of` another job than its own: that one has been
/// stopped.
struct data_loaded {
  job_life of;
  data_pair data;
  std::string error;                  ///< empty: none
  std::vector<file_probe> files = {}; ///< as in node_prepared
};
struct lane_event {
  job_life of;
  std::uint32_t peer = 0;
  bool up = false;
  std::string reason;
};
/// An actor of this process, as its node shows it to those who inspect the cluster; it need not be a role.
struct shown_actor {
  inspectable_actor actor;
  std::string id, role;
  std::string watched_by = {}; ///< as in actor_report
  std::string ended = {};      ///< why it is no more; empty: it is
};
using node_control = node_actor::extend<caf::result<void>(data_loaded), caf::result<void>(lane_event),
                                        caf::result<void>(shown_actor)>; ///< from an application: show it until it ends

} // namespace troupe::actors
