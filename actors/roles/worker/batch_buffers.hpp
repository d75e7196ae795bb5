// SPDX-License-Identifier: BSD-3-Clause
// A device's buffers for batches: one is in use while the next is uploaded.
#pragma once

#include <array>
#include <utility>

#include "actors/roles/device.hpp"
#include "tensor/data/batch_loader.hpp"

namespace troupe::actors {

/// Two places, each for a batch of at most `max_rows`. A batch is identified by its host memory, which is kept as long as the
/// copy is. Used on the queue's thread only.
class batch_buffers {
public:
  struct place {
    kernels::buffer x, labels; ///< on the device
    batch source;
  };

  batch_buffers(kernels::backend& queue, in_flight& held, std::int64_t max_rows, std::int64_t sample_elements,
                std::int64_t row_labels)
      : queue_(queue), held_(held) {
    for (auto& each : places_) {
      each.x = queue.allocate(static_cast<std::size_t>(max_rows * sample_elements * element_bytes));
      each.labels = queue.allocate(static_cast<std::size_t>(max_rows * row_labels * element_bytes));
    }
  }

  /// Begins to copy the next batch: no enqueued work uses its place any more.
  void prefetch(const batch& next) {
    auto& to = places_[1 - current_];
    if (next.rows == 0 || holds(to, next))
      return;
    held_.keep(to.source.x); // its upload may still be running
    held_.keep(to.source.labels);
    to.source = next;
    queue_.upload(to.x.data(), next.x.data(), next.x.bytes());
    queue_.upload(to.labels.data(), next.labels.data(), next.labels.bytes());
  }

  /// The place of the batch for work enqueued from now on. The batch before it is no longer in use.
  const place& use(const batch& now) {
    if (!holds(places_[current_], now)) {
      prefetch(now);
      current_ = 1 - current_;
    }
    return places_[current_];
  }

private:
  static bool holds(const place& where, const batch& wanted) {
    return where.source.x == wanted.x && where.source.rows == wanted.rows;
  }

  kernels::backend& queue_;
  in_flight& held_;
  std::array<place, 2> places_;
  std::size_t current_ = 0;
};

} // namespace troupe::actors
