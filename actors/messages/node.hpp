// SPDX-License-Identifier: BSD-3-Clause
// Messages to a node: from the coordinator of its job, from the cluster, and from itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/job.hpp"
#include "actors/messages/fields.hpp"
#include "actors/messages/role.hpp"
#include "actors/monitoring/trace.hpp"
#include "actors/node/probe.hpp"

namespace troupe::actors {

/// Where one role of a job lives.
struct role_place {
  std::uint32_t index = 0; ///< worker or holder number
  std::uint32_t node = 0;
  std::string device{};                     ///< one that its node lists; empty: the job's
  std::optional<std::uint32_t> backup_of{}; ///< a shard
  bool catches_up = false;                  ///< it has not all of its shard yet
  bool aggregates = false;
  friend bool operator==(const role_place&, const role_place&) = default;
};

/// Where no role lives: it is gone.
inline constexpr std::uint32_t nowhere = 0xffff'ffff;

/// One process of the job's cluster.
struct node_place {
  std::uint32_t node = 0;
  std::string name;
  std::string host;
  std::uint16_t lane_port = 0;
  std::uint32_t incarnation = 0; ///< how often its process was restarted within the job
  bool absent = false;           ///< it may join later
};

/// Who lives where, the same on every node.
struct job_places {
  std::vector<node_place> nodes;
  std::vector<role_place> workers;
  std::vector<role_place> holders; ///< shards first, then aggregators
  std::uint32_t evaluator = 0;     ///< its node

