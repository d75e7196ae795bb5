// SPDX-License-Identifier: BSD-3-Clause
// How much memory this machine, or the control group that the process lives in, has.
#include "kernels/cpu/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace troupe::kernels {

namespace {

/// The number after `key` in a file of lines "key: number"; of /proc/meminfo in kibibytes.
std::uint64_t number_after(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;)
    if (std::uint64_t number = 0; (word == key || word == key + ":") && lines >> number)
      return number;
  return 0;
}

/// Nothing where there is no limit ("max") or no such file.
std::optional<std::uint64_t> number_in(const std::string& file) {
  std::uint64_t number = 0;
  if (std::ifstream(file) >> number)
    return number;
  return std::nullopt;
}

} // namespace

host_memory find_host_memory() {
  constexpr std::uint64_t kibibyte = 1024;
  host_memory found{number_after("/proc/meminfo", "MemTotal") * kibibyte,
                    number_after("/proc/meminfo", "MemAvailable") * kibibyte};
  std::string group;
  std::getline(std::ifstream("/proc/self/cgroup"), group);
  if (!group.starts_with("0::"))
    return found;
  // A limit of any ancestor holds. Inside a container the path may be seen from outside: its root is what is mounted here.
  for (std::string path = group.substr(3);; path.erase(path.rfind('/'))) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const auto limit = number_in(folder + "/memory.max");
    const auto used = number_in(folder + "/memory.current");
    if (limit && used) {
      const auto cached = number_after((folder + "/memory.stat").c_str(), "inactive_file");
      const auto left = *limit > *used ? *limit - *used : 0;
      found.total_bytes = std::min(found.total_bytes, *limit);
      found.free_bytes = std::min(found.free_bytes, left + std::min(cached, *used));
    }
    if (path.find('/') == std::string::npos)
      return found;
  }
}

} // namespace troupe::kernels
