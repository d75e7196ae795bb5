// SPDX-License-Identifier: BSD-3-Clause
// What actors have been doing lately. A step takes milliseconds, so one look a second shows only chance; this averages the looks.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "apps/console/snapshot.hpp"
#include "apps/web/folding.hpp"

namespace troupe::apps::web {

/// Averages over the recent looks at a cluster, the latest counting most: what each actor did, whom it waited for, how long its
/// steps took, and how fast each lane was. Actors and lanes that are gone are forgotten.
class recent_activity {
public:
  /// `at_s`: the time of this look, later than the last one's.
  void see(const console::snapshot& seen, double at_s);

  /// Each actor with its shares, and the waits as arrows.
  picture actors(const console::snapshot& seen) const;
  /// The console's `stragglers` with averaged times; a worker is slow where it was for most of the time. Of more than most_alone
  /// workers only the slow and stuck ones, and `nodes: [{id count compute_ms low_ms high_ms}]` with the median and the range of
  /// each node's others; `left_out`: how many nodes are not listed.
  boost::json::object stragglers(const console::snapshot& seen) const;
  /// Lanes with their bytes a second: at most the `most` that have sent most. Of more than a dozen only the busy ones.
  boost::json::array lanes(std::size_t most) const;
  /// The sums over the other lanes: `count`, `sent_per_s`, `bytes_sent`, `bytes_queued`.
  boost::json::object other_lanes(std::size_t most) const;

private:
  /// The mean of the seen values, weighted by 0.9 for each look since.
  struct faded {
    double sum = 0, weight = 0;
    void see(double value);
    double mean() const { return weight > 0 ? sum / weight : 0; }
  };
  struct actor_activity {
    std::map<std::string, faded> kinds, waits;
    faded compute_ms, slow;
  };
  bool slow(const std::string& id) const;
  std::string mood_of(const actors::actor_report& actor, const std::string& id) const;

  struct lane_activity {
    actors::link_report last;
    faded sent_per_s;
    bool idle() const { return sent_per_s.mean() < 1 && last.queued_bytes == 0; }
  };
  using ends = std::pair<std::string, std::string>;
  using lane_list = std::vector<const std::pair<const ends, lane_activity>*>;
  /// The lanes that are shown, then the others.
  std::pair<lane_list, lane_list> chosen_lanes(std::size_t most) const;

  std::map<std::string, actor_activity> actors_;
  std::map<ends, lane_activity> lanes_;
  double seen_s_ = 0;
};

} // namespace troupe::apps::web
