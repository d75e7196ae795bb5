// SPDX-License-Identifier: BSD-3-Clause
// Prepares batches: the samples of a slice, scaled and packed in host memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/buffer.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/data/partition.hpp"
#include "tensor/data/sample_assignment.hpp"

namespace troupe {

/// Samples ready for a step, in host memory that the device copies at full speed. Immutable, so a holder may share it.
struct batch {
  kernels::buffer x;        ///< (rows, sample), of the format's type
  kernels::buffer labels;   ///< (rows, labels), of the format's type; those that are ignored are `ignored_label`
  std::int64_t rows = 0;    ///< an empty batch has no buffers
  std::int64_t counted = 0; ///< predictions whose label is not ignored
  /// Number of the first row among all rows that the job hands out, epoch after epoch; the other rows follow. Where each worker
  /// has its own samples, those of earlier workers come first in each epoch. Random draws for a row are keyed by it, so that
  /// every worker would draw the same.
  std::uint64_t place = 0;
};

/// Turns slices into batches. Loading takes as long as copying the batch; a separate actor does it ahead of the step that
/// needs it. One thread at a time; several loaders may share a data set.
class batch_loader {
public:
  /// For backend::allocate_host, whose pool takes a batch's memory back when its last handle dies.
  using host_allocator = std::function<kernels::buffer(std::size_t bytes)>;

  /// Without an assignment, or with a shuffled one, slices are of the whole set's permutation.
  batch_loader(std::shared_ptr<const data_set> data, std::uint64_t seed, host_allocator allocate,
               const sample_assignment& how = {});

  const data_set& data() const { return *data_; }

  /// Samples [begin, end) of the epoch's permutation; by worker, of the order in which the epoch visits the worker's own samples.
  /// They are augmented, where the data set says so.
  batch load(const slice& rows);

  /// Samples [begin, end) as the data set numbers them: for evaluation.
  batch load_in_order(std::int64_t begin, std::int64_t end) const;

private:
  struct epoch_order {
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> rows;
  };

  /// The order in which an epoch visits the samples.
  const std::vector<std::uint32_t>& order_of(std::uint64_t epoch);
  batch gather(std::span<const std::uint32_t> rows) const;

  std::shared_ptr<const data_set> data_;
  std::uint64_t seed_;
  host_allocator allocate_;
  sample_assignment assignment_;
  std::vector<std::uint32_t> own_;    ///< by worker: its samples, as they were assigned
  std::array<epoch_order, 2> orders_; ///< one epoch's end is still asked for while the next one's begin is prefetched
};

} // namespace troupe
