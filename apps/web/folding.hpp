// SPDX-License-Identifier: BSD-3-Clause
// What a page can show of thousands of actors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json.hpp>

namespace troupe::apps::web {

/// So many of a role are told apart, on a page; of more, those of one node are one.
inline constexpr std::size_t most_alone = 24;

/// An actor, or all those of one role on a node that nothing is wrong with.
struct box {
  std::string id = {}, role = {};
  std::string node = {}; ///< empty: of several
  std::string state = {};
  double since_s = 0;
  std::uint64_t mailbox = 0; ///< of several: of all together
  std::vector<std::string> waits_for = {};
  std::string mood = {};                      ///< "works", "waits", "idle", "slow", "stuck"; of several: of most
  std::map<std::string, double> shares = {};  ///< of "works", "waits", "idle", "stuck" in the last seconds; of several: the mean
  std::map<std::string, std::size_t> of = {}; ///< of several: how many there are of each mood; empty: it is one
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

/// Makes a picture small enough to be drawn: where a role has more than most_alone, "workers on b" stands for those of a node,
/// and "workers on other nodes" for those of the nodes beyond as many again, of which those in trouble come first. A few that are
/// slow or do not answer stand out, but where all of their node do. An arrow between groups is as wide as the waits of all that
/// are behind it, of one on average.
picture folded(picture all);

/// To three digits: more than a page shows, and half the bytes.
double brief(double value);

boost::json::array json_of(const std::vector<box>& boxes);
boost::json::array json_of(const std::vector<arrow>& arrows);

} // namespace troupe::apps::web
