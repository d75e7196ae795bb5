// SPDX-License-Identifier: BSD-3-Clause
// Trying partitions of other sizes.
#include "protocols/partition_tuner.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/spread.hpp"

namespace troupe::protocols {

namespace {

constexpr std::uint32_t spans_to_wait = 2; ///< of a plan: while some of what travels is of the last one
constexpr double clearly_faster = 0.97;

double ms(nanoseconds span) {
  return static_cast<double>(span) * 1e-6;
}

} // namespace

partition_tuner::partition_tuner(partition_search search, partition_tuning from)
    : search_(std::move(search)), state_(std::move(from)) {}

void partition_tuner::on(const plan& next, const plan& last) {
  const bool same = next.workers == last.workers && next.protocol == last.protocol && next.period == last.period;
  if (!same)
    state_ = {};
  state_.waits = spans_to_wait;
  state_.pushes = 0;
  state_.since.reset();
  state_.spans.clear();
}

std::optional<decision> partition_tuner::on(const report& closed, const plan& under) {
  if (search_.sizes.empty() || state_.settled)
    return std::nullopt;
  if (!state_.since) {
    state_.since = closed.at;
    return std::nullopt;
  }
  state_.pushes += closed.contributions;
  if (state_.pushes < under.workers.size())
    return std::nullopt;
  state_.pushes = 0;
  const nanoseconds span = closed.at - *std::exchange(state_.since, closed.at);
  if (state_.waits > 0) {
    --state_.waits;
    return std::nullopt;
  }
  state_.spans.push_back(span);
  if (state_.spans.size() < search_.spans)
    return std::nullopt;
  std::vector<nanoseconds> spans = std::exchange(state_.spans, {});
  return decide(median(std::span{spans}), under.partition_kib);
}

/// What has been measured at this size, and which one is next.
decision partition_tuner::decide(nanoseconds span, std::uint32_t size) {
  const bool first = state_.best == 0 || state_.best == size;
  const bool larger = size > state_.best;
  std::string why = fmt::format("exchange.partition_kib = {}: {:.3f} ms a round", size, ms(span));
  if (!first)
    why += fmt::format(", {}: {:.3f}", state_.best, ms(state_.best_span));
  if (first || static_cast<double>(span) < clearly_faster * static_cast<double>(state_.best_span)) {
    if (!first) { // it has come from a neighbour
      state_.tried_smaller = larger;
      state_.tried_larger = !larger;
    }
    state_.best = size;
    state_.best_span = span;
  } else {
    (larger ? state_.tried_larger : state_.tried_smaller) = true;
  }
  const std::vector<std::uint32_t>& sizes = search_.sizes;
  decision out;
  if (const auto next = std::ranges::upper_bound(sizes, state_.best); !state_.tried_larger && next != sizes.end()) {
    out.partition_kib = *next;
  } else if (const auto best = std::ranges::lower_bound(sizes, state_.best); !state_.tried_smaller && best != sizes.begin()) {
    out.partition_kib = *std::prev(best);
  } else {
    state_.settled = true;
    out.partition_kib = state_.best;
  }
  out.why = why + fmt::format("; {} {}", state_.settled ? "keeps" : "tries", *out.partition_kib);
  return out;
}

void partition_tuner::check() const {
  TROUPE_ASSERT(std::ranges::is_sorted(search_.sizes));
  TROUPE_ASSERT(state_.spans.size() < std::max(search_.spans, 1U));
  TROUPE_ASSERT(state_.best != 0 || !(state_.tried_larger || state_.tried_smaller || state_.settled));
}

} // namespace troupe::protocols
