// SPDX-License-Identifier: BSD-3-Clause
// What every role reports of itself when asked: what it does, since when, and for whom it waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/messages/fields.hpp"

namespace troupe::actors {

/// To a role: answered with an actor_report. To a node: with those of its roles. To a cluster: with those of all nodes. If a
/// node's reports do not fit a message, the rest is asked for page by page, with the ids from the node's answer.
struct inspect_query {
  std::uint32_t page = 0;      ///< 0: a new answer; else a further page of a node's answer
  std::uint64_t answer_id = 0; ///< of that answer
  std::uint64_t job = 0;       ///< of that answer; only to a cluster, like `node`
  std::string node = {};
};

/// One actor, at the moment when it answered. If it did not answer in time, the asker reports it as `stuck`, with what can be
/// seen from outside.
struct actor_report {
  std::string id = {};         ///< "worker 2"; unique within a job. This and the next four are filled in by its spawner
  std::string role = {};       ///< "worker", "compute", "loader", "shard", "aggregator", "evaluator", "coordinator", "node"
  std::string parent = {};     ///< id of its spawner
  std::string watched_by = {}; ///< id of the actor that monitors it or is linked to it; empty: none
  std::string node = {};
  std::uint64_t job = 0; ///< filled in by the cluster; 0: of no job
  std::string state = {};
  double since_s = 0;                             ///< for how long it has been in that state
  std::uint64_t mailbox = 0;                      ///< messages waiting
  std::uint64_t messages = 0;                     ///< handled, in all
  double messages_per_s = 0;                      ///< recently: in the last second or two, or since it was last awake
  double busy = 0;                                ///< share of that time spent in handlers, 0..1
  double handler_s = 0;                           ///< for how long its present handler has been running
  std::vector<std::string> waits_for = {};        ///< ids
  std::string waits_on = {};                      ///< what it wants of them: "gradients of round 12"
  double wait_deadline_s = 0;                     ///< when it gives that wait up, since it began; 0: never
  std::string last_error = {};                    ///< one that it survived, or that ended it; empty: none
  std::map<std::string, std::string> fields = {}; ///< further facts of this role
  bool paused = false;                            ///< by the operator
  bool stuck = false;
  bool ended = false; ///< last_error says why
};

/// A lane of a node, as its hub counts.
struct link_report {
  std::string peer;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t queued_bytes = 0; ///< not yet taken by the peer's host
  std::uint64_t credit_bytes = 0; ///< limit on the bytes that should wait
  double stalled_s = 0;           ///< for how long nothing of it was sent; 0: nothing waits
  double round_trip_s = 0;
  double away_s = 0;            ///< for how long it has had no connection; 0: it has one
  std::uint32_t resumed = 0;    ///< how often another connection took over
  double silent_s = 0;          ///< for how long nothing has come; a living peer speaks every 0.1 s
  std::uint64_t lent_bytes = 0; ///< of bytes_sent, those that the peer, on the same host, copies from the node's memory
};

struct node_report {
  std::string node = {};
  std::uint64_t job = 0;
  std::int32_t pid = 0;
  std::uint64_t resident_bytes = 0;
  std::vector<actor_report> actors = {}; ///< at most actors_per_page
  std::uint64_t answer_id = 0;           ///< names this answer
  std::uint32_t pages = 1;               ///< pages of this answer; links and the like are in the first
  std::vector<link_report> links = {};
  std::string silent = {}; ///< why it did not answer; empty if it did
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
