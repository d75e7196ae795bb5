// SPDX-License-Identifier: BSD-3-Clause
// CAF's testing scheduler for tests whose actors have threads of their own, too.
#pragma once

#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>

namespace troupe::actors {

/// CAF's testing scheduler knows one thread, and a detached actor enqueues on another: what that enqueues waits until the test's
/// takes it.
class scheduler_of_two final : public caf::scheduler::test_coordinator {
public:
  using test_coordinator::test_coordinator;

  /// Returns how many jobs there were.
  std::size_t run_all() {
    for (auto* each : take())
      jobs.push_back(each);
    return run();
  }

protected:
  void enqueue(caf::resumable* job) override {
    if (std::this_thread::get_id() == owner_)
      return test_coordinator::enqueue(job);
    const std::lock_guard lock{mutex_};
    from_elsewhere_.push_back(job);
  }

private:
  std::vector<caf::resumable*> take() {
    const std::lock_guard lock{mutex_};
    return std::exchange(from_elsewhere_, {});
  }

  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::vector<caf::resumable*> from_elsewhere_;
};

struct testing_config : caf::actor_system_config {
  testing_config() {
    module_factories.push_back(
        [](caf::actor_system& system) -> caf::actor_system::module* { return new scheduler_of_two(system); });
    set("caf.logger.console.verbosity", "quiet");
    set("caf.logger.file.verbosity", "quiet");
  }
};

} // namespace troupe::actors
