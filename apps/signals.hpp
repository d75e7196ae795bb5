// SPDX-License-Identifier: BSD-3-Clause
// Waiting on the main thread: for signals, and for announcements of other threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::apps {

/// Blocks SIGINT, SIGTERM and SIGCHLD in this thread and those it starts from now on, and delivers them through `wait`.
/// Construct it before any thread starts.
class signal_waiter {
public:
  signal_waiter();
  /// For a library, in whose process signals are another's: it blocks and takes none. `interrupt` stands for Ctrl-C, and `wait`
  /// returns ten times a second with `child_ended`, for the caller to look.
  struct without_signals {};
  explicit signal_waiter(without_signals);
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
  /// As if SIGINT had come. Thread-safe.
  void interrupt();
  /// Whether this process is ours to end.
  bool takes_signals() const { return signals_ >= 0; }

private:
  void open_events();

  int signals_ = -1, events_ = -1;
  std::atomic<bool> asked_ = false; ///< by `interrupt`
  bool interrupted_ = false;
};

/// Ctrl-C where nothing needs cleaning up: from now on the first SIGINT or SIGTERM is noted, for a computation that polls
/// interrupt_noted(); the second ends the process at once. Not to be used with a signal_waiter.
void note_interrupts();
bool interrupt_noted();

} // namespace troupe::apps