  /// "worker 3 (node-1)".
  std::string describe(std::uint32_t worker) const {
    const auto name = "worker " + std::to_string(worker);
    return worker < workers.size() ? name + " (" + nodes[workers[worker].node].name + ")" : name;
  }
  /// "shard 0", as it reports itself.
  std::string id_of(protocols::holder_id who, std::uint32_t shards) const {
    const char* role = who.value < shards ? "shard " : holders[who.value].backup_of ? "replica " : "aggregator ";
    return role + std::to_string(who.value);
  }
  /// "shard 0 (node-1)".
  std::string describe(protocols::holder_id who, std::uint32_t shards) const {
    const auto node = holders[who.value].node;
    return id_of(who, shards) + (node < nodes.size() ? " (" + nodes[node].name + ")" : "");
  }
  /// The nodes to which this one has lanes: where parameters are at either end, or `all`.
  std::set<std::uint32_t> peers_of(std::uint32_t self, bool all) const {
    std::set<std::uint32_t> out;
    for (const auto& other : nodes)
      if (other.node != self && (all || holds_parameters(other.node) || holds_parameters(self)))
        out.insert(other.node);
    return out;
  }
  std::set<std::uint32_t> absent() const {
    std::set<std::uint32_t> out;
    for (const auto& each : nodes)
      if (each.absent)
        out.insert(each.node);
    return out;
  }
  std::set<std::uint32_t> workers_on(const std::set<std::uint32_t>& these) const {
    std::set<std::uint32_t> out;
    for (const auto& worker : workers)
      if (these.contains(worker.node))
        out.insert(worker.index);
    return out;
  }
  /// A backup becomes the shard.
  void take_over(const protocols::takes_over& who) {
    auto& backup = holders.at(who.by.value);
    auto& shard = holders.at(who.shard.value);
    shard.node = std::exchange(backup.node, nowhere);
    shard.device = backup.device;
    backup.backup_of.reset();
  }
  /// If it is a backup's place, or an aggregator's.
  void lose(protocols::holder_id who) {
    if (who.value < holders.size() && (holders[who.value].backup_of || holders[who.value].aggregates))
      holders[who.value] = {.index = who.value, .node = nowhere, .aggregates = holders[who.value].aggregates};
  }
  /// A holder that comes later. Its number is beyond all others; those between belong to nobody.
  void add(const role_place& later) {
    while (holders.size() <= later.index)
      holders.push_back({.index = static_cast<std::uint32_t>(holders.size()), .node = nowhere});
    holders[later.index] = later;
  }
  /// The job cannot go on without it: it holds a shard that has no whole backup elsewhere.
  bool needs(std::uint32_t node) const {
    const auto backed_up = [&](const role_place& holder) {
      return std::ranges::any_of(holders, [&](const role_place& other) {
        return other.backup_of == holder.index && !other.catches_up && other.node != node && other.node != nowhere;
      });
    };
    return std::ranges::any_of(holders, [&](const role_place& holder) {
      return holder.node == node && !holder.backup_of && !holder.aggregates && !backed_up(holder);
    });
  }
  bool holds_parameters(std::uint32_t node) const { return std::ranges::find(holders, node, &role_place::node) != holders.end(); }
  bool has_workers(std::uint32_t node) const { return std::ranges::find(workers, node, &role_place::node) != workers.end(); }
  /// Whether any role lives there.
  bool uses(std::uint32_t node) const { return evaluator == node || holds_parameters(node) || has_workers(node); }
};

/// From the cluster that a node has joined: in which term it is led.
struct led_by {
  std::uint64_t term = 0;
};

/// Where one parameter of the model lies in the flat array.
struct parameter_place {
  std::string name; ///< "linear1.weight"
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0; ///< in floats
};

/// Coordinator to every node: a backup comes there. Its own node spawns it.
struct backup_place {
  role_place holder;
};

/// What a node answers to prepare_job.
struct node_prepared {
  std::uint16_t lane_port = 0;        ///< 0: it does not listen, being the first node of its job
  std::int64_t data_size = 0;         ///< training samples
  std::vector<file_probe> files = {}; ///< from which the data were read, if the job has several nodes
  folder_probe checkpoints = {};      ///< if its roles write some
  // Of the first node:
  data_scaling scaling = {};
  std::int64_t floats = 0; ///< of the flat parameters
  std::vector<parameter_place> parameters = {};
};

/// What a node is asked about the job it runs: traffic and memory.
struct totals_query {};

struct node_totals {
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t resident_bytes = 0;
  std::int64_t computed_ns = 0, emulated_ns = 0; ///< real and emulated time of the steps; 0: nothing is emulated
  std::uint64_t bytes_push = 0, bytes_params = 0, bytes_peers = 0; ///< parts of bytes_sent: see net::lane_traffic
  std::int64_t exchanged_ns = 0, hidden_ns = 0;                    ///< see worker_meter
};

/// What a node is asked at the end of a job that is traced: its events, in chunks that fit a message of the control plane.
struct trace_query {};

/// Answered with its host's monotonic clock, in nanoseconds.
struct clock_query {};

/// To a role's node: answered once it is done.
struct role_order {
  role_verb verb{};
  std::string role; ///< as in actor_report
  std::uint32_t index = 0;
  std::uint32_t incarnation = 0; ///< of the worker that is started
};

/// To a node: the evaluator is there from now on; answered once it can be sent parameters.
struct evaluator_place {
  std::uint32_t node = 0;
};

/// Reports what it does.
using inspectable_actor = caf::typed_actor<caf::result<actor_report>(inspect_query)>;

/// From the cluster, for the log of a node: a decision about it.
struct node_notice {
  std::string text;
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

/// To a cluster: a job's shards. To a node: those of its job that live there.
struct shards_query {
  std::uint64_t job = 0; ///< its number; 0: of those that run the first
};

/// Coordinator's node to every node: a job is coming; open your lanes and load the data. Answered with node_prepared.
struct prepare_job {
  std::uint64_t job_key = 0;
  std::uint32_t self = 0; ///< your number in this job
  actors::job job;
  coordinator_actor coordinator;       ///< is told of roles that die
  std::uint32_t incarnation = 0;       ///< of your process in this job; of your workers, too
  bool trace = false;                  ///< record what the roles do, and when
  std::vector<std::string> names = {}; ///< of the job's nodes, by number
  bool rounds = false;                 ///< the lead records its rounds
  std::uint64_t term = 0;              ///< in which the coordinator's process leads the cluster
  bool writes_checkpoints = false;     ///< your roles do
  double orphan_s = 0;                 ///< how long your part outlives the coordinator; 0: it ends with it
};

/// What a node has of a job, as it tells whoever leads the cluster next.
struct job_standing {
  std::uint64_t job_key = 0;
  std::uint32_t node = 0;        ///< its number in the job
  std::uint32_t incarnation = 0; ///< of its process there
  protocols::plan_epoch epoch{}; ///< of the newest plan that it has heard
  std::vector<protocols::member> workers{};
  std::vector<std::uint32_t> holders{}; ///< by their numbers now
  bool evaluates = false;
  std::vector<std::string> names{}; ///< of the job's nodes, by number
};
/// To a node, from its own process: answered with that; none: it works for no job, or for one that ends with its coordinator.
struct standing_query {};

/// To a node: I coordinate this job from now on. Refused where one of a later term does, or the job is gone.
struct adopt_job {
  std::uint64_t term = 0;
  std::uint64_t job_key = 0;
  coordinator_actor coordinator{};
};
/// Its answer: what it has, and what no coordinator has heard.
struct adopted_part {
  job_standing standing{};
  job_places places{}; ///< as this node knows them
  node_prepared prepared{};
  std::vector<role_lost> lost{};
  std::vector<peer_unreachable> unreachable{};
  std::vector<file_saved> saved{}; ///< of the newest checkpoint
  std::optional<lead_word> lead{};
  std::vector<evaluation> evaluations{};
};

/// One process of the cluster on the control plane. Of a job's roles only shards, as parameters_actor, are known to other hosts.
using node_actor = caf::typed_actor<
    caf::result<node_prepared>(prepare_job),
    caf::result<void>(job_places),   ///< spawn your roles and connect your lanes; answered when they are up
    caf::result<void>(node_place),   ///< a node is back as a new process: your lane to it is a new one
    caf::result<void>(backup_place), ///< answered when your roles know of it
    caf::result<void>(evaluator_place), caf::result<parameters_piece>(evaluated_query),
    caf::result<std::optional<job_standing>>(standing_query), caf::result<adopted_part>(adopt_job), caf::result<void>(led_by),
    caf::result<void>(protocols::hold_order), caf::result<void>(protocols::fetch_order), caf::result<awaited>(waiting_query),
    caf::result<node_totals>(totals_query), caf::result<node_report>(inspect_query), caf::result<void>(role_order),
    caf::result<void>(record_order), caf::result<std::int64_t>(clock_query), caf::result<shards_view>(shards_query),
    caf::result<trace_chunk>(trace_query), ///< ask again until the last
    caf::result<clock_reading>(wall_clock_query), caf::result<node_probe>(probe_query), caf::result<void>(node_notice),
    caf::result<void>(stop_job)>::extend_with<role_orders>;

/// A job that a node works for, and the incarnation of its process in it.
struct job_incarnation {
  std::uint64_t job_key = 0;
  std::uint32_t incarnation = 0;
  friend bool operator==(const job_incarnation&, const job_incarnation&) = default;
};

/// What a node hears from itself: the data are loaded, a lane opened, is silent or closed. What is of another `run` than the
/// node's is ignored: that one has been stopped.
struct data_loaded {
  job_incarnation run;
  data_pair data;
  std::string error;                  ///< empty: none
  std::vector<file_probe> files = {}; ///< these as in node_prepared
  folder_probe checkpoints = {};
};

/// From a role to its node: for the coordinator.
struct part_saved {
  job_incarnation run;
  file_saved file;
};

struct lane_event {
  enum class kind : std::uint8_t { up, silent, down };
  job_incarnation run;
  std::uint32_t peer = 0;
  std::uint32_t life = 0; ///< of the peer's process in the job
  kind is{};
  std::string reason{}; ///< why it is down, or how long it has been silent
};

/// An actor of this process that its node shows when the cluster is inspected; it need not be a role.
struct shown_actor {
  inspectable_actor actor;
  std::string id, role;
  std::string watched_by = {}; ///< as in actor_report
  std::string ended = {};      ///< why it ended; empty: it has not
};

using node_control =
    node_actor::extend<caf::result<void>(data_loaded), caf::result<void>(lane_event), caf::result<void>(part_saved),
                       caf::result<void>(shown_actor)>; ///< from an application: show it until it ends

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_node, caf::id_block::troupe_role::end)

TROUPE_LOCAL_MESSAGE(troupe_node, (troupe::actors::data_loaded))
TROUPE_LOCAL_MESSAGE(troupe_node, (troupe::actors::lane_event))
TROUPE_LOCAL_MESSAGE(troupe_node, (troupe::actors::shown_actor))
TROUPE_LOCAL_MESSAGE(troupe_node, (troupe::actors::part_saved))
TROUPE_LOCAL_MESSAGE(troupe_node, (troupe::actors::standing_query))
TROUPE_LOCAL_MESSAGE(troupe_node, (std::optional<troupe::actors::job_standing>))

CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::prepare_job))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_prepared))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::job_places))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_place))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::backup_place))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::totals_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_totals))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::clock_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::trace_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::trace_chunk))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::role_order))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_actor))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::wall_clock_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::clock_reading))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::probe_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_probe))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::node_notice))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::shards_query))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::shards_view))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::evaluator_place))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::led_by))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::adopt_job))
CAF_ADD_TYPE_ID(troupe_node, (troupe::actors::adopted_part))

CAF_END_TYPE_ID_BLOCK(troupe_node)
