// SPDX-License-Identifier: BSD-3-Clause
// Messages between the roles of a job: holders, workers, evaluator and coordinator. Tensors cross hosts only by lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/messages/compute.hpp"
#include "actors/messages/fields.hpp"
#include "actors/messages/inspection.hpp"
#include "actors/monitoring/trace.hpp"
#include "actors/roles/assembler.hpp"
#include "actors/roles/holder/lead_tally.hpp"
#include "protocols/effect.hpp"
#include "protocols/lead_report.hpp"
#include "protocols/ledger.hpp"
#include "protocols/message.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::actors {

namespace wire = protocols::wire;

/// The job is over, or the user interrupts it.
struct stop_job {
  bool failed = false;
  std::string reason;
};

/// A node hears nothing from another one, or their lane is over.
struct peer_unreachable {
  std::uint32_t node = 0, peer = 0;
  std::uint32_t incarnation = 0; ///< of the peer's process, as the node knows it
  bool silent = false;           ///< the lane is open: the peer may go on by itself
  std::string reason{};
};

/// A role of a node died.
struct role_lost {
  enum class kind : std::uint8_t { holder, worker, evaluator };
  std::uint32_t node = 0;
  kind role = kind::worker;
  std::uint32_t index = 0;
  std::string reason;
  std::uint32_t incarnation = 0; ///< of the node, as the sender knows it
};

/// A node of this job is back as a new process; or the operator wants it to leave, answered with whether it may go now.
struct node_back {
  std::uint32_t node = 0;
  caf::actor actor; ///< a node_actor
};

struct node_leaves {
  std::uint32_t node = 0;
};

/// Whom the open round waits for: workers, for their pushes; or, once it has these, holders that cannot make its version yet.
struct waiting_query {};
struct awaited {
  std::vector<std::uint32_t> workers{}, holders{};
};

/// To a shard: its parameters, piece by piece. Offset 0 begins with the newest version; later pieces for the same sender are of
/// that version, however long it takes. An unfinished reading is dropped once several others have begun.
struct parameters_query {
  std::uint64_t offset = 0; ///< in floats, within the shard's range
};

struct parameters_piece {
  protocols::version ver;
  std::vector<float> values;
  bool last = false; ///< the last piece of the range
};

/// To the evaluator, through its node: its parameters of this version, which it has evaluated or has got last, piece by piece.
struct evaluated_query {
  protocols::version ver;
  std::uint64_t offset = 0; ///< in floats
};

/// To a shard, through its node, from a coordinator that takes the job over: what it missed. Nothing, unless the shard leads the
/// job, or is a backup of the one that does.
struct lead_query {};
struct lead_word {
  protocols::lead_report report{};
  lead_tally tally{};
  bool leads = true; ///< else it is a backup's

  /// None if nothing is said.
  static std::optional<lead_word> of(const std::optional<protocols::lead_report>& said, const lead_tally& tally, bool leads) {
    return said ? std::optional{lead_word{*said, tally, leads}} : std::nullopt;
  }
};
/// Likewise to the evaluator: its last evaluations, the oldest first, without parameters.
struct evaluations_query {};

/// Coordinator to every role: training time is paused until `resume_order`.
struct pause_order {};

/// To a role, from the operator: pause, or resume if `on` is false (operator_pause.hpp).
struct operator_pause {
  bool on = true;
};

/// What the operator may do to a role while its job runs.
enum class role_verb : std::uint8_t {
  pause, ///< it stops; messages to it wait in its mailbox
  resume,
  kill,    ///< as if it had died
  restart, ///< a worker: its next incarnation replaces it
};

/// What the operator asks of a job; the answer is a sentence about the outcome.
struct actor_order {
  std::uint64_t number = 0; ///< of the job
  role_verb verb{};
  std::string actor; ///< "worker 2"
};

struct change_order {
  std::uint64_t number = 0;
  std::string key, value; ///< "optimizer.lr", "protocol.steps" or "log.level"
};

/// Write a checkpoint of the next version; answered with its folder once that is on the disk.
struct save_order {
  std::uint64_t number = 0; ///< of the job
};

