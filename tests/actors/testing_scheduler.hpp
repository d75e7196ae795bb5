// SPDX-License-Identifier: BSD-3-Clause
// Actors that run when a test says so.
#pragma once

#include <caf/actor_system_config.hpp>

namespace troupe::tests {

/// Of an actor system whose scheduler is a caf::scheduler::test_coordinator, and which logs nothing.
struct testing_config : caf::actor_system_config {
  testing_config() {
    set("caf.scheduler.policy", "testing");
    set("caf.logger.console.verbosity", "quiet");
    set("caf.logger.file.verbosity", "quiet");
  }
};

} // namespace troupe::tests
