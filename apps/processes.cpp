// SPDX-License-Identifier: BSD-3-Clause
// Child processes: start, reap, end.
#include "apps/processes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::apps {

namespace {

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

/// Between fork and exec only async-signal-safe calls are allowed; everything else is prepared before.
[[noreturn]] void become(const char* program, char* const* argv, char* const* environment, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) // it died before we asked
    _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Ctrl-C goes to the terminal's whole process group, and only `run` shall get it. Ignoring it is not enough: a node blocks its
  // signals, and a blocked signal is queued even if ignored.
  setpgid(0, 0);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  close_range(3, ~0U, 0); // a connection that another process has open does not end with ours
  execve(program, argv, environment);
  _exit(127);
}

/// For exec: pointers into `words`, which outlive them, and a null.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words)
    out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// That of this process, with `setting` ("NAME=value") instead of what it has for NAME.
std::vector<std::string> environment_with(const std::string& setting) {
  const auto name = setting.substr(0, setting.find('=') + 1);
  std::vector<std::string> out;
  for (char** each = environ; *each != nullptr; ++each)
    if (name.empty() || !std::string_view{*each}.starts_with(name))
      out.emplace_back(*each);
  if (!setting.empty())
    out.push_back(setting);
  return out;
}

} // namespace

child_processes::~child_processes() {
  kill_all();
}

void child_processes::start(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = program_.words.empty() ? std::vector<std::string>{"troupe"} : program_.words;
  const std::string program = program_.words.empty() ? "/proc/self/exe" : words.front();
  std::string setting;
  if (program_.variable.empty())
    words.insert(words.end(), arguments.begin(), arguments.end());
  else
    setting = fmt::format("{}={}", program_.variable, fmt::join(arguments, "\n"));
  auto settings = environment_with(setting);
  const auto argv = pointers_to(words), environment = pointers_to(settings);
  auto parent = getpid();
  auto pid = fork();
  if (pid < 0)
    throw std::system_error(errno, std::generic_category(), "cannot start " + name);
  if (pid == 0)
    become(program.c_str(), argv.data(), environment.data(), parent);
  running_.push_back({name, pid});
}

std::optional<child_end> child_processes::reap() {
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    int status = 0;
    if (waitpid(it->pid, &status, WNOHANG) != it->pid)
      continue;
    child_end end{it->name, describe(status), WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
    running_.erase(it);
    return end;
  }
  return std::nullopt;
}

void child_processes::interrupt_all() const {
  for (const auto& child : running_)
    kill(child.pid, SIGTERM);
}

void child_processes::kill_all() {
  for (const auto& child : running_)
    kill(child.pid, SIGKILL);
  for (const auto& child : running_)
    waitpid(child.pid, nullptr, 0);
  running_.clear();
}

} // namespace troupe::apps