/// Begin or end recording what every role does.
struct record_order {
  std::uint64_t number = 0;
  bool on = true;
  std::string file; ///< where the trace will be written by the console that ends the recording
};

/// A role's node to the coordinator: a file of a checkpoint is on the disk, or cannot be.
struct file_saved {
  bool of_worker = false;        ///< else a shard's
  std::uint32_t index = 0;       ///< of the role
  std::uint32_t incarnation = 0; ///< a worker's
  protocols::version ver;
  written_file file{};
  std::string error{}; ///< empty: none
  // Of the lead's shard:
  std::vector<std::uint64_t> lead{}; ///< wire::encode_state of its state at rest
  std::uint64_t samples = 0;         ///< applied
  protocols::nanoseconds trained = 0;
};

/// The coordinator to itself: a checkpoint has its manifest; `error`: has none.
struct manifest_written {
  protocols::version ver;
  std::string error{};
  std::string left{}; ///< why an older one was not removed; empty: none was to be
};

/// Evaluator to coordinator: a version's parameters are complete in host memory and will be evaluated next. A coordinator
/// elsewhere fetches them when it needs them (evaluated_query).
struct collected {
  protocols::version ver;
  stays_here<kernels::buffer> parameters;
  std::vector<std::pair<protocols::member, protocols::step_count>> made = {}; ///< decentralized: the steps in its replicas
};

/// The result of an evaluation, with the parameters that were evaluated; the same holds for them.
struct evaluation {
  protocols::version ver;
  double train_loss = 0, test_loss = 0, test_accuracy = 0;
  stays_here<kernels::buffer> parameters;
  std::vector<std::pair<protocols::member, protocols::step_count>> made = {}; ///< decentralized
  std::optional<double> validation_loss = {};                                 ///< of what is held out, if anything is
};

/// Takes pushes and the lead's orders: a shard, an aggregator, or the proxy of a remote one.
using holder_actor = caf::typed_actor<caf::result<void>(wire::push_part, kernels::buffer), caf::result<void>(wire::push_end),
                                      caf::result<void>(wire::partial_part, kernels::buffer),
                                      caf::result<void>(protocols::arrival),  ///< the lead only
                                      caf::result<void>(protocols::prepared), ///< likewise
                                      caf::result<void>(protocols::close), caf::result<void>(protocols::send_order),
                                      caf::result<void>(protocols::drop_order), caf::result<void>(protocols::commit_order),
                                      caf::result<void>(wire::decision_part, kernels::buffer), ///< a backup of the lead's shard
                                      caf::result<void>(protocols::admit_order),
                                      caf::result<void>(protocols::copy_request),           ///< a shard
                                      caf::result<void>(wire::copy_part, kernels::buffer)>; ///< a backup that catches up

/// Takes parameters, shards' or another worker's own: a worker, the evaluator, or the proxy of a remote one.
using params_actor =
    caf::typed_actor<caf::result<void>(wire::params_part, kernels::buffer), caf::result<void>(wire::peer_part, kernels::buffer)>;

/// The same roles, if they compute on a device, for senders of this process that do so too.
using local_device_holder =
    caf::typed_actor<caf::result<void>(wire::push_part, device_tensor), caf::result<void>(wire::partial_part, device_tensor)>;

using local_device_worker =
    caf::typed_actor<caf::result<void>(wire::params_part, device_tensor), caf::result<void>(wire::peer_part, device_tensor)>;

/// By the key that the parts of one sending share.
using params_assembler = assembler<std::uint64_t>;

/// By sender and round.
using peer_key = std::pair<protocols::member, std::uint64_t>;

using peer_assembler = assembler<peer_key>;

struct role_peers;

/// The handles of a role's peers; the same list for every role of a node. Sent once, when all roles of the node are spawned.
using peers_ptr = std::shared_ptr<const role_peers>;

