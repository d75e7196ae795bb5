// SPDX-License-Identifier: BSD-3-Clause
// A job in a cluster's queue, from its submission until its result has been handed out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor_clock.hpp>

#include "actors/cluster/cluster_member.hpp"
#include "actors/cluster/decisions/returning_job.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/node/job_forwarder.hpp"
#include "actors/run_observer.hpp"

namespace troupe::actors {

/// Kept by the cluster's actor, and used on its thread alone.
struct cluster_job {
  std::uint64_t number = 0;
  submit_job submission;
  client_actor client;               ///< null: it is gone; of a detached job, nobody has attached to it
  std::vector<std::uint32_t> gang{}; ///< empty: it waits; behind those with which it begins, the nodes that it may grow onto
  std::size_t begins_with = 0;       ///< nodes of the gang
  std::string waits_for{};
  caf::actor_clock::time_point since{}; ///< it waits, or runs
  node_actor own{};
  coordinator_control coordinator{};
  std::optional<job_begins> begun{};
  job_result result{};     ///< once it has ended, until the client has taken what it wants
  traces_ptr recorded{};   ///< for whoever had that recorded, while it runs
  std::string record_to{}; ///< the file that was named
  bool ending = false;     ///< it is over, and this is being written down
  bool ended = false;
  bool rests = false;                       ///< shall not start before those that are gone have been missed
  bool starts = false;                      ///< its life is about to be decided, and its nodes are taken
  std::optional<returning_job> returning{}; ///< it runs, and its last coordinator was lost
  bool taken_over = false;                  ///< so, in this life
  bool told_here = false;                   ///< its client is told by the cluster, not by its coordinator
  std::uint64_t key = 0;                    ///< of its lanes, in this life
  bool orphan = false;       ///< its client was lost, or the coordinator, and the client has not come back; not of a detached job
  std::uint32_t clients = 0; ///< how often one has come back to it
  std::string what_now{}; ///< since the coordinator began again: "was in the queue ...", "ran ..., and goes on from DIR/step-40"
  std::uint32_t life = 0; ///< how often it has started
  std::shared_ptr<job_meter> meter{};

  /// The members that serve it, by number.
  std::vector<std::uint32_t> nodes(const std::vector<cluster_member>& members) const;
  /// The node's part in it; null: it is gone.
  node_actor actor_of(std::uint32_t member, const std::vector<cluster_member>& members) const {
    return member == 0 && own ? own : members[member].actor;
  }
  bool waits() const { return !ending && !coordinator && !starts; }
  bool runs() const { return !ended && coordinator; }
  std::string state() const { return coordinator ? "runs" : starts ? "starts" : "waits: " + waits_for; }
  /// Without the names of its nodes.
  job_view view(caf::actor_clock::time_point now) const;
  /// Once it has ended. `most`: floats that fit a message.
  weights_piece weights(std::uint64_t offset, std::uint64_t most) const;
  /// While it runs, of what was recorded last; once it has ended, of the whole.
  node_trace_piece trace(const node_trace_query& query) const;
};

} // namespace troupe::actors
