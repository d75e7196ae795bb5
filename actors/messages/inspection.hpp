// SPDX-License-Identifier: BSD-3-Clause
// What every role says of itself when it is asked: what it does, since when, and for whom it waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/messages/fields.hpp"

namespace troupe::actors {

/// To a role: answered with an actor_report. To a node: with those of its roles; to a cluster: with those of all. Where those of
/// a node do not fit a message, the rest is asked for page by page, by what the node said of itself.
struct inspect_query {
  std::uint32_t page = 0;      ///< 0: begin anew; else the rest of a node's answer
  std::uint64_t gathering = 0; ///< of that answer
  std::uint64_t job = 0;       ///< of that answer, to a cluster, as is `node`
  std::string node = {};
};

/// One actor, at the moment when it answered. One that did not answer in time is reported by whoever asked it, as `stuck`, with
/// what can be seen of it from outside.
struct actor_report {
  std::string id = {};         ///< "worker 2"; unique within a job. This and the next four are filled in by whoever spawned it
  std::string role = {};       ///< "worker", "compute", "loader", "shard", "aggregator", "evaluator", "coordinator", "node"
  std::string parent = {};     ///< id of its spawner
  std::string watched_by = {}; ///< id of whoever monitors it, or is linked to it; empty: nobody
  std::string node = {};
  std::uint64_t job = 0; ///< filled in by the cluster; 0: of no job
  std::string state = {};
  double since_s = 0;                             ///< for how long it has been in that state
  std::uint64_t mailbox = 0;                      ///< messages that wait
  std::uint64_t messages = 0;                     ///< handled, in all
  double messages_per_s = 0;                      ///< of late: in the last second or two, or since it was last awake
  double busy = 0;                                ///< share of that time spent in handlers, 0..1
  double handler_s = 0;                           ///< for how long the handler runs that it is in
  std::vector<std::string> waits_for = {};        ///< ids
  std::string waits_on = {};                      ///< what it wants of them: "gradients of round 12"
  std::string last_error = {};                    ///< that it has survived, or ended with; empty: none
  std::map<std::string, std::string> fields = {}; ///< what this role has to say beyond that
  bool paused = false;                            ///< by a person
  bool stuck = false;
  bool ended = false; ///< it is no more; last_error says why
};

/// A lane of a node, as its hub counts.
struct link_report {
  std::string peer;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t queued_bytes = 0; ///< not yet taken by the peer's host
  std::uint64_t credit_bytes = 0; ///< of which more than so many shall not wait
  double stalled_s = 0;           ///< for how long none of what waits has gone; 0: nothing waits
  double round_trip_s = 0;
};

struct node_report {
  std::string node = {};
  std::uint64_t job = 0;
  std::int32_t pid = 0;
  std::uint64_t resident_bytes = 0;
  std::vector<actor_report> actors = {}; ///< at most actors_per_page
  std::uint64_t gathering = 0;           ///< names this answer
  std::uint32_t pages = 1;               ///< how many there are of it; links and the like are in the first
  std::vector<link_report> links = {};
  std::string silent = {}; ///< why it did not answer; empty: it did
};

/// How many reports fit a message of the control plane (system.cpp), with room to spare.
inline constexpr std::size_t actors_per_page = 1024;

struct cluster_report {
  std::vector<node_report> nodes; ///< one for each job and node of it
};

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_inspection, first_custom_type_id)

CAF_ADD_TYPE_ID(troupe_inspection, (std::vector<troupe::actors::actor_report>))
CAF_ADD_TYPE_ID(troupe_inspection, (troupe::actors::inspect_query))
CAF_ADD_TYPE_ID(troupe_inspection, (troupe::actors::actor_report))
CAF_ADD_TYPE_ID(troupe_inspection, (troupe::actors::link_report))
CAF_ADD_TYPE_ID(troupe_inspection, (troupe::actors::node_report))
CAF_ADD_TYPE_ID(troupe_inspection, (troupe::actors::cluster_report))

CAF_END_TYPE_ID_BLOCK(troupe_inspection)
