// SPDX-License-Identifier: BSD-3-Clause
// Waiting on the main thread: for signals, and for announcements of other threads.
#pragma once

#include <cstdint>

namespace troupe::apps {

/// Blocks SIGINT, SIGTERM and SIGCHLD in this thread and those it starts from now on, and delivers them through `wait`.
/// Construct it before any thread starts.
class signal_waiter {
public:
  signal_waiter();
  signal_waiter(const signal_waiter&) = delete;
  signal_waiter& operator=(const signal_waiter&) = delete;
  ~signal_waiter();

  struct woken {
    bool interrupted = false; ///< SIGINT or SIGTERM came
    bool child_ended = false;
    bool announced = false; ///< `announce` was called
  };
  /// Waits until something happens or `timeout_ms` (negative: for ever) has passed.
  woken wait(int timeout_ms);
  /// Whether SIGINT or SIGTERM has ever come.
  bool interrupted() const { return interrupted_; }
  /// Wakes `wait`. Thread-safe.
  void announce() const;

private:
  int signals_ = -1, events_ = -1;
  bool interrupted_ = false;
};

/// Ctrl-C where nothing needs cleaning up: from now on the first SIGINT or SIGTERM is noted, for a computation that polls
/// interrupt_noted(); the second ends the process at once. Not to be used with a signal_waiter.
void note_interrupts();
bool interrupt_noted();

} // namespace troupe::apps
