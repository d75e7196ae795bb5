// SPDX-License-Identifier: BSD-3-Clause
// Strong ids and the few scalar types that every machine speaks.
#pragma once

#include <compare>
#include <cstdint>

namespace troupe::protocols {

/// An integer that names one kind of thing and mixes with no other.
template <class Tag, class Rep>
struct strong_id {
  using rep = Rep;
  Rep value = 0;
  friend auto operator<=>(const strong_id&, const strong_id&) = default;
};

/// A worker for the whole job; 0..n-1 in the order in which the job placed them.
using worker_id = strong_id<struct worker_tag, std::uint32_t>;
/// A holder of pushes: a shard or an aggregator. Shards come first, 0..shards-1; shard 0 is the lead.
using holder_id = strong_id<struct holder_tag, std::uint32_t>;
/// Counts a worker's restarts: one that comes back has the next number.
using incarnation = strong_id<struct incarnation_tag, std::uint32_t>;
/// A worker's own count of its pushes; with worker and incarnation it names a push for good.
using clock_tick = strong_id<struct clock_tag, std::uint64_t>;
/// A state of the parameters; version v + 1 is version v with one more step applied.
using version = strong_id<struct version_tag, std::uint64_t>;
/// Which plan: grows by one with every change of membership or protocol.
using plan_epoch = strong_id<struct epoch_tag, std::uint32_t>;
/// A tensor that the driver keeps and the machine only names. Ticket 0 is "nothing".
using ticket = strong_id<struct ticket_tag, std::uint64_t>;
/// A timer of one machine, chosen by the machine; arming it again replaces it.
using timer_id = strong_id<struct timer_tag, std::uint32_t>;

/// Training time and durations, in nanoseconds. The training clock is paused while the job is held.
using nanoseconds = std::int64_t;

/// The version after `v`.
inline version next(version v) {
  return version{v.value + 1};
}

/// The name under which the evaluator asks for parameters.
inline constexpr worker_id evaluator{0xffff'ffff};

} // namespace troupe::protocols
