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

/// Each of k messages under way gets 1/k of the bandwidth, as connections through one bottleneck do: eight pushes that begin
/// together finish together, after eight times as long as one alone. Pure: time is an argument and never goes back.
class shared_link {
public:
  explicit shared_link(const link_spec& spec) : spec_(spec) {}

  /// A message begins.
  void start(nanoseconds now, std::uint64_t id, std::uint64_t bytes) {
    advance(now);
    waiting_.emplace(served_ + (service{transmission(spec_, bytes)} << fraction_bits), id);
  }

  /// When the next message is through, unless another begins before.
  std::optional<nanoseconds> next() const {
    if (waiting_.empty())
      return std::nullopt;
    // A message that is through but not yet taken counts as through now, not before.
    const service left = std::max<service>(waiting_.begin()->first - served_, 0) * static_cast<std::int64_t>(waiting_.size());
    return now_
           + static_cast<nanoseconds>(
               std::min<service>((left + (1 << fraction_bits) - 1) / (1 << fraction_bits), longest_duration));
  }

  /// The messages that are through by now; simultaneous ones in the order in which they began.
  std::vector<std::uint64_t> through(nanoseconds now) {
    advance(now);
    std::vector<std::uint64_t> out;
    while (!waiting_.empty() && waiting_.begin()->first <= served_) {
      out.push_back(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    return out;
  }

private:
  /// Dividing nanoseconds among messages leaves fractions, kept in 65,536ths; 64 bits of those would hold less than two days.
  static constexpr int fraction_bits = 16;
  __extension__ typedef __int128 service;

  void advance(nanoseconds now) {
    TROUPE_ASSERT(now >= now_);
    if (!waiting_.empty())
      served_ += (service{now - now_} << fraction_bits) / static_cast<std::int64_t>(waiting_.size());
    now_ = now;
  }

  link_spec spec_;
  nanoseconds now_ = 0;
  service served_ = 0;                              ///< the service that a message present from the start would have got
  std::multimap<service, std::uint64_t> waiting_{}; ///< by the service at which a message is through
};

} // namespace troupe::protocols
