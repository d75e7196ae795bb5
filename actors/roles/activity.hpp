// SPDX-License-Identifier: BSD-3-Clause
// What an actor is doing, and how much: kept by its base class, for its reports and for actors that wait for one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <pthread.h>

#include "actors/messages/inspection.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

/// State and figures of one actor. The actor's own thread writes; `peek` may be called on any thread, because an actor inside a
/// handler cannot answer. Entering the present state again changes nothing.
class activity {
public:
  explicit activity(const char* state = "idle") { enter(state); }

  /// `state`: a string literal.
  void enter(const char* state) {
    if (std::string_view{state} != state_.load(std::memory_order_relaxed))
      again(state);
  }
  /// The same state begins again.
  void again(const char* state) {
    state_.store(state, std::memory_order_relaxed);
    since_ns_.store(steady_ns(), std::memory_order_relaxed);
  }
  /// An error that did not end the actor.
  void failed(std::string why) { last_error_ = std::move(why); }

  /// Its report, without the fields that its role adds. `waiting`: messages in its mailbox.
  actor_report report(std::size_t waiting) const {
    auto out = peek();
    const auto now = steady_ns();
    const auto seconds = static_cast<double>(std::max<std::int64_t>(1, now - recent_.at_ns)) * 1e-9;
    const auto here = now - running_since_ns_.load(std::memory_order_relaxed); // of the present run
    out.mailbox = waiting;
    out.messages -= std::min(out.messages, out.mailbox);
    out.messages_per_s = static_cast<double>(received_.load(std::memory_order_relaxed) - recent_.messages) / seconds;
    out.busy = std::clamp(static_cast<double>(busy_ns_.load(std::memory_order_relaxed) + here - recent_.busy_ns) * 1e-9 / seconds,
                          0.0, 1.0);
    out.last_error = last_error_;
    return out;
  }

  /// The part of the report that any thread can see.
  actor_report peek() const {
    actor_report out;
    const auto now = steady_ns();
    const auto running_since = running_since_ns_.load(std::memory_order_relaxed);
    out.state = state_.load(std::memory_order_relaxed);
    out.since_s = static_cast<double>(now - since_ns_.load(std::memory_order_relaxed)) * 1e-9;
    out.messages = received_.load(std::memory_order_relaxed);
    out.handler_s = running_since == 0 ? 0 : static_cast<double>(now - running_since) * 1e-9;
    return out;
  }

  // Called by the actor's base class. A run handles at most this many messages, so that a mailbox that is never empty does not
  // hide how long a handler takes.
  static constexpr std::size_t messages_per_run = 32;

  void received() { received_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns the time, for `ended`.
  std::int64_t begins() {
    const auto now = steady_ns();
    if (now - last_.at_ns >= window_ns) {
      recent_ = last_;
      last_ = {now, busy_ns_.load(std::memory_order_relaxed), received_.load(std::memory_order_relaxed)};
    }
    running_since_ns_.store(now, std::memory_order_relaxed);
    return now;
  }
  /// Another thread may already have begun the next run.
  void ended(std::int64_t began) {
    busy_ns_.fetch_add(steady_ns() - began, std::memory_order_relaxed);
    running_since_ns_.compare_exchange_strong(began, 0, std::memory_order_relaxed);
  }

private:
  /// Figures at one time.
  struct mark {
    std::int64_t at_ns = steady_ns(), busy_ns = 0;
    std::uint64_t messages = 0;
  };
  static constexpr std::int64_t window_ns = 1'000'000'000; ///< rates cover at least this time

  std::atomic<const char*> state_{""};
  std::atomic<std::int64_t> since_ns_{0}, running_since_ns_{0}, busy_ns_{0};
  std::atomic<std::uint64_t> received_{0};
  mark recent_, last_;
  std::string last_error_;
};

/// Part of every actor that answers inspect_query.
struct measured {
  virtual ~measured() = default;
  activity doing;
};

/// The base class of an actor with interface `Handle`: counts its messages and the time in its handlers, with one clock reading
/// before a run and one after it.
template <class Handle>
class measured_actor : public Handle::impl, public measured {
public:
  using Handle::impl::enqueue;
  explicit measured_actor(caf::actor_config& config) : Handle::impl(config) {}

  bool enqueue(caf::mailbox_element_ptr element, caf::execution_unit* on) override {
    doing.received();
    return Handle::impl::enqueue(std::move(element), on);
  }
  caf::resumable::resume_result resume(caf::execution_unit* on, std::size_t most) override {
    const auto began = doing.begins();
    const auto how = Handle::impl::resume(on, std::min<std::size_t>(most, activity::messages_per_run));
    doing.ended(began);
    return how;
  }
  actor_report report() { return doing.report(this->mailbox().size()); }
  /// For a detached actor, on its thread: what that is called in `top -H`, gdb and perf, by its first 15 characters.
  void name_thread(const std::string& id) { pthread_setname_np(pthread_self(), id.substr(0, 15).c_str()); }
};

/// For a state class: the pointer that constructs it, and the type to spawn.
template <class Handle>
using measured_pointer = measured_actor<Handle>*;
template <class Handle, class State>
using measured_impl = caf::stateful_actor<State, measured_actor<Handle>>;

/// The part of the report that is visible from outside, for an actor of this process that does not answer; false if there is
/// none.
template <class Actor>
bool peek(const Actor& actor, actor_report& out) {
  const auto* seen = dynamic_cast<const measured*>(caf::actor_cast<caf::abstract_actor*>(actor));
  if (seen != nullptr)
    out = seen->doing.peek();
  return seen != nullptr;
}

} // namespace troupe::actors
