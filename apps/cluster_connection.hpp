// SPDX-License-Identifier: BSD-3-Clause
// How a command reaches a running cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/cluster/decisions/reach_cluster.hpp"
#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/system.hpp"
#include "apps/config/cluster_file.hpp"

namespace troupe::apps {

/// Where a cluster's coordinators listen.
std::vector<actors::coordinator_address> addresses_of(const config::cluster& where);

/// An actor system, and the cluster's actor on the coordinator's node, if that answers. The constructor waits for the connection,
/// up to ten seconds for one that is accepted but not answered, with a note on standard error.
class cluster_connection {
public:
  /// `given_up` is polled while it waits.
  explicit cluster_connection(const config::cluster& where, std::function<bool()> given_up = {});
  /// A cluster without a file here, such as that of a run on this host; it uses no certificates.
  cluster_connection(const std::string& host, std::uint16_t port);

  caf::actor_system& system() { return system_; }
  explicit operator bool() const { return static_cast<bool>(cluster_); }
  const actors::cluster_actor& cluster() const { return *cluster_; }
  /// Whether that actor is still there; reconnects once where the connection was lost.
  bool alive();
  /// "cannot reach ...", where there is no connection.
  const std::string& why_not() const { return why_not_; }

private:
  cluster_connection(const actors::system_options& options, const std::string& peer,
                     std::vector<actors::coordinator_address> addresses, std::function<bool()> given_up = {});

  void reach();
  /// The next one that is tried, in turn.
  const actors::coordinator_address& next();

  const std::string peer_;
  const std::vector<actors::coordinator_address> addresses_;
  std::size_t tried_ = 0;
  const std::function<bool()> given_up_;
  actors::system_config config_;
  caf::actor_system system_;
  caf::expected<actors::cluster_actor> cluster_;
  std::string why_not_;
};

} // namespace troupe::apps
