// SPDX-License-Identifier: BSD-3-Clause
// Backups of shards that come while a job runs, in place of those that were lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/decided_effects.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// A node that holds no copy of a shard which lacks one gets one. That is decided before anybody hears of it, and all nodes know
/// of the backup before the lead does. That it is whole is decided, too; only then it may take its shard's place.
///
/// A node that is back gets its copies at once. What lacks a copy a while after a loss gets it on any node.
///
/// Part of the coordinator, and used on its thread alone.
class late_backups {
public:
  /// `effects`: carries out what the machine, which is there once training runs, says of them. `lost`: nodes that have no part.
  late_backups(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places,
               const std::set<std::uint32_t>& lost, const std::unique_ptr<protocols::coordinator>& machine,
               const training_clock& clock, decided_effects& effects)
      : self_(self), setup_(setup), places_(places), lost_(lost), machine_(machine), clock_(clock), effects_(effects) {}

  void begin_on(std::uint32_t node);
  void begin_anywhere();
  /// To be told before its place is taken from it.
  void lost(protocols::holder_id backup);
  /// From a loss until copies begin anywhere: time for a node to come back. Twice as long after each copy that was lost before
  /// it was whole, for the next one may be lost likewise.
  std::chrono::seconds pause() const { return std::chrono::seconds{5U << failures_}; }
  void on(const protocols::caught_up& msg);

private:
  bool lacks_a_copy(std::uint32_t shard) const;
  bool may_copy(std::uint32_t shard, std::uint32_t node) const;
  std::uint32_t best_for(std::uint32_t shard) const;
  void begin(std::uint32_t shard, std::uint32_t node);
  void tell(const role_place& fresh);
  bool catches_up(protocols::holder_id backup) const;
  bool is_there(const role_place& backup) const { return places_.holders[backup.index].node == backup.node; }
  void say(const char* does, const role_place& backup, const std::string& why = {}) const;

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_places& places_;
  const std::set<std::uint32_t>& lost_; ///< nodes
  const std::unique_ptr<protocols::coordinator>& machine_;
  const training_clock& clock_; ///< the job's
  decided_effects& effects_;
  std::uint32_t failures_ = 0; ///< copies that were lost before they were whole, since the last that was
};

} // namespace troupe::actors
