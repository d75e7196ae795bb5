// SPDX-License-Identifier: BSD-3-Clause
// Deadline: synchronous SGD that leaves its slowest workers behind by a cut-off learned from past arrivals. Our own, not from a
// paper.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/memory.hpp"
#include "protocols/protocol.hpp"
#include "protocols/spread.hpp"

namespace troupe::protocols {

/// A round waits for all its workers, but no longer than median + max(mad_factor * MAD, 10 % of the median) of past arrivals,
/// including late ones. MAD is the median distance from the median; for an even number of values the upper middle one is taken.
/// So that no worker's data are lost for good, a round waits for a worker that was left behind `max_misses` rounds in a row. The
/// past is the last eight arrivals of each worker's gradients; until there are as many arrivals as workers, a round has no
/// deadline. If the deadline passes before the first gradient, the round waits for that.
class deadline final : public round_policy {
public:
  deadline(double mad_factor, std::uint32_t max_misses) : mad_factor_(mad_factor), max_misses_(max_misses) {}

  void arrived(const push& msg, nanoseconds elapsed) override {
    if (msg.samples == 0) // it says nothing about how long a gradient takes
      return;
    std::deque<nanoseconds>& own = past_[msg.id.worker];
    own.push_back(elapsed);
    if (own.size() > 8)
      own.pop_front();
  }

  std::optional<nanoseconds> patience(const open_round& round) const override {
    TROUPE_ASSERT(!round.live.empty());
    std::vector<nanoseconds> arrivals;
    for (const member& who : round.live)
      if (const auto own = past_.find(who.worker); own != past_.end())
        arrivals.insert(arrivals.end(), own->second.begin(), own->second.end());
    if (arrivals.size() < round.live.size()) // nothing is known yet
      return std::nullopt;
    const auto [middle, mad] = spread_of(arrivals);
    const double spread = mad_factor_ * static_cast<double>(mad);
    return middle + static_cast<nanoseconds>(std::max(spread, 0.1 * static_cast<double>(middle)));
  }

  std::optional<closing> close(const open_round& round) override {
    const auto owed = [&](const member& who) { return !round.pushed.contains(who) && misses_[who] >= max_misses_; };
    const bool cut_off = round.settled() || (round.out_of_patience && round.gradients() > 0);
    if (!round.full() && (!cut_off || std::ranges::any_of(round.live, owed)))
      return std::nullopt;
    for (const member& who : round.live)
      misses_[who] = round.pushed.contains(who) ? 0 : misses_[who] + 1;
    return by_samples(round);
  }

  std::vector<double> memory() const override {
    memory_writer out;
    out.put(past_.size());
    for (const auto& [who, arrivals] : past_) {
      out.put(who).put(arrivals.size());
      for (const nanoseconds each : arrivals)
        out.put(each);
    }
    for (const auto& [who, count] : misses_)
      out.put(who).put(count);
    return std::move(out).take();
  }
  void remember(std::span<const double> memory) override {
    memory_reader in{memory};
    for (std::size_t left = in.count(); left > 0; --left) {
      std::deque<nanoseconds>& own = past_[in.worker()];
      for (std::size_t times = in.count(); times > 0; --times)
        own.push_back(in.integer<nanoseconds>());
    }
    while (!in.done()) {
      const member who = in.member();
      misses_[who] = in.integer<std::uint32_t>();
    }
  }

private:
  double mad_factor_;
  std::uint32_t max_misses_;
  std::map<worker_id, std::deque<nanoseconds>> past_;
  std::map<member, std::uint32_t> misses_; ///< rounds in a row that closed without its push
};

inline protocol deadline_protocol() {
  const auto mad_factor =
      real_parameter("mad_factor", 3, {.least = 0}, "k: how many median distances from the median a round waits");
  const auto max_misses = integer_parameter("max_misses", 5, 0, "rounds in a row that a worker may be left behind");
  return round_protocol(
      {.name = "deadline",
       .summary = "synchronous SGD that leaves its slowest workers behind, by a cut-off learned from past arrivals",
       .round_is_full = "all have pushed, or median + max(k MAD, 10 %) of past arrivals has gone by; weighted by samples",
       .recipients = "those that wait; a late one at its late push",
       .pays_when = "now and then another worker is slow, and a few samples may be lost",
       .resumable = true,
       .parameters = {mad_factor, max_misses},
       .policy = [mad_factor, max_misses](const protocol_spec& spec, std::uint64_t) {
         return std::make_unique<deadline>(mad_factor.of(spec), static_cast<std::uint32_t>(max_misses.of(spec)));
       }});
}

} // namespace troupe::protocols
