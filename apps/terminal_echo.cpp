// SPDX-License-Identifier: BSD-3-Clause
// Taking the echo away, and giving it back.
#include "apps/terminal_echo.hpp"

#include <utility>

#include <unistd.h>

namespace troupe::apps {

namespace {

/// Who changes a terminal from its background is stopped.
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
  now.c_lflag |= NOFLSH; // else Ctrl-C drops lines of a drawing that are on their way, and the next one erases too much
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
