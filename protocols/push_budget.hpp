// SPDX-License-Identifier: BSD-3-Clause
// How much of each push travels where a worker's bits a second are bounded (managed communication: Wei et al. 2015).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/form.hpp"
#include "protocols/ids.hpp"
#include "protocols/message.hpp"

namespace troupe::protocols {

/// Of every `turns` blocks of the flat array one travels whole, a push later the block beside it; of each other block the
/// largest elements alone.
struct push_density {
  double share = 1; ///< of the elements of a block that does not travel whole
  std::uint64_t turn = 0, turns = 1;

  bool takes_whole(std::int64_t block) const { return (static_cast<std::uint64_t>(block) + turn) % turns == 0; }
  double of(std::int64_t block) const { return takes_whole(block) ? 1 : share; }
  /// Its share of an element that is in any block alike.
  double of_all() const { return share + (1 - share) / static_cast<double>(turns); }
};

/// One life of a worker: what it may send grows with time, and what it has sent is taken from that. A push may take all there
/// is. What one does not use is kept for the next, up to what a whole push takes; blocks that travel whole are sent on credit.
class push_budget {
public:
  /// `megabits` (10^6) a second; every element goes with one of `bound` pushes at least; `floats`: of the flat array, which is
  /// sent in this sparse form.
  push_budget(double megabits, std::uint64_t bound, kernels::form as, std::int64_t floats)
      : bytes_per_ns_(megabits * 1e6 / 8 / 1e9), bound_(std::max<std::uint64_t>(bound, 1)), form_(as), floats_(floats),
        most_(bytes_of(1)) {}

  /// Of a push that is encoded now, and the same if asked for it again; `now` does not go back. Workers begin at different
  /// blocks.
  push_density density_of(const push_id& push, nanoseconds now) {
    if (newest_ == push)
      return density_;
    newest_ = push;
    allowed_ = std::min(allowed_ + bytes_per_ns_ * static_cast<double>(now - since_), most_);
    since_ = now;
    double least = 0, most = 1; // of the elements: as many as take the bytes that are allowed
    for (int halving = 0; halving < 32; ++halving) {
      const double middle = (least + most) / 2;
      (bytes_of(middle) <= allowed_ ? least : most) = middle;
    }
    const double whole = 1 / static_cast<double>(bound_);
    density_ = {.share = bound_ == 1 ? 1 : std::clamp((least - whole) / (1 - whole), 0.0, 1.0),
                .turn = push.clock.value + push.worker.value,
                .turns = bound_};
    return density_;
  }
  /// The newest push took so many bytes.
  void sent(std::uint64_t bytes) { allowed_ = std::max(allowed_ - static_cast<double>(bytes), -most_); }

private:
  double bytes_of(double share) const { return kernels::expected_bytes(form_, {0, floats_}, share); }

  double bytes_per_ns_;
  std::uint64_t bound_;
  kernels::form form_;
  std::int64_t floats_;
  double most_;        ///< bytes of a whole push
  double allowed_ = 0; ///< bytes; negative: owed
  nanoseconds since_ = 0;
  std::optional<push_id> newest_{};
  push_density density_{}; ///< of the newest
};

} // namespace troupe::protocols
