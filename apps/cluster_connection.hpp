// SPDX-License-Identifier: BSD-3-Clause
// How a command reaches a cluster that is there already.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/system.hpp"
#include "apps/config/cluster_file.hpp"

namespace troupe::apps {

/// An actor system of its own, and the cluster's actor on the coordinator's node, if that answers. Waits for the connection; for
/// one that is taken and not answered ten seconds, and says so on standard error.
class cluster_connection {
public:
  /// `given_up`: asked now and then while it waits.
  explicit cluster_connection(const config::cluster& where, std::function<bool()> given_up = {});
  /// One whose file is elsewhere, such as that of a run on this host; it has no certificates.
  cluster_connection(const std::string& host, std::uint16_t port);

  caf::actor_system& system() { return system_; }
  explicit operator bool() const { return static_cast<bool>(cluster_); }
  const actors::cluster_actor& cluster() const { return *cluster_; }
  /// Whether that actor is still there; where the connection was lost it is looked for once more.
  bool lives();
  /// Where there is none: "cannot reach ...".
  const std::string& why_not() const { return why_not_; }

private:
  cluster_connection(const actors::system_options& options, const std::string& what, const std::string& host, std::uint16_t port,
                     std::function<bool()> given_up = {});

  void reach();

  const std::string what_, host_;
  const std::uint16_t port_;
  const std::function<bool()> given_up_;
  actors::system_config config_;
  caf::actor_system system_;
  caf::expected<actors::cluster_actor> cluster_;
  std::string why_not_;
};

} // namespace troupe::apps
