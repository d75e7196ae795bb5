// SPDX-License-Identifier: BSD-3-Clause
// Ending, with patience.
#include "apps/bounded_system.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include <caf/logger.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::apps {

namespace {

constexpr std::chrono::seconds ends_within{10};

std::atomic<bool> some_left_behind = false;

/// Of this process, by what roles call theirs (measured_actor): "shard 0". All others have names without a space.
std::set<std::string> threads_of_roles() {
  std::set<std::string> out;
  std::error_code gone; // a thread may end meanwhile
  for (std::filesystem::directory_iterator each("/proc/self/task", gone), end; !gone && each != end; each.increment(gone)) {
    std::ifstream in{each->path() / "comm"};
    if (std::string name; std::getline(in, name) && name.find(' ') != std::string::npos)
      out.insert(name);
  }
  return out;
}

} // namespace

bounded_system::bounded_system(const actors::system_options& options, std::function<void(const std::string&)> left_behind)
    : parts_(std::make_unique<parts>(options)), left_behind_(std::move(left_behind)) {}

bounded_system::~bounded_system() {
  caf::logger::set_current_actor_system(nullptr); // CAF waits until no thread refers to its logger, and this one is about to wait
  std::promise<void> ended;
  const auto end = ended.get_future();
  std::thread ender([parts = std::move(parts_), ended = std::move(ended)]() mutable {
    parts.reset();
    ended.set_value();
  });
  if (end.wait_for(ends_within) == std::future_status::ready) {
    ender.join();
    return;
  }
  ender.detach();
  some_left_behind = true;
  const auto threads = threads_of_roles();
  left_behind_(fmt::format("not all threads have ended within {} s{}{}; the process ends without them", ends_within.count(),
                           threads.empty() ? "" : ": ", fmt::join(threads, ", ")));
}

bool bounded_system::any_left_behind() {
  return some_left_behind;
}

} // namespace troupe::apps
