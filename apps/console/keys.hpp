// SPDX-License-Identifier: BSD-3-Clause
// Waiting for a key at the terminal, and for signals meanwhile.
#pragma once

#include <csignal>
#include <span>
#include <vector>

namespace troupe::apps::console {

/// While it lives, some signals only wake the thread that waits for a key, which handles them between two keys. The handler, on
/// any thread, only notes which signal came, so no code is interrupted. One object at a time; its destructor restores the old
/// handlers.
class key_waiter {
public:
  explicit key_waiter(std::span<const int> signals);
  key_waiter(const key_waiter&) = delete;
  key_waiter& operator=(const key_waiter&) = delete;
  ~key_waiter();

  struct woken {
    bool key = false; ///< standard input can be read (or has ended)
    int signal = 0;   ///< or this one came
  };
  /// The next key or signal within `timeout_ms` (negative: no limit). Neither: nothing came, or another signal woke it.
  woken wait(int timeout_ms);

  /// Raises one of the signals with its old handler: this may end the process. After a stop it returns when the process
  /// continues.
  void carry_out(int signal);

private:
  void take();
  void give_back();

  std::vector<int> signals_;
  std::vector<struct sigaction> before_;
};

} // namespace troupe::apps::console
