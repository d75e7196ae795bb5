// SPDX-License-Identifier: BSD-3-Clause
// What the roles of a job say to each other: holders, workers, evaluator and coordinator. Tensors pass between hosts by lanes
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/compute.hpp"
#include "actors/messages/fields.hpp"
#include "actors/messages/inspection.hpp"
#include "actors/monitoring/trace.hpp"
#include "actors/roles/assembler.hpp"
#include "protocols/effect.hpp"
#include "protocols/message.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::actors {

namespace wire = protocols::wire;

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
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::expired))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::protocols::report))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::collected))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::evaluation))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::peers_ptr))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::piece_landed))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::node_back))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::node_leaves))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::stand_still))
TROUPE_LOCAL_MESSAGE(troupe_role, (troupe::actors::traces_ptr))

CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::version))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::plan))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::worker_down))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::holder_down))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::hold_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::resume_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::protocols::fetch_order))
CAF_ADD_TYPE_ID(troupe_role, (std::vector<std::uint32_t>))
CAF_ADD_TYPE_ID(troupe_role, (std::vector<std::string>))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::stop_job))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::role_lost))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::waiting_query))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::pause_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::actor_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::change_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::record_order))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::coordinator_actor))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_actor))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_query))
CAF_ADD_TYPE_ID(troupe_role, (troupe::actors::parameters_piece))

CAF_END_TYPE_ID_BLOCK(troupe_role)
