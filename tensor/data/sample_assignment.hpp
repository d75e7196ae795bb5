// SPDX-License-Identifier: BSD-3-Clause
// Which samples each worker trains on: one training set for all, or a part of its own for each.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/data/data_set.hpp"
#include "tensor/data/partition.hpp"

namespace troupe {

/// How the training set is assigned to the workers, as one of them sees it.
struct sample_assignment {
  bool by_worker = false; ///< else every epoch's permutation is cut among all, batch by batch
  /// For by_worker: whose list this is, and among how many workers the data was divided. A worker that dies takes its samples
  /// with it.
  int worker = 0, workers = 1;
  double sorted_fraction = 0; ///< for by_worker: the part of the data that is assigned sorted by label, 0 to 1
};

/// What `spec` says, for one of `workers` workers.
sample_assignment assignment_for(const data_spec& spec, int worker, int workers);

/// How many of `data_size` samples are the worker's own: earlier workers have one more where they do not divide.
std::int64_t own_size(const sample_assignment& how, std::int64_t data_size);
/// How many the workers before this one have; 0 where all workers share the data.
std::int64_t first_own(const sample_assignment& how, std::int64_t data_size);

/// One worker's own samples, for by_worker. A random choice of round(sorted_fraction * size) samples is sorted by label and cut
/// contiguously among the workers. The rest are assigned at random until each worker has its own_size. Each sample is assigned
/// once, the same in every process.
std::vector<std::uint32_t> own_samples(const sample_assignment& how, std::uint64_t seed, const data_set& data);

/// The order in which an epoch visits a worker's own samples: each worker reshuffles every epoch, independently of the others.
std::vector<std::uint32_t> own_order(std::vector<std::uint32_t> own, int worker, std::uint64_t seed, std::uint64_t epoch);

/// One worker's part of a global batch: cut `index` of `cuts`, of at most `batch` samples each, at `position` (samples handed out
/// to all workers since the start of the job).
struct step_part {
  std::uint64_t position = 0;
  std::int64_t batch = 1;
  int cuts = 1, index = 0;
};

/// The rows of a step, as a batch_loader with the same assignment takes them.
///
/// Shuffled: cut(global_batch(...)). By worker: as many rows of the worker's own order, from position / cuts on, round and round
/// in the same epoch and cut off at the list's end. With all workers alive each comes to its last own sample just as the epoch
/// ends; fewer go on through their own lists at their own pace, so that some samples come twice in that epoch or not at all.
slice step_rows(const sample_assignment& how, const step_part& part, std::int64_t data_size);

} // namespace troupe
