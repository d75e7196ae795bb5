// SPDX-License-Identifier: BSD-3-Clause
// A pipe that signal handlers write to, under one poll with the terminal.
#include "apps/console/keys.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace troupe::apps::console {

namespace {

/// Made once and never closed: a handler on another thread may still write when a waiter is destroyed.
std::array<int, 2> noted{-1, -1};

void note(int signal) {
  const auto before = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const auto put = write(noted[1], &byte, 1);
  errno = before;
}

} // namespace

key_waiter::key_waiter(std::span<const int> signals) : signals_(signals.begin(), signals.end()), before_(signals.size()) {
  if (noted[0] < 0 && pipe2(noted.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
  for (char old = 0; read(noted[0], &old, 1) == 1;) // left over from the last waiter
    ;
  take();
}

key_waiter::~key_waiter() {
  give_back();
}

key_waiter::woken key_waiter::wait(int timeout_ms) {
  pollfd events[] = {{STDIN_FILENO, POLLIN, 0}, {noted[0], POLLIN, 0}};
  const auto ready = poll(events, 2, timeout_ms);
  if (char signal = 0; read(noted[0], &signal, 1) == 1)
    return {.signal = signal};
  return {.key = ready > 0 && events[0].revents != 0};
}

void key_waiter::carry_out(int signal) {
  give_back();
  raise(signal);
  take();
}

void key_waiter::take() {
  struct sigaction ours {};
  ours.sa_handler = note;
  ours.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals_.size(); ++i)
    sigaction(signals_[i], &ours, &before_[i]);
}

void key_waiter::give_back() {
  for (std::size_t i = 0; i < signals_.size(); ++i)
    sigaction(signals_[i], &before_[i], nullptr);
}

} // namespace troupe::apps::console
