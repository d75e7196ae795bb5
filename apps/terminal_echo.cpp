// SPDX-License-Identifier: BSD-3-Clause
// Switches the echo off and on.
#include "apps/terminal_echo.hpp"

#include <utility>

#include <unistd.h>

namespace troupe::apps {

namespace {

/// A background process that changes its terminal is stopped.
bool in_foreground() {
  return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

} // namespace

echo_off::echo_off() {
  termios now{};
  if (!in_foreground() || tcgetattr(STDERR_FILENO, &now) != 0 || (now.c_lflag & ECHO) == 0)
    return;
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  now.c_lflag |= NOFLSH; // else Ctrl-C discards queued lines of a drawing, and the next drawing erases too much
  tcsetattr(STDERR_FILENO, TCSANOW, &now);
}

void echo_off::drop_typed() {
  if (before_ && in_foreground())
    tcflush(STDERR_FILENO, TCIFLUSH);
}

void echo_off::restore() {
  if (const auto before = std::exchange(before_, std::nullopt); before && in_foreground())
    tcsetattr(STDERR_FILENO, TCSANOW, &*before);
}

} // namespace troupe::apps
