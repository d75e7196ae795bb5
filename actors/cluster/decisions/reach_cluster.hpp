// SPDX-License-Identifier: BSD-3-Clause
// From the address of a coordinator to the cluster's actor.
#pragma once

#include <cstdint>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/expected.hpp>

#include "actors/messages/cluster.hpp"

namespace troupe::actors {

struct coordinator_address {
  std::string host;
  std::uint16_t port = 0;
  bool one_of_several = false; ///< others are tried if it does not lead, or does not answer at all
};

/// As `reach` does, and asks who leads. The error is caf::sec::runtime_error where a coordinator answers that does not lead, and
/// connection_timeout where nobody listens. Blocks: for a second and a half where nothing answers at all, if it is one of
/// several.
caf::expected<cluster_actor> reach_cluster(caf::actor_system& system, const coordinator_address& where);

} // namespace troupe::actors
