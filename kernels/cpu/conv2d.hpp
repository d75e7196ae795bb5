// SPDX-License-Identifier: BSD-3-Clause
// Convolutions on the CPU, by oneDNN; in a build without it by im2col and OpenBLAS.
#pragma once

#include <map>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cpu/memory_pool.hpp"

namespace troupe::kernels {

/// conv2d and its backward through oneDNN's direct convolutions in the blocked layout that each of them likes best, with
/// reorders from and to (N, C, H, W). Measured against im2col + gemm (oneDNN's own, which works on plain images) for
/// conv 32 -> 64, 3x3 over 64 images of 26x26, one thread with AVX-512: forward 14.9 ms with both reorders against 33.7 ms,
/// gradient of the images 15.3 against 25.3, of the weights 16.7 against 31.0.
///
/// Keeps one set of prepared primitives for each geometry; the memory for blocked images is shared by all of them.
/// One thread at a time.
///
/// A build without oneDNN (onednn_gemm.hpp) multiplies one image's columns at a time: slower, and with other bits.
class conv2d_runner {
public:
  explicit conv2d_runner(std::shared_ptr<memory_pool> pool);
  ~conv2d_runner();

  void forward(const conv2d& args);
  void backward(const conv2d_backward& args);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::kernels
