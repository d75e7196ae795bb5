// SPDX-License-Identifier: BSD-3-Clause
// Reaching a cluster's coordinator.
#include "apps/cluster_connection.hpp"

#include <caf/abstract_actor.hpp>
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
    : what_(what), host_(host), port_(port), config_(registered(options)), system_(config_), cluster_(caf::error{}) {
  reach();
}

void cluster_connection::reach() {
  cluster_ = actors::reach<actors::cluster_actor>(system_, host_, port_);
  if (cluster_)
    return;
  const auto& e = cluster_.error();
  why_not_ = fmt::format("cannot reach {} at {}:{}: {}", what_, host_, port_,
                         e == caf::sec::connection_closed ? "whoever listens there hung up; is it the port of a cluster's coordinator?"
                                                          : actors::explain(e));
}

bool cluster_connection::lives() {
  const auto gone = [this] {
    return (*cluster_)->getf(caf::abstract_actor::is_terminated_flag);
  };
  if (!cluster_ || gone())
    reach();
  return static_cast<bool>(cluster_);
}

cluster_connection::cluster_connection(const config::cluster& where)
    : cluster_connection({.cluster_key = where.name, .security = where.security.files()},
                         fmt::format("the cluster's coordinator, node {}", where.coordinator().name), where.coordinator().host,
                         where.coordinator().port) {}

cluster_connection::cluster_connection(const std::string& host, std::uint16_t port) : cluster_connection({}, "a cluster's coordinator", host, port) {}

} // namespace troupe::apps
