// SPDX-License-Identifier: BSD-3-Clause
// What a coordinator is started with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/node/place_roles.hpp"
#include "actors/roles/activity.hpp"
#include "actors/run_observer.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"
#include "protocols/ledger.hpp"

namespace troupe::actors {

/// Where jobs outlive their coordinator: what it decides, and with whom.
struct decided_job {
  ledger_actor ledger{}; ///< null: there is none, and all is decided at once
  bool alone = true;     ///< nobody else leads if the ledger fails, and the job goes on without it
  protocols::ledger::job_number number = 0;
  std::uint32_t life = 0;
  std::uint64_t term = 0; ///< in which this process leads
  double orphan_s = 0;    ///< how long the nodes' parts outlive this coordinator
  /// The job runs, and its last coordinator is lost: nodes whose actor is null have not come back.
  std::optional<protocols::ledger::course> taken_over{};
};

struct coordinator_setup {
  actors::job job;
  std::uint64_t job_key = 0;
  std::vector<member_node> nodes; ///< by number; the coordinator's own is the first, if it has a part
  std::shared_ptr<run_observer> observer;
  bool trace = false;                          ///< gather what every node was busy with
  std::vector<protocols::protocol> added = {}; ///< to the catalog, by this program
  bool rounds = false;                         ///< progress tells what each version was made of
  decided_job decided = {};
};

/// Names a job's lanes among all others, so that nodes of two runs cannot mix.
std::uint64_t random_job_key();

/// What a job says to the protocol's coordinator. `data_size`: training samples. Throws std::runtime_error where the checkpoint
/// with which it begins cannot be read.
protocols::coordinator_options coordinator_options_of(const job& job, std::int64_t data_size,
                                                      std::span<const protocols::protocol> added);

} // namespace troupe::actors
