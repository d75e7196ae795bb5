// SPDX-License-Identifier: BSD-3-Clause
// signalfd and eventfd under one poll.
#include "apps/signals.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "apps/commands.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

signal_waiter::signal_waiter() {
  // Ends the threads that OpenBLAS started when it was loaded: they block no signals and could receive ours.
  kernels::open_backend({});
  sigset_t ours;
  sigemptyset(&ours);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD})
    sigaddset(&ours, signal);
  pthread_sigmask(SIG_BLOCK, &ours, nullptr);
  signals_ = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0)
    throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
  open_events();
}

signal_waiter::signal_waiter(without_signals) {
  open_events();
}

void signal_waiter::open_events() {
  events_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (events_ < 0)
    throw std::system_error(errno, std::generic_category(), "cannot wait for events");
}

signal_waiter::~signal_waiter() {
  if (signals_ >= 0)
    close(signals_);
  close(events_);
}

signal_waiter::woken signal_waiter::wait(int timeout_ms) {
  constexpr int look_ms = 100;
  if (!takes_signals() && (timeout_ms < 0 || timeout_ms > look_ms))
    timeout_ms = look_ms;
  pollfd fds[] = {{signals_, POLLIN, 0}, {events_, POLLIN, 0}}; // poll passes over a negative descriptor
  poll(fds, 2, timeout_ms);
  woken result;
  result.child_ended = !takes_signals();
  if (asked_.exchange(false))
    result.interrupted = interrupted_ = true;
  signalfd_siginfo info;
  while (takes_signals() && read(signals_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD)
      result.child_ended = true;
    else
      result.interrupted = interrupted_ = true;
  }
  std::uint64_t count = 0;
  result.announced = read(events_, &count, sizeof count) == sizeof count;
  return result;
}

void signal_waiter::announce() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(events_, &one, sizeof one);
}

void signal_waiter::interrupt() {
  asked_ = true;
  announce();
}

namespace {

volatile std::sig_atomic_t interrupts = 0; // the only object that the handler touches

} // namespace

void note_interrupts() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int) {
      if (interrupts != 0)
        _exit(exit_interrupted);
      interrupts = 1;
    });
}

bool interrupt_noted() {
  return interrupts != 0;
}

} // namespace troupe::apps
