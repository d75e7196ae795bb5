// SPDX-License-Identifier: BSD-3-Clause
// A data set whose samples say who they are, and memory for their batches.
#pragma once

#include <cstdlib>
#include <memory>

#include "kernels/buffer.hpp"
#include "tensor/data/data_set.hpp"

namespace troupe::testing {

/// Sample i holds the values i and -i and the label i % classes.
class counting_set final : public data_set {
public:
  explicit counting_set(std::int64_t size, int classes = 7) : size_(size), classes_(classes) {}
  std::int64_t size() const override { return size_; }
  const shape& sample() const override { return sample_; }
  int classes() const override { return classes_; }
  std::int32_t label(std::uint32_t index) const override {
    return static_cast<std::int32_t>(index % static_cast<std::uint32_t>(classes_));
  }
  void gather(std::span<const std::uint32_t> indices, float* x, std::int32_t* labels) const override {
    for (auto index : indices) {
      *x++ = static_cast<float>(index);
      *x++ = -static_cast<float>(index);
      *labels++ = label(index);
    }
  }

private:
  std::int64_t size_;
  int classes_;
  shape sample_{2};
};

inline kernels::buffer allocate(std::size_t bytes) {
  std::shared_ptr<void> block{std::aligned_alloc(kernels::alignment, (bytes + 63) / 64 * 64), std::free};
  return {block, block.get(), bytes};
}

} // namespace troupe::testing
