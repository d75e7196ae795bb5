// SPDX-License-Identifier: BSD-3-Clause
// Permutations, global batches and their cuts.
#include "tensor/data/partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/assert.hpp"
#include "tensor/data/random_stream.hpp"

namespace troupe {

std::vector<std::uint32_t> epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t size) {
  TROUPE_ASSERT(size >= 0 && size <= std::numeric_limits<std::uint32_t>::max());
  std::vector<std::uint32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  random_stream{{.seed = seed, .stream = stream_permutation, .step = epoch}}.shuffle(order);
  return order;
}

slice global_batch(std::uint64_t position, std::int64_t samples, std::int64_t data_size) {
  TROUPE_ASSERT(samples > 0 && data_size > 0);
  auto begin = static_cast<std::int64_t>(position % static_cast<std::uint64_t>(data_size));
  return {position / static_cast<std::uint64_t>(data_size), begin, begin + std::min(samples, data_size - begin)};
}

slice cut(const slice& batch, int parts, int index) {
  TROUPE_ASSERT(index >= 0 && index < parts);
  auto each = batch.size() / parts, larger = batch.size() % parts;
  auto begin = batch.begin + each * index + std::min<std::int64_t>(index, larger);
  return {batch.epoch, begin, begin + each + (index < larger ? 1 : 0)};
}

} // namespace troupe
