// SPDX-License-Identifier: BSD-3-Clause
// Reductions over the threads of a warp or a block, in an order that nothing but the number of threads decides.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.hpp"

namespace troupe::kernels::cuda {

constexpr unsigned whole_warp = 0xffffffff;

struct add_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// The largest of a row and where it first is; an index of -1 stands for none yet. NaN never wins.
struct peak {
  float value;
  std::int32_t index;
};

struct first_peak_op {
  __device__ peak operator()(const peak& a, const peak& b) const {
    if (b.index < 0)
      return a;
    if (a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index))
      return b;
    return a;
  }
};

template <class T>
__device__ inline T from_lane(T value, int lanes) {
  return __shfl_xor_sync(whole_warp, value, lanes);
}
__device__ inline peak from_lane(const peak& value, int lanes) {
  return {__shfl_xor_sync(whole_warp, value.value, lanes), __shfl_xor_sync(whole_warp, value.index, lanes)};
}

/// Combines the values of a group of `Threads` threads: a warp, or a whole block of that many. All of them call it, and all get
/// the same result: a butterfly adds the same pairs on both sides.
template <int Threads, class T, class Op>
__device__ inline T reduce(T value, Op op) {
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = op(value, from_lane(value, lanes));
  if constexpr (Threads > 32) {
    __shared__ T of_warp[Threads / 32];
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0)
      of_warp[warp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int w = 1; w < Threads / 32; ++w)
      value = op(value, of_warp[w]);
    __syncthreads(); // before the next reduction writes there
  }
  return value;
}

} // namespace troupe::kernels::cuda
