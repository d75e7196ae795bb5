// SPDX-License-Identifier: BSD-3-Clause
// Connects to a cluster's coordinator.
#include "apps/cluster_connection.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

#include <caf/abstract_actor.hpp>
#include <fmt/format.h>

namespace troupe::apps {

namespace {

/// A coordinator that is stopped or overloaded for a moment accepts connections but does not answer. CAF itself waits only for
/// one heartbeat.
constexpr std::chrono::seconds longest_wait{10};

/// Message types are registered before the first actor system is made.
actors::system_options registered(actors::system_options options) {
  actors::init_message_types();
  options.networked = true;
  return options;
}

} // namespace

cluster_connection::cluster_connection(const actors::system_options& options, const std::string& peer, const std::string& host,
                                       std::uint16_t port, std::function<bool()> given_up)
    : peer_(peer), host_(host), port_(port), given_up_(std::move(given_up)), config_(registered(options)), system_(config_),
      cluster_(caf::error{}) {
  reach();
}

void cluster_connection::reach() {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  bool silent = false;
  std::string kept_out;
  for (;;) {
    cluster_ = actors::reach<actors::cluster_actor>(system_, host_, port_);
    if (cluster_)
      return;
    if (!silent)
      kept_out = actors::what_keeps_out(system_, cluster_.error(), host_, port_);
    if (!kept_out.empty() || cluster_.error() != caf::sec::connection_timeout || std::chrono::steady_clock::now() >= until
        || (given_up_ && given_up_()))
      break;
    if (!std::exchange(silent, true))
      fmt::print(stderr, "waiting for {} at {}:{}, which accepts connections but does not answer (at most {} s)\n", peer_, host_,
                 port_, longest_wait.count());
  }
  const auto& e = cluster_.error();
  const auto why = !kept_out.empty() ? kept_out
                   : e == caf::sec::connection_closed
                       ? std::string{"the listener there hung up; is it the port of a cluster's coordinator, of your own user?"}
                   : e == caf::sec::connection_timeout
                       ? fmt::format("it accepts connections and has not answered for {} s", longest_wait.count())
                       : actors::explain(e);
  why_not_ = fmt::format("cannot reach {} at {}:{}: {}", peer_, host_, port_, why);
}

bool cluster_connection::alive() {
  const auto gone = [this] { return (*cluster_)->getf(caf::abstract_actor::is_terminated_flag); };
  if (!cluster_ || gone())
    reach();
  return static_cast<bool>(cluster_);
}

cluster_connection::cluster_connection(const config::cluster& where, std::function<bool()> given_up)
    : cluster_connection({.cluster_key = where.name, .security = where.security.files()},
                         fmt::format("the cluster's coordinator, node {}", where.coordinator().name), where.coordinator().host,
                         where.coordinator().port, std::move(given_up)) {}

cluster_connection::cluster_connection(const std::string& host, std::uint16_t port)
    : cluster_connection({}, "a cluster's coordinator", host, port) {}

} // namespace troupe::apps
