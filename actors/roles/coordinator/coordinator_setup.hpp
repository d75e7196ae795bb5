// SPDX-License-Identifier: BSD-3-Clause
// What a coordinator is started with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/node/place_roles.hpp"
#include "actors/roles/activity.hpp"
#include "actors/run_observer.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

struct coordinator_setup {
  job what;
  std::uint64_t job_key = 0;
  std::vector<member_node> nodes; ///< the coordinator's own first
  std::shared_ptr<run_observer> observer;
  bool trace = false;                          ///< gather what every node was busy with
  std::vector<protocols::protocol> added = {}; ///< to the catalog, by this program
  bool rounds = false;                         ///< progress tells what each version was made of
};

/// Names a job's lanes among all others, so that nodes of two runs cannot mix.
std::uint64_t random_job_key();

/// What a job says to the protocol's coordinator. `data_size`: training samples. Throws std::runtime_error where the checkpoint
/// with which it begins cannot be read.
protocols::coordinator_options coordinator_options_of(const job& what, std::int64_t data_size,
                                                      std::span<const protocols::protocol> added);

} // namespace troupe::actors
