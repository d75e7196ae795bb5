// SPDX-License-Identifier: BSD-3-Clause
// Ends an actor only after its queue is drained.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>

#include "actors/roles/activity.hpp"
#include "kernels/backend.hpp"

namespace troupe::actors {

/// Keeps `state` alive until `queue` has run its present work, or is lost. No thread waits: a separate actor holds the state.
inline void keep_until_drained(caf::actor_system& system, kernels::backend& queue, std::shared_ptr<void> state) {
  constexpr std::chrono::seconds deadline{10}; // a lost device never answers
  auto keeper = system.spawn([state = std::move(state), deadline](caf::event_based_actor* self) mutable -> caf::behavior {
    self->delayed_send(self, deadline, std::uint64_t{0});
    return {[self, state = std::move(state)](std::uint64_t) { self->quit(); }};
  });
  try {
    queue.notify([keeper] { caf::anon_send(keeper, std::uint64_t{0}); });
  } catch (const kernels::device_error&) {
    caf::anon_send(keeper, std::uint64_t{0});
  }
}

/// The state of an actor that feeds a queue. Enqueued work refers to the state, so it lives until that has run, even if the actor
/// has ended. `Handle`: the actor's interface. `State`: constructed with (measured_pointer<Handle>, Setup), and has `queue()`.
template <class Handle, class State, class Setup>
class drain_before_exit {
public:
  static inline const char* name = State::name;

  drain_before_exit(measured_pointer<Handle> self, Setup setup)
      : system_(self->home_system()), state_(std::make_shared<State>(self, std::move(setup))) {}
  drain_before_exit(const drain_before_exit&) = delete;
  drain_before_exit& operator=(const drain_before_exit&) = delete;
  ~drain_before_exit() {
    if (auto queue = state_->queue(); !queue->on_host())
      keep_until_drained(system_, *queue, std::move(state_));
  }

  typename Handle::behavior_type make_behavior() { return state_->make_behavior(); }

private:
  caf::actor_system& system_;
  std::shared_ptr<State> state_;
};

} // namespace troupe::actors
