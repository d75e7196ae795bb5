// SPDX-License-Identifier: BSD-3-Clause
// Assigning the training set once, and the rows of each step.
#include "tensor/data/sample_assignment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "kernels/assert.hpp"
#include "tensor/data/random_stream.hpp"

namespace troupe {

namespace {

/// The worker's share of `size` consecutive items.
slice share_of(const sample_assignment& how, std::int64_t size) {
  return cut({0, 0, size}, how.workers, how.worker);
}

} // namespace

sample_assignment assignment_for(const data_spec& spec, int worker, int workers) {
  return {spec.partition == "by-worker", worker, workers, spec.sorted_fraction};
}

std::int64_t own_size(const sample_assignment& how, std::int64_t data_size) {
  return share_of(how, data_size).size();
}

std::int64_t first_own(const sample_assignment& how, std::int64_t data_size) {
  return how.by_worker ? share_of(how, data_size).begin : 0;
}

std::vector<std::uint32_t> own_samples(const sample_assignment& how, std::uint64_t seed, const data_set& data) {
  TROUPE_ASSERT(how.by_worker && how.sorted_fraction >= 0 && how.sorted_fraction <= 1);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0U);
  random_stream{{.seed = seed, .stream = stream_assignment}}.shuffle(order);
  const auto sorted = std::llround(how.sorted_fraction * static_cast<double>(data.size()));
  std::stable_sort(order.begin(), order.begin() + sorted,
                   [&](std::uint32_t a, std::uint32_t b) { return data.label(a) < data.label(b); });

  // Of the unsorted rest, each earlier worker has taken its share of all samples less its share of the sorted ones.
  const auto first = share_of(how, sorted), all = share_of(how, data.size());
  std::vector<std::uint32_t> own{order.begin() + first.begin, order.begin() + first.end};
  own.insert(own.end(), order.begin() + sorted + all.begin - first.begin, order.begin() + sorted + all.end - first.end);
  return own;
}

std::vector<std::uint32_t> own_order(std::vector<std::uint32_t> own, int worker, std::uint64_t seed, std::uint64_t epoch) {
  random_stream{{.seed = seed, .stream = stream_own_order + static_cast<std::uint32_t>(worker), .step = epoch}}.shuffle(own);
  return own;
}

slice step_rows(const sample_assignment& how, const step_part& part, std::int64_t data_size) {
  const auto whole = global_batch(part.position, part.batch * part.cuts, data_size);
  const auto shared = cut(whole, part.cuts, part.index);
  if (!how.by_worker)
    return shared;
  const auto own = own_size(how, data_size);
  if (own == 0) // fewer samples than workers
    return {whole.epoch, 0, 0};
  const auto begin = whole.begin / part.cuts % own;
  return {whole.epoch, begin, std::min(begin + shared.size(), own)};
}

} // namespace troupe