/// What the coordinator tells roles through their nodes. A node hands each of these messages to those of its roles whose
/// interface has it.
using role_orders = caf::typed_actor<
    caf::result<void>(protocols::plan), caf::result<void>(protocols::worker_down), caf::result<void>(protocols::holder_down),
    caf::result<void>(pause_order), caf::result<void>(protocols::resume_order), caf::result<void>(protocols::checkpoint_order),
    caf::result<void>(protocols::keep_order), caf::result<void>(protocols::takes_over), caf::result<void>(protocols::new_backup)>;

/// Whether an actor with this interface takes the message.
template <class Interface, class Message>
inline constexpr bool takes = false;
template <class... Signatures, class Message>
inline constexpr bool
    takes<caf::typed_actor<Signatures...>, Message> = (std::is_same_v<Signatures, caf::result<void>(Message)> || ...);

/// What a holder's own node tells it.
using holder_control = holder_actor::extend<
    caf::result<void>(peers_ptr), caf::result<void>(protocols::plan), caf::result<void>(protocols::worker_down),
    caf::result<void>(protocols::holder_down), caf::result<void>(protocols::takes_over), caf::result<void>(pause_order),
    caf::result<void>(protocols::resume_order), caf::result<void>(protocols::checkpoint_order), ///< the lead, or every shard
    caf::result<std::optional<lead_word>>(lead_query),
    caf::result<void>(protocols::hold_order), ///< this and the next three: the lead only
    caf::result<void>(protocols::new_backup), caf::result<void>(protocols::fetch_order), caf::result<awaited>(waiting_query),
    caf::result<actor_report>(inspect_query), caf::result<void>(operator_pause), caf::result<void>(protocols::expired),
    caf::result<void>(protocols::version), ///< to itself, from the device: this version is computed
    caf::result<void>(device_check),       ///< to itself
    caf::result<void>(wire::push_part, device_tensor), caf::result<void>(wire::partial_part, device_tensor)>;

/// A shard as actors of other programs see it.
using parameters_actor = caf::typed_actor<caf::result<parameters_piece>(parameters_query)>;

/// A shard to itself, from the device: a piece is in host memory.
struct piece_downloaded {
  std::uint64_t number = 0;
  protocols::version ver;
  kernels::buffer values;
  bool last = false;
};

/// A shard on a device to itself: a round's sum, to be measured.
struct sum_on_host {
  protocols::version ver;
  std::uint64_t decision = 0;
  kernels::buffer values;
};

using shard_control = holder_control::extend<caf::result<parameters_piece>(parameters_query), caf::result<void>(piece_downloaded),
                                             caf::result<void>(sum_on_host)>;

/// To the worker itself: the tensor of a push is in host memory, to be encoded there.
struct push_on_host {
  protocols::push push;
  kernels::buffer tensor;
  bool keep = false; ///< as in worker_binding's World::send
};

using worker_actor =
    params_actor::extend<caf::result<void>(peers_ptr), caf::result<actor_report>(inspect_query),
                         caf::result<void>(operator_pause), caf::result<void>(protocols::plan), caf::result<void>(pause_order),
                         caf::result<void>(protocols::resume_order), caf::result<void>(protocols::checkpoint_order),
                         caf::result<void>(protocols::keep_order), caf::result<void>(protocols::takes_over),
                         caf::result<void>(protocols::fetch_order), ///< decentralized
                         caf::result<void>(protocols::hold_order),  ///< likewise
                         caf::result<void>(protocols::expired),     ///< to itself
                         caf::result<void>(gradient_ready), caf::result<void>(wire::params_part, device_tensor),
                         caf::result<void>(wire::peer_part, device_tensor), caf::result<void>(push_on_host)>;

using evaluator_actor =
    params_actor::extend<caf::result<void>(peers_ptr), caf::result<actor_report>(inspect_query),
                         caf::result<void>(operator_pause), caf::result<void>(protocols::plan),
                         caf::result<void>(protocols::fetch_order), ///< decentralized: before it,
                                                                    ///< the plan whose workers will send
                         caf::result<parameters_piece>(evaluated_query), caf::result<std::vector<evaluation>>(evaluations_query),
                         caf::result<void>(compute_finished)>;

