// SPDX-License-Identifier: BSD-3-Clause
// Where batches are in a device's memory: one is computed with while the next comes in.
#pragma once

#include <array>
#include <utility>

#include "actors/roles/device.hpp"
#include "tensor/data/batch_loader.hpp"

namespace troupe::actors {

/// Two places, each for a batch of at most `max_rows`. A batch is known by its memory on the host, which is kept as long as its
/// copy is. One thread, that of the queue.
class batch_stage {
public:
  struct place {
    kernels::buffer x, labels; ///< on the device
    batch source;
  };

  batch_stage(kernels::backend& queue, in_flight& held, std::int64_t max_rows, std::int64_t sample_floats)
      : queue_(queue), held_(held) {
    for (auto& each : places_) {
      each.x = queue.allocate(static_cast<std::size_t>(max_rows * sample_floats) * sizeof(float));
      each.labels = queue.allocate(static_cast<std::size_t>(max_rows) * sizeof(std::int32_t));
    }
  }

  /// Begins to copy the batch that comes next: nothing enqueued uses that place any more.
  void bring(const batch& next) {
    auto& to = places_[1 - current_];
    if (next.rows == 0 || is(to, next))
      return;
    held_.keep(to.source.x); // it may be coming in still, for nobody
    held_.keep(to.source.labels);
    to.source = next;
    queue_.upload(to.x.data(), next.x.data(), next.x.bytes());
    queue_.upload(to.labels.data(), next.labels.data(), next.labels.bytes());
  }

  /// Where the batch is, or will be for what is enqueued from now on. The one before it has been computed with.
  const place& use(const batch& now) {
    if (!is(places_[current_], now)) {
      bring(now);
      current_ = 1 - current_;
    }
    return places_[current_];
  }

private:
  static bool is(const place& at, const batch& what) { return at.source.x == what.x && at.source.rows == what.rows; }

  kernels::backend& queue_;
  in_flight& held_;
  std::array<place, 2> places_;
  std::size_t current_ = 0;
};

} // namespace troupe::actors
