// SPDX-License-Identifier: BSD-3-Clause
// Waiting for a key at the terminal, and for signals meanwhile.
#pragma once

#include <csignal>
#include <span>
#include <vector>

namespace troupe::apps::console {

/// While it lives, some signals wake whoever waits for a key, and do nothing else: he handles them, between two keys. They hit
/// any thread of the process; what runs there writes down which one came, and nothing is left in the middle. One at a time;
/// afterwards the signals do what they did before.
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
  /// What comes within `timeout_ms` (negative: ever). Neither: nothing did, or somebody else's signal woke it.
  woken wait(int timeout_ms);

  /// One of the signals, as if nobody waited: this may end the process. Behind a stop it returns when the process goes on.
  void carry_out(int signal);

private:
  void take();
  void give_back();

  std::vector<int> signals_;
  std::vector<struct sigaction> before_;
};

} // namespace troupe::apps::console