/// To whoever keeps the ledger: decide this.
struct decide_entry {
  protocols::ledger::entry entry;
};
/// It is on the disk, unless one of these has a text.
struct decided_entry {
  std::string why_not; ///< and never will be
  std::string failed;  ///< nothing more is decided; of this one nobody knows
};
using ledger_actor = caf::typed_actor<caf::result<decided_entry>(decide_entry)>;

/// What the nodes have recorded, in one piece of memory.
using traces_ptr = std::shared_ptr<const std::vector<node_trace>>;

/// Decides the course of the job. Hears the lead's reports and the evaluator.
using coordinator_actor =
    caf::typed_actor<caf::result<void>(protocols::report), caf::result<void>(collected), caf::result<void>(evaluation),
                     caf::result<void>(role_lost), caf::result<void>(peer_unreachable), caf::result<void>(file_saved),
                     caf::result<void>(protocols::caught_up), caf::result<void>(protocols::expired), caf::result<void>(stop_job)>;

/// To itself, from the cluster whose jobs outlive it: the job's end, which it has reported, is decided.
struct end_decided {};

/// The same, as the cluster that it runs on sees it.
using coordinator_control =
    coordinator_actor::extend<caf::result<void>(node_back), caf::result<bool>(node_leaves), caf::result<void>(end_decided),
                              caf::result<actor_report>(inspect_query), caf::result<std::string>(actor_order),
                              caf::result<std::string>(change_order), caf::result<std::string>(save_order),
                              caf::result<void>(manifest_written),
                              caf::result<traces_ptr>(record_order)>; ///< null where it begins

/// Local actors and proxies of remote ones alike.
struct role_peers {
  std::vector<holder_actor> holders; ///< by holder number; null: it is gone, or has taken another one's place
  std::vector<params_actor> workers; ///< by worker number
  /// Roles of this process with device memory: they take tensors from other devices without going through the host.
  std::map<protocols::holder_id, local_device_holder> local_device_holders;
  std::map<protocols::worker_id, local_device_worker> local_device_workers;
  /// Where the workers of this process assemble their parameters: a shard computes the next version in place.
  std::map<protocols::worker_id, std::shared_ptr<params_assembler>> receive_buffers;
  params_actor evaluator;
  /// Whether this worker cannot be reached, or has a backlog: more messages would only queue. Thread-safe.
  std::function<bool(protocols::worker_id)> is_behind;
  coordinator_actor coordinator;
};

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_role, caf::id_block::troupe_compute::end)

TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::push_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::push_end))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::params_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::partial_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::peer_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::arrival))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::close))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::send_order))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::drop_order))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::prepared))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::commit_order))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::decision_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::wire::copy_part))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::admit_order))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::copy_request))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::expired))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::peers_ptr))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::piece_downloaded))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::sum_on_host))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::push_on_host))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::node_back))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::node_leaves))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::operator_pause))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::traces_ptr))

TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::decide_entry))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::decided_entry))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::lead_query))
TROUPE_LOCAL_MESSAGE(troupe_role, (std::optional<troupe::actors::lead_word>))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::evaluations_query))
CAF_ADD_TYPE_ID(troupe_role, (std::vector<troupe::actors::evaluation>))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::end_decided))

CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::version))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::plan))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::worker_down))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::holder_down))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::hold_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::checkpoint_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::keep_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::resume_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::fetch_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::takes_over))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::new_backup))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::caught_up))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::report))
CAF_ADD_TYPE_ID(troupe_role, (std::vector<std::uint32_t>))
CAF_ADD_TYPE_ID(troupe_role, (std::vector<std::string>))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::stop_job))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::collected))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::evaluation))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::role_lost))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::peer_unreachable))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::file_saved))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::manifest_written))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::waiting_query))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::awaited))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::pause_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::actor_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::change_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::record_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::save_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::coordinator_actor))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_actor))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_query))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_piece))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::evaluated_query))

CAF_END_TYPE_ID_BLOCK(troupe_role)
