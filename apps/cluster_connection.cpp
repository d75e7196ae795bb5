// SPDX-License-Identifier: BSD-3-Clause
// Connects to a cluster's coordinator.
#include "apps/cluster_connection.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>

#include <caf/abstract_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::apps {

namespace {

/// A coordinator that is stopped or overloaded for a moment accepts connections but does not answer. CAF itself waits only for
/// one heartbeat.
constexpr std::chrono::seconds longest_wait{10};
/// Of several, of which none leads yet.
constexpr std::chrono::milliseconds between_dials{100};

/// Message types are registered before the first actor system is made.
actors::system_options registered(actors::system_options options) {
  actors::init_message_types();
  options.networked = true;
  return options;
}

} // namespace

std::vector<actors::coordinator_address> addresses_of(const config::cluster& where) {
  std::vector<actors::coordinator_address> out;
  const auto all = where.coordinators();
  for (const auto* each : all)
    out.push_back({each->host, each->port, all.size() > 1});
  return out;
}

cluster_connection::cluster_connection(const actors::system_options& options, const std::string& peer,
                                       std::vector<actors::coordinator_address> addresses, std::function<bool()> given_up)
    : peer_(peer), addresses_(std::move(addresses)), given_up_(std::move(given_up)), config_(registered(options)),
      system_(config_), cluster_(caf::error{}) {
  reach();
}

void cluster_connection::reach() {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  bool silent = false;
  std::string kept_out;
  std::map<std::string, std::string> refused; ///< by which of several, and why
  for (;;) {
    const auto& at = next();
    cluster_ = actors::reach_cluster(system_, at);
    if (cluster_)
      return;
    if (at.one_of_several) {
      const auto& e = cluster_.error();
      const bool met = e != caf::sec::runtime_error && e != caf::sec::connection_timeout;
      kept_out = met ? actors::what_keeps_out(system_, e, at.host, at.port) : "";
      refused.insert_or_assign(fmt::format("{}:{}", at.host, at.port), kept_out.empty() ? actors::explain(e) : kept_out);
      if (!kept_out.empty() || std::chrono::steady_clock::now() >= until || (given_up_ && given_up_()))
        break;
      std::this_thread::sleep_for(between_dials);
      continue;
    }
    if (!silent)
      kept_out = actors::what_keeps_out(system_, cluster_.error(), at.host, at.port);
    if (!kept_out.empty() || cluster_.error() != caf::sec::connection_timeout || std::chrono::steady_clock::now() >= until
        || (given_up_ && given_up_()))
      break;
    if (!std::exchange(silent, true))
      fmt::print(stderr, "waiting for {} at {}:{}, which accepts connections but does not answer (at most {} s)\n", peer_,
                 at.host, at.port, longest_wait.count());
  }
  if (!refused.empty()) {
    std::vector<std::string> each;
    for (const auto& [at, why] : refused)
      each.push_back(fmt::format("{}: {}", at, why));
    why_not_ = fmt::format("cannot reach {}: {}", peer_, fmt::join(each, "; "));
    return;
  }
  const auto& e = cluster_.error();
  const auto why = !kept_out.empty() ? kept_out
                   : e == caf::sec::connection_closed
                       ? std::string{"the listener there hung up; is it the port of a cluster's coordinator, of your own user?"}
                   : e == caf::sec::connection_timeout
                       ? fmt::format("it accepts connections and has not answered for {} s", longest_wait.count())
                       : actors::explain(e);
  const auto& at = addresses_.front();
  why_not_ = fmt::format("cannot reach {} at {}:{}: {}", peer_, at.host, at.port, why);
}

const actors::coordinator_address& cluster_connection::next() {
  return addresses_[tried_++ % addresses_.size()];
}

bool cluster_connection::alive() {
  const auto gone = [this] { return (*cluster_)->getf(caf::abstract_actor::is_terminated_flag); };
  if (!cluster_ || gone())
    reach();
  return static_cast<bool>(cluster_);
}

cluster_connection::cluster_connection(const config::cluster& where, std::function<bool()> given_up)
    : cluster_connection({.cluster_key = where.name, .security = where.security.files()},
                         where.coordinators().size() == 1
                             ? fmt::format("the cluster's coordinator, node {}", where.coordinator().name)
                             : std::string{"the coordinator that leads the cluster"},
                         addresses_of(where), std::move(given_up)) {}

cluster_connection::cluster_connection(const std::string& host, std::uint16_t port)
    : cluster_connection({}, "a cluster's coordinator", {{host, port}}) {}

} // namespace troupe::apps
