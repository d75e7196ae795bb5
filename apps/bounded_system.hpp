// SPDX-License-Identifier: BSD-3-Clause
// An actor system whose end does not hang.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/system.hpp"

namespace troupe::apps {

/// Ends with all its actors and threads, as a caf::actor_system does. A thread that stands still, in a device driver or on a hung
/// disk, would hold that up for ever: after ten seconds the system is left behind with it.
class bounded_system {
public:
  /// `left_behind`: told of it, with the names of the threads that have not ended. Throws as system_config.
  bounded_system(const actors::system_options& options, std::function<void(const std::string&)> left_behind);
  bounded_system(const bounded_system&) = delete;
  bounded_system& operator=(const bounded_system&) = delete;
  ~bounded_system();

  actors::system_config& config() { return parts_->config; }
  caf::actor_system& system() { return parts_->system; }

  /// Whether this process has left one behind. Its threads may still run, so a program then ends without destructors.
  static bool any_left_behind();

private:
  struct parts {
    explicit parts(const actors::system_options& options) : config(options), system(config) {}
    actors::system_config config;
    caf::actor_system system;
  };

  std::unique_ptr<parts> parts_;
  std::function<void(const std::string&)> left_behind_;
};

} // namespace troupe::apps
