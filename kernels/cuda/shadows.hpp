// SPDX-License-Identifier: BSD-3-Clause
// Copies of operands in bfloat16, made once and kept until their source is written.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/scratch.hpp"

namespace troupe::kernels::cuda {

/// A weight is an operand of three products in a step, an activation of two: each is rounded once. The owner reports every write
/// to device memory. Only blocks of the queue's own pool are remembered: another queue's memory may be written without a word
/// here.
///
/// A shadow's memory is never given back, since enqueued work and recorded programs may read it.
class shadows {
public:
  shadows(cudaStream_t stream, std::shared_ptr<block_pool> pool, const scratch& memory)
      : stream_(stream), pool_(std::move(pool)), scratch_(memory) {}

  /// x[0 .. count) in bfloat16; null where the memory is not this pool's, or is scratch. Enqueues the rounding unless it is
  /// there.
  const std::uint16_t* shadow_of(const float* x, std::int64_t count);
  /// Something that writes these bytes has been enqueued.
  void written(const void* begin, std::size_t bytes);
  /// Nothing is known any more: a recorded program has run, or is about to be recorded.
  void forget();

private:
  struct shadow {
    buffer memory;
    bool valid = false;
  };
  using key = std::pair<const std::byte*, std::int64_t>; // address and floats

  cudaStream_t stream_;
  std::shared_ptr<block_pool> pool_;
  const scratch& scratch_;
  std::map<key, shadow> all_;
  std::size_t longest_ = 0; ///< bytes of the longest operand: how far before a write one may begin that it reaches
};

} // namespace troupe::kernels::cuda
