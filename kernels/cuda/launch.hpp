// SPDX-License-Identifier: BSD-3-Clause
// The one place that launches kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

/// Enqueues `kernel` and checks that the launch was accepted. A plain function call, so that the tests can compile kernels as
/// C++.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), "a kernel's launch");
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Blocks for `work` items in grid-stride loops: at most what fills the largest device of today twice over.
inline dim3 blocks_for(std::int64_t work, unsigned threads) {
  constexpr std::int64_t most = 2 * 132 * 8;
  dim3 grid;
  grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(work, threads), 1, most));
  return grid;
}

inline dim3 one_dimension(std::int64_t size) {
  dim3 out;
  out.x = static_cast<unsigned>(size);
  return out;
}

} // namespace troupe::kernels::cuda
