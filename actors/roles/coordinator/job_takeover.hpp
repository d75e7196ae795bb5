// SPDX-License-Identifier: BSD-3-Clause
// What is found of a job that runs, by a coordinator that takes it over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/nodes/job_start.hpp"

namespace troupe::actors {

/// The nodes that have come back say what they have, and from then on obey this coordinator. With what is decided, that gives
/// where every role is, and which are lost.
///
/// Part of the coordinator, and used on its thread alone.
class job_takeover {
public:
  job_takeover(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places)
      : self_(self), setup_(setup), places_(places) {}

  /// `then` is called once all nodes that are here have answered, or are too late. By then the places are known.
  void begin(std::function<void()> then);

  /// Why the job cannot go on as it is: "shard 1 is on no node that has come back"; empty: it can.
  std::string lacks() const;
  // As long as it lacks nothing:
  /// Without what is given up.
  const protocols::ledger::course& decided() const { return decided_; }
  /// Copies that were decided on, and of which not every node here has heard: the lead has not, either. They begin anew.
  const std::vector<protocols::holder_id>& given_up() const { return given_up_; }
  const lead_word& lead() const { return *lead_; }
  /// What the node of the lead has prepared.
  const node_prepared& facts() const { return parts_.at(lead_node_).prepared; }
  /// Newest incarnations, of each worker: decided or alive.
  std::map<protocols::worker_id, protocols::incarnation> newest() const;
  /// Of the nodes, those that have not come back; and what the others have prepared.
  std::set<std::uint32_t> recall(job_start& start) const;
  /// Roles that died, or whose nodes have not come back; backups before shards, so that none of the dead takes a place.
  std::vector<role_lost> lost_roles() const;
  /// Between nodes that are here.
  std::vector<peer_unreachable> unreachable() const;
  std::vector<file_saved> saved_files() const;
  /// Nodes whose workers live, and take no part in the plan.
  std::vector<std::uint32_t> left_out() const;
  /// The last evaluations of which both the evaluator and the lead know, the oldest first.
  std::vector<std::pair<evaluation, held_point>> evaluations() const;
  /// What each node has not heard of what is decided.
  void tell_what_they_missed() const;

private:
  void find_places();
  void find_copies();
  bool is_given_up(std::uint32_t holder) const;
  std::set<std::uint32_t> living_workers() const;

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_places& places_;
  std::map<std::uint32_t, adopted_part> parts_; ///< by number of the node
  const lead_word* lead_ = nullptr;             ///< in `parts_`
  std::uint32_t lead_node_ = 0;
  bool has_evaluator_ = false;
  protocols::ledger::course decided_;
  std::vector<protocols::holder_id> given_up_;
};

} // namespace troupe::actors
