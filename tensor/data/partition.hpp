// SPDX-License-Identifier: BSD-3-Clause
// Which worker gets which samples: one permutation an epoch for all, global batches cut evenly.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// The permutation of [0, size) of one epoch, the same in every process (Fisher-Yates over a counter-based generator).
std::vector<std::uint32_t> epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t size);

/// Samples [begin, end) of an epoch's permutation.
struct slice {
  std::uint64_t epoch = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const slice&, const slice&) = default;
};

/// The global batch that starts at `position` (samples handed out since the start of the job): at most `samples` of them,
/// never past the end of the epoch, so that a short last batch closes it.
slice global_batch(std::uint64_t position, std::int64_t samples, std::int64_t data_size);

/// The `index`-th of `parts` cuts of a batch; sizes differ by at most one, earlier ones are larger, a cut may be empty.
slice cut(const slice& batch, int parts, int index);

} // namespace troupe
