// SPDX-License-Identifier: BSD-3-Clause
// Asking a cluster.
#include "apps/console/session.hpp"

#include <thread>

#include "actors/cluster/cluster_inspection.hpp"
#include "apps/console/line.hpp"

namespace troupe::apps::console {

namespace {

using namespace std::chrono_literals;

constexpr auto answer_deadline = 10s;

/// How far apart two compared looks are: closer, a rate is chance; farther, it is history.
constexpr double closest_s = 0.5, farthest_s = 5;

bool comparable(const snapshot& before, const snapshot& now) {
  const auto apart = now.at_s - before.at_s;
  return apart >= closest_s && apart <= farthest_s;
}

} // namespace

caf::expected<snapshot> session::look() {
  if (!connection_.alive())
    return unreachable();
  auto answered = actors::inspect_cluster(asker_, connection_.cluster(), answer_deadline);
  if (!answered)
    return answered.error();
  const auto at_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  snapshot seen{std::move(answered->cluster), std::move(answered->reports), at_s};
  looks_.push_back(seen);
  if (looks_.size() > 2)
    looks_.pop_front();
  return seen;
}

caf::expected<std::pair<snapshot, snapshot>> session::look_twice() {
  auto now = look();
  if (!now)
    return now.error();
  if (const auto* earlier = before())
    return std::pair{*earlier, std::move(*now)};
  std::this_thread::sleep_for(1s);
  auto later = look();
  if (!later)
    return later.error();
  return std::pair{std::move(*now), std::move(*later)};
}

const snapshot* session::before() const {
  return looks_.size() == 2 && comparable(looks_.front(), looks_.back()) ? &looks_.front() : nullptr;
}

bool session::agreed(const std::string& question) const {
  if (!interactive_)
    return true;
  const auto said = read_line(question + " [y/N] ").text;
  return said == "y" || said == "yes";
}

} // namespace troupe::apps::console
