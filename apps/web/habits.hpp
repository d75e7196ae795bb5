// SPDX-License-Identifier: BSD-3-Clause
// What actors have been doing lately: a step takes milliseconds, and somebody who looks once a second wants to see more than
// chance.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "apps/console/snapshot.hpp"
#include "apps/web/folding.hpp"

namespace troupe::apps::web {

/// Shares of the recent looks at a cluster, the latest counting most: with what each actor was busy, for whom it waited, how long
/// its steps took, and how fast each lane was. Actors and lanes that are gone are forgotten.
class habits {
public:
  /// `at_s`: when this was seen; later than what was seen before.
  void see(const console::snapshot& at, double at_s);

  /// Each actor with what it has been doing, and who has been waiting for whom.
  picture actors(const console::snapshot& at) const;
  /// The console's `stragglers`, with the means of what was seen, whose verdict holds for most of the time. Of more than
  /// most_alone workers those that are slow or stuck, and `nodes: [{id count compute_ms low_ms high_ms}]` with the median and the
  /// range of each node's others; `left_out`: how many nodes there are beyond those.
  boost::json::object stragglers(const console::snapshot& at) const;
  /// Lanes with bytes a second: no more than `most`, those that have sent most. Of more than a dozen only those over which
  /// something goes.
  boost::json::array lanes(std::size_t most) const;
  /// The others, together: `count`, `sent_per_s`, `bytes_sent`, `bytes_queued`.
  boost::json::object other_lanes(std::size_t most) const;

private:
  /// The mean of what was seen, weighted by 0.9 for each look since.
  struct faded {
    double sum = 0, weight = 0;
    void see(double value);
    double mean() const { return weight > 0 ? sum / weight : 0; }
  };
  struct actor_habits {
    std::map<std::string, faded> kinds, waits;
    faded compute_ms, slow;
  };
  bool slow(const std::string& id) const;
  std::string mood_of(const actors::actor_report& actor, const std::string& id) const;

  struct lane_habits {
    actors::link_report last;
    faded sent_per_s;
    bool idle() const { return sent_per_s.mean() < 1 && last.queued_bytes == 0; }
  };
  using ends = std::pair<std::string, std::string>;
  using lane_list = std::vector<const std::pair<const ends, lane_habits>*>;
  /// Those that are shown, then the others.
  std::pair<lane_list, lane_list> chosen_lanes(std::size_t most) const;

  std::map<std::string, actor_habits> actors_;
  std::map<ends, lane_habits> lanes_;
  double seen_s_ = 0;
};

} // namespace troupe::apps::web
