// SPDX-License-Identifier: BSD-3-Clause
// Reaching a cluster's coordinator.
#include "apps/cluster_connection.hpp"

#include <fmt/format.h>

namespace troupe::apps {

namespace {

/// Message types are registered before the first actor system is made.
actors::system_options options_for(const config::cluster& where) {
  actors::init_message_types();
  return {.networked = true, .cluster_key = where.name, .security = where.security.files()};
}

} // namespace

cluster_connection::cluster_connection(const config::cluster& where)
    : config_(options_for(where)), system_(config_),
      cluster_(actors::reach<actors::cluster_actor>(system_, where.coordinator().host, where.coordinator().port)) {
  const auto& coordinator = where.coordinator();
  if (!cluster_)
    why_not_ = fmt::format("cannot reach the cluster's coordinator, node {} at {}:{}: {}", coordinator.name, coordinator.host,
                           coordinator.port, actors::explain(cluster_.error()));
}

} // namespace troupe::apps
