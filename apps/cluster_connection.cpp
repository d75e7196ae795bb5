// SPDX-License-Identifier: BSD-3-Clause
// Reaching a cluster's coordinator.
#include "apps/cluster_connection.hpp"

#include <fmt/format.h>

namespace troupe::apps {

namespace {

/// Message types are registered before the first actor system is made.
actors::system_options registered(actors::system_options options) {
  actors::init_message_types();
  options.networked = true;
  return options;
}

} // namespace

cluster_connection::cluster_connection(const actors::system_options& options, const std::string& what, const std::string& host, std::uint16_t port)
    : config_(registered(options)), system_(config_), cluster_(actors::reach<actors::cluster_actor>(system_, host, port)) {
  if (!cluster_)
    why_not_ = fmt::format("cannot reach {} at {}:{}: {}", what, host, port, actors::explain(cluster_.error()));
}

cluster_connection::cluster_connection(const config::cluster& where)
    : cluster_connection({.cluster_key = where.name, .security = where.security.files()},
                         fmt::format("the cluster's coordinator, node {}", where.coordinator().name), where.coordinator().host,
                         where.coordinator().port) {}

cluster_connection::cluster_connection(const std::string& host, std::uint16_t port) : cluster_connection({}, "a cluster's coordinator", host, port) {}

} // namespace troupe::apps
