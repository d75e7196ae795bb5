// SPDX-License-Identifier: BSD-3-Clause
// Backups of shards that come while a job runs, on nodes that are back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/decided_effects.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// A node that holds no copy of a shard which lacks one gets one. That is decided before anybody hears of it, and all nodes know
/// of the backup before the lead does. That it is whole is decided, too; only then it may take its shard's place.
///
/// Part of the coordinator, and used on its thread alone.
class late_backups {
public:
  /// `effects`: carries out what the machine, which is there once training runs, says of them.
  late_backups(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places,
               const std::unique_ptr<protocols::coordinator>& machine, const training_clock& clock, decided_effects& effects)
      : self_(self), setup_(setup), places_(places), machine_(machine), clock_(clock), effects_(effects) {}

  /// `others`: all nodes that take part besides this one.
  void begin_on(std::uint32_t node, const std::vector<node_actor>& others);
  void on(const protocols::caught_up& msg);

private:
  bool lacks_a_copy(std::uint32_t shard) const;
  bool may_copy(std::uint32_t shard, std::uint32_t node) const;
  void begin(std::uint32_t shard, std::uint32_t node, const std::vector<node_actor>& others);
  void tell(const role_place& fresh, const std::vector<node_actor>& others);
  bool catches_up(protocols::holder_id backup) const;
  bool is_there(const role_place& backup) const { return places_.holders[backup.index].node == backup.node; }
  void say(const char* does, const role_place& backup, const std::string& why = {}) const;

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_places& places_;
  const std::unique_ptr<protocols::coordinator>& machine_;
  const training_clock& clock_; ///< the job's
  decided_effects& effects_;
};

} // namespace troupe::actors
