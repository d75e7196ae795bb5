// SPDX-License-Identifier: BSD-3-Clause
// Groups thousands of actors into a picture for a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json.hpp>

namespace troupe::apps::web {

/// Up to this many actors of a role are shown one by one; of more, those of a node form one box.
inline constexpr std::size_t most_alone = 24;

/// An actor, or a group: all healthy actors of one role on a node.
struct box {
  std::string id = {}, role = {};
  std::string node = {}; ///< empty: a group over several nodes
  std::string state = {};
  double since_s = 0;
  std::uint64_t mailbox = 0; ///< of a group: the sum
  std::vector<std::string> waits_for = {};
  std::string mood = {};                     ///< "works", "waits", "idle", "slow", "stuck"; of a group: the most frequent
  std::map<std::string, double> shares = {}; ///< of "works", "waits", "idle", "stuck" in the last seconds; of a group: the mean
  std::map<std::string, std::size_t> moods = {}; ///< of a group: its actors by mood; empty: a single actor
};

/// `from` waits for `to`, for this share of the last seconds.
struct arrow {
  std::string from, to;
  double share = 0;
};

struct picture {
  std::vector<box> boxes;
  std::vector<arrow> arrows; ///< the widest first
};

/// Makes a picture small enough to be drawn. Where a role has more than most_alone actors, "workers on b" stands for those of a
/// node. Beyond most_alone nodes, troubled nodes first, "workers on other nodes" stands for the rest. A few slow or stuck actors
/// stay single boxes, unless all of their node are. An arrow between groups has the mean width of the arrows that it replaces.
picture folded(picture all);

/// To three digits: more than a page shows, and half the bytes.
double brief(double value);

boost::json::array json_of(const std::vector<box>& boxes);
boost::json::array json_of(const std::vector<arrow>& arrows);

} // namespace troupe::apps::web
