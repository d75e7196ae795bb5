// SPDX-License-Identifier: BSD-3-Clause
// Training samples that are kept for validation: two views of one set.
#include "tensor/data/holdout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tensor/data/random_stream.hpp"

namespace troupe {

namespace {

/// Some samples of another set.
class chosen_samples final : public data_set {
public:
  chosen_samples(std::shared_ptr<const data_set> of, std::vector<std::uint32_t> which)
      : of_(std::move(of)), which_(std::move(which)) {
    std::ranges::sort(which_);
  }
  std::int64_t size() const override { return std::ssize(which_); }
  const data_format& format() const override { return of_->format(); }
  std::int32_t label(std::uint32_t index) const override { return of_->label(which_[index]); }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    std::vector<std::uint32_t> there(indices.size());
    std::ranges::transform(indices, there.begin(), [this](auto index) { return which_[index]; });
    of_->gather(there, x, labels);
  }

private:
  std::shared_ptr<const data_set> of_;
  std::vector<std::uint32_t> which_;
};

} // namespace

std::int64_t held_out(double share, std::int64_t samples) {
  return share > 0 ? std::max<std::int64_t>(std::llround(share * static_cast<double>(samples)), 1) : 0;
}

result<data_pair> hold_out(data_pair all, double share, std::uint64_t seed) {
  const auto samples = all.train->size(), count = held_out(share, samples);
  if (count == 0)
    return all;
  if (count >= samples)
    return error{errc::bad_option, fmt::format("evaluate.holdout = {} keeps {} of {} training samples, and leaves none to train "
                                               "with; give a smaller share",
                                               share, count, samples)};
  std::vector<std::uint32_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0U);
  random_stream{{.seed = seed, .stream = stream_holdout}}.shuffle(order);
  const auto kept = order.begin() + count;
  all.validation = std::make_shared<chosen_samples>(all.train, std::vector(order.begin(), kept));
  all.train = std::make_shared<chosen_samples>(std::move(all.train), std::vector(kept, order.end()));
  return all;
}

} // namespace troupe
