// SPDX-License-Identifier: BSD-3-Clause
// One direction of a host's link to the network, shared fairly by the messages under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/emulate/inject.hpp"

namespace troupe::protocols {

/// Each of the k most urgent messages under way gets 1/k of the bandwidth, as connections through one bottleneck do: eight pushes
/// that begin together finish together, after eight times as long as one alone. What is less urgent waits. Pure: time is an
/// argument and never goes back.
class shared_link {
public:
  explicit shared_link(const link_spec& spec) : spec_(spec) {}

  /// A message begins; of two, the one with the lower `order` is more urgent.
  void start(nanoseconds now, std::uint64_t id, std::uint64_t bytes, std::uint32_t order = 0) {
    advance(now);
    equals& among = waiting_[order];
    wait(among, id, among.served, bytes);
  }

  /// A message that is under way gets longer; false: it is not.
  bool extend(nanoseconds now, std::uint64_t id, std::uint64_t bytes) {
    advance(now);
    for (auto& [order, among] : waiting_) {
      const auto at = std::ranges::find(among.ends, id, [](const auto& each) { return each.second; });
      if (at == among.ends.end())
        continue;
      const service end = std::max(at->first, among.served);
      among.ends.erase(at);
      wait(among, id, end, bytes);
      return true;
    }
    return false;
  }

  /// When the next message is through, unless another begins before. One that is through but not yet taken counts as through now,
  /// not before.
  std::optional<nanoseconds> next() const {
    if (waiting_.empty())
      return std::nullopt;
    for (const auto& [order, among] : waiting_)
      if (among.left() <= 0)
        return now_;
    const equals& served = waiting_.begin()->second;
    const service left = served.left() * static_cast<std::int64_t>(served.ends.size());
    return now_
           + static_cast<nanoseconds>(
               std::min<service>((left + (1 << fraction_bits) - 1) / (1 << fraction_bits), longest_duration));
  }

  /// The messages that are through by now; simultaneous ones by their order, and then in that in which they began.
  std::vector<std::uint64_t> through(nanoseconds now) {
    advance(now);
    std::vector<std::uint64_t> out;
    for (auto& [order, among] : waiting_)
      for (; !among.ends.empty() && among.left() <= 0; among.ends.erase(among.ends.begin()))
        out.push_back(among.ends.begin()->second);
    std::erase_if(waiting_, [](const auto& each) { return each.second.ends.empty(); });
    return out;
  }

private:
  /// Dividing nanoseconds among messages leaves fractions, kept in 65,536ths; 64 bits of those would hold less than two days.
  static constexpr int fraction_bits = 16;
  __extension__ typedef __int128 service;

  /// Messages that are equally urgent.
  struct equals {
    service served = 0;                           ///< the service that a message present from the start would have got
    std::multimap<service, std::uint64_t> ends{}; ///< by the service at which a message is through
    service left() const { return ends.begin()->first - served; } ///< of the first
  };

  void wait(equals& among, std::uint64_t id, service from, std::uint64_t bytes) const {
    among.ends.emplace(from + (service{transmission(spec_, bytes)} << fraction_bits), id);
  }

  void advance(nanoseconds now) {
    TROUPE_ASSERT(now >= now_);
    if (!waiting_.empty()) {
      auto& [served, ends] = waiting_.begin()->second;
      served += (service{now - now_} << fraction_bits) / static_cast<std::int64_t>(ends.size());
    }
    now_ = now;
  }

  link_spec spec_;
  nanoseconds now_ = 0;
  std::map<std::uint32_t, equals> waiting_{}; ///< none is empty; the first is served
};

} // namespace troupe::protocols
