// SPDX-License-Identifier: BSD-3-Clause
// The main thread of a run: waiting for the result and for Ctrl-C.
#pragma once

#include <functional>

#include <unistd.h>

#include "apps/commands.hpp"
#include "apps/run_display.hpp"
#include "apps/signals.hpp"

namespace troupe::apps {

/// The first Ctrl-C calls `interrupt`, which asks for an orderly end; the second ends the process at once, or in a library the
/// wait, with a result that says so. Where the first takes long, a message says so.
inline actors::job_result await_result(
    run_display& display, signal_waiter& signals, const std::function<void()>& interrupt,
    const std::function<void()>& child_ended = [] {}) {
  constexpr int patience_ms = 1000;
  bool interrupted = false, said = false;
  for (;;) {
    if (auto result = display.take_result())
      return std::move(*result);
    const auto woken = signals.wait(interrupted && !said ? patience_ms : -1);
    if (woken.child_ended)
      child_ended();
    if (woken.interrupted)
      display.drop_typed();
    if (woken.interrupted && interrupted) {
      display.leave_terminal();
      if (!signals.takes_signals()) {
        actors::job_result given_up;
        given_up.failed = given_up.interrupted = true;
        given_up.reason = "interrupted twice, so its results were not collected";
        return given_up;
      }
      _exit(exit_interrupted); // the kernel ends the children with this process
    }
    if (woken.interrupted) {
      interrupted = true;
      interrupt();
    } else if (interrupted && !said && !woken.announced && !woken.child_ended) {
      said = true;
      display.on_event("interrupted; collecting the results so far; Ctrl-C again ends without them");
    }
  }
}

} // namespace troupe::apps
