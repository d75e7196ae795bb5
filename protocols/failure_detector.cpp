// SPDX-License-Identifier: BSD-3-Clause
// Gaps, deadlines, suspicions.
#include "protocols/failure_detector.hpp"

#include <algorithm>
#include <span>

#include "protocols/spread.hpp"

namespace troupe::protocols {

namespace {

constexpr nanoseconds deviations = 8;

} // namespace

void failure_detector::watch(peer_id peer, nanoseconds now) {
  peers_[peer] = {.heard = now, .before = now};
}

void failure_detector::heard(peer_id peer, nanoseconds at) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || at <= found->second.heard)
    return;
  found->second.heard = at;
  found->second.suspected_at = 0;
}

std::vector<failure_detector::suspicion> failure_detector::tick(nanoseconds now) {
  const nanoseconds late = last_tick_ == 0 ? 0 : now - last_tick_ - options_.interval;
  const nanoseconds granted = late > options_.tolerated_delay ? late : 0;
  last_tick_ = now;
  std::vector<suspicion> out;
  for (auto& [id, peer] : peers_) {
    if (peer.heard > peer.before) {
      peer.gaps[peer.seen++ % most_gaps] = std::max<nanoseconds>(peer.heard - peer.before - granted, 0);
      peer.before = peer.heard;
    }
    peer.heard = std::min(peer.heard + granted, now);
    peer.before = std::min(peer.before + granted, now);
    const nanoseconds silent = now - peer.heard;
    if (silent - peer.suspected_at <= deadline_of(peer))
      continue;
    peer.suspected_at = silent;
    out.push_back({id, silent});
  }
  return out;
}

nanoseconds failure_detector::deadline(peer_id peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? options_.shortest : deadline_of(found->second);
}

nanoseconds failure_detector::deadline_of(const watched& peer) const {
  if (peer.seen == 0)
    return options_.shortest;
  auto gaps = peer.gaps;
  const std::span known{gaps.data(), std::min(peer.seen, most_gaps)};
  const auto [middle, mad] = spread_of(known);
  return std::clamp(middle + deviations * mad, options_.shortest, options_.longest);
}

} // namespace troupe::protocols
