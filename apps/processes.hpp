// SPDX-License-Identifier: BSD-3-Clause
// Child processes that never outlive this one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace troupe::apps {

/// How a child ended.
struct child_end {
  std::string name;
  std::string how; ///< "exited with 2", "was killed by signal 9 (Killed)"
  int code = 0;    ///< as in a shell: 128 + the signal
};

/// Starts copies of this program and ends them. The kernel kills them when the thread that started them dies, so start them on
/// the main thread. The destructor kills and reaps the rest. Ctrl-C does not reach them: their parent ends the run in order.
class child_processes {
public:
  child_processes() = default;
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;
  ~child_processes();

  /// Runs this program with `arguments`; standard input is empty, output and error are ours. Throws std::system_error.
  /// It inherits no other file.
  void start(const std::string& name, const std::vector<std::string>& arguments);
  /// A child that has ended since the last call, if any.
  std::optional<child_end> reap();
  bool empty() const { return running_.empty(); }
  /// Asks them to end in order.
  void interrupt_all() const;
  /// Kills and reaps the rest.
  void kill_all();

private:
  struct child {
    std::string name;
    pid_t pid = -1;
  };
  std::vector<child> running_;
};

} // namespace troupe::apps
