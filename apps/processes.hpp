// SPDX-License-Identifier: BSD-3-Clause
// Child processes that never outlive this one.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace troupe::apps {

/// How a child ended.
struct child_end {
  std::string name;
  std::string how; ///< "exited with 2", "was killed by signal 9 (Killed)"
  int code = 0;    ///< as in a shell: 128 + the signal
};

/// What is started as a child.
struct child_program {
  /// The path of the program and its first arguments; none: this program.
  std::vector<std::string> words{};
  /// Of a script: the environment variable that has the arguments of `start`, a line each; they are none of its own arguments
  /// then. Empty: they follow `words`.
  std::string variable{};
};

/// Starts copies of this program, or another one's, and ends them. The kernel kills them when the thread that started them dies,
/// so start them on the main thread. The destructor kills and reaps the rest. Ctrl-C does not reach them: their parent ends the
/// run in order.
class child_processes {
public:
  explicit child_processes(child_program program = {}) : program_(std::move(program)) {}
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;
  ~child_processes();

  /// Runs the program with `arguments`; standard input is empty, output and error are ours. Throws std::system_error.
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
  child_program program_;
  std::vector<child> running_;
};

} // namespace troupe::apps
