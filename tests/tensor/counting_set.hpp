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
  explicit counting_set(std::int64_t size, int classes = 7) : size_(size), format_{{2}, classes} {}
  std::int64_t size() const override { return size_; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t index) const override {
    return static_cast<std::int32_t>(index % static_cast<std::uint32_t>(classes()));
  }
  void gather(std::span<const std::uint32_t> indices, void* samples, void* classes) const override {
    auto* x = static_cast<float*>(samples);
    auto* labels = static_cast<std::int32_t*>(classes);
    for (auto index : indices) {
      *x++ = static_cast<float>(index);
      *x++ = -static_cast<float>(index);
      *labels++ = label(index);
    }
  }

private:
  std::int64_t size_;
  data_format format_;
};

inline kernels::buffer allocate(std::size_t bytes) {
  std::shared_ptr<void> block{std::aligned_alloc(kernels::alignment, (bytes + 63) / 64 * 64), std::free};
  return {block, block.get(), bytes};
}

} // namespace troupe::testing
