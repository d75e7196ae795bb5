// SPDX-License-Identifier: BSD-3-Clause
// Groups of four elements by index, wherever they lie: for kernels in which an element's place in the array, not in memory,
// matters.
#pragma once

#include "kernels/cuda/elements.hpp"

namespace troupe::kernels::cuda {

inline bool aligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Elements i .. i + 3 of `count`; what is past the end is `rest`. `wide`: x is aligned to 16 bytes and i is a multiple of 4.
__device__ inline pack<4> load_group(const float* x, std::int64_t i, std::int64_t count, bool wide, float rest) {
  if (wide && i + 4 <= count)
    return load<4>(x + i);
  pack<4> out;
  for (int e = 0; e < 4; ++e)
    out.v[e] = i + e < count ? x[i + e] : rest;
  return out;
}

__device__ inline void store_group(float* y, std::int64_t i, std::int64_t count, bool wide, const pack<4>& values) {
  if (wide && i + 4 <= count) {
    store(y + i, values);
    return;
  }
  for (int e = 0; e < 4; ++e)
    if (i + e < count)
      y[i + e] = values.v[e];
}

/// This thread's number in the grid, and how many there are.
__device__ inline std::int64_t grid_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

} // namespace troupe::kernels::cuda
