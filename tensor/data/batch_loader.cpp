// SPDX-License-Identifier: BSD-3-Clause
// batch_loader: permutations kept for two epochs, gathering into pooled memory.
#include "tensor/data/batch_loader.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/assert.hpp"
#include "tensor/data/augmentation.hpp"

namespace troupe {

namespace {

/// How many predictions have a label that is not ignored; those that a file ignores in PyTorch's way become ours.
std::int64_t count_labels(const data_format& format, void* labels, std::int64_t rows) {
  constexpr std::int32_t ignored_by_pytorch = -100;
  const auto count = rows * format.predictions();
  if (format.label_type != dtype::i32)
    return count;
  auto* first = static_cast<std::int32_t*>(labels);
  std::replace(first, first + count, ignored_by_pytorch, ignored_label);
  return count - std::count(first, first + count, ignored_label);
}

} // namespace

batch_loader::batch_loader(std::shared_ptr<const data_set> data, std::uint64_t seed, host_allocator allocate,
                           const sample_assignment& how)
    : data_(std::move(data)), seed_(seed), allocate_(std::move(allocate)), assignment_(how) {
  TROUPE_ASSERT(data_ != nullptr && allocate_ != nullptr);
  if (assignment_.by_worker)
    own_ = own_samples(assignment_, seed_, *data_);
}

batch batch_loader::load(const slice& rows) {
  TROUPE_ASSERT(0 <= rows.begin && rows.begin <= rows.end);
  TROUPE_ASSERT(rows.end <= (assignment_.by_worker ? std::ssize(own_) : data_->size()));
  if (rows.size() == 0)
    return {};
  const auto samples =
      std::span{order_of(rows.epoch)}.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
  batch made = gather(samples);
  if (const auto* how = data_->in_training())
    augment(*how, data_->sample(), {.seed = seed_, .epoch = rows.epoch}, samples, made.x.as<float>());
  made.place = rows.epoch * static_cast<std::uint64_t>(data_->size())
               + static_cast<std::uint64_t>(first_own(assignment_, data_->size()) + rows.begin);
  return made;
}

batch batch_loader::load_in_order(std::int64_t begin, std::int64_t end) const {
  TROUPE_ASSERT(0 <= begin && begin <= end && end <= data_->size());
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin));
  return gather(rows);
}

const std::vector<std::uint32_t>& batch_loader::order_of(std::uint64_t epoch) {
  auto& order = orders_[epoch % orders_.size()];
  if (order.rows.empty() || order.epoch != epoch)
    order = {epoch, assignment_.by_worker ? own_order(own_, assignment_.worker, seed_, epoch)
                                          : epoch_permutation(seed_, epoch, data_->size())};
  return order.rows;
}

batch batch_loader::gather(std::span<const std::uint32_t> rows) const {
  if (rows.empty())
    return {};
  const auto& format = data_->format();
  const auto bytes_of = [&rows](const shape& row) {
    return rows.size() * static_cast<std::size_t>(row.elements() * element_bytes);
  };
  batch made{.x = allocate_(bytes_of(format.sample)), .labels = allocate_(bytes_of(format.labels)), .rows = std::ssize(rows)};
  data_->gather(rows, made.x.data(), made.labels.data());
  made.counted = count_labels(format, made.labels.data(), made.rows);
  return made;
}

} // namespace troupe
