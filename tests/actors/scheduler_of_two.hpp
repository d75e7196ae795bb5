// SPDX-License-Identifier: BSD-3-Clause
// CAF's testing scheduler for tests whose actors have threads of their own, too.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <caf/action.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/test_actor_clock.hpp>
#include <caf/disposable.hpp>
#include <caf/scheduler/test_coordinator.hpp>

namespace troupe::actors {

/// CAF's testing clock, for several threads.
class clock_of_two final : public caf::detail::test_actor_clock {
public:
  template <class Do>
  auto alone(Do what) const {
    const std::lock_guard lock{mutex_};
    return what();
  }
  time_point now() const noexcept override {
    return alone([this] { return test_actor_clock::now(); });
  }
  caf::disposable schedule_periodically(time_point first_run, caf::action f, duration_type period) override {
    return alone([&] { return test_actor_clock::schedule_periodically(first_run, std::move(f), period); });
  }

private:
  mutable std::recursive_mutex mutex_; // what it triggers looks at it
};

/// CAF's testing scheduler knows one thread, and a detached actor enqueues on another: what that enqueues waits until the test's
/// takes it.
class scheduler_of_two final : public caf::scheduler::test_coordinator {
public:
  using test_coordinator::test_coordinator;

  clock_of_two& clock() noexcept override { return clock_; }
  bool trigger_timeout() {
    return clock_.alone([this] { return clock_.trigger_timeout(); });
  }
  std::size_t trigger_timeouts() {
    return clock_.alone([this] { return clock_.trigger_timeouts(); });
  }
  std::size_t advance_time(std::chrono::nanoseconds by) {
    return clock_.alone([&] { return clock_.advance_time(by); });
  }

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

  clock_of_two clock_;
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
