// SPDX-License-Identifier: BSD-3-Clause
// The shape that every elementwise kernel has: 16 bytes at a time where addresses allow, one float at a time where they do not.
#pragma once

#include <initializer_list>
#include <span>

#include "kernels/cuda/launch.hpp"

namespace troupe::kernels::cuda {

/// `Width` neighbouring elements in registers.
template <int Width>
struct pack {
  float v[Width];
};

template <int Width>
__device__ inline pack<Width> load(const float* from) {
  if constexpr (Width == 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    return {{all.x, all.y, all.z, all.w}};
  } else {
    return {{*from}};
  }
}

template <int Width>
__device__ inline void store(float* to, const pack<Width>& values) {
  if constexpr (Width == 4)
    *reinterpret_cast<float4*>(to) = make_float4(values.v[0], values.v[1], values.v[2], values.v[3]);
  else
    *to = values.v[0];
}

/// Calls body.run<4>(i) for each group of four elements that begins at a multiple of 16 bytes, body.run<1>(i) for the up to three
/// before and after. With `step` 1 every element goes alone. An element's bits are the same either way: nothing is contracted
/// (-fmad=false).
template <class Body>
__global__ void __launch_bounds__(256)
    elements_kernel(const __grid_constant__ Body body, std::int64_t count, std::int64_t head, int step) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  if (step == 1) {
    for (std::int64_t i = thread; i < count; i += threads)
      body.template run<1>(i);
    return;
  }
  const std::int64_t groups = (count - head) / 4;
  for (std::int64_t g = thread; g < groups; g += threads)
    body.template run<4>(head + g * 4);
  if (thread < head)
    body.template run<1>(thread);
  if (const std::int64_t tail = head + groups * 4 + thread; tail < count)
    body.template run<1>(tail);
}

/// Elements before the first multiple of 16 bytes, where that is the same for all pointers; -1 where it is not. Null pointers are
/// ignored.
inline std::int64_t common_head(std::span<const void* const> pointers) {
  std::int64_t head = 0;
  bool first = true;
  for (const void* pointer : pointers) {
    if (!pointer)
      continue;
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer) % 16);
    const std::int64_t own = (16 - misaligned) % 16 / static_cast<std::int64_t>(sizeof(float));
    if (!first && own != head)
      return -1;
    head = own;
    first = false;
  }
  return head;
}

/// Enqueues `body` over `count` elements. `pointers` are all that it reads and writes at its element's place.
template <class Body>
void for_elements(cudaStream_t stream, std::int64_t count, std::span<const void* const> pointers, const Body& body) {
  if (count == 0)
    return;
  const std::int64_t head = common_head(pointers);
  const bool wide = head >= 0 && count >= head + 4;
  const std::int64_t work = wide ? count / 4 + 8 : count;
  launch(elements_kernel<Body>, blocks_for(work, 256), one_dimension(256), stream, body, count, wide ? head : 0, wide ? 4 : 1);
}

template <class Body>
void for_elements(cudaStream_t stream, std::int64_t count, std::initializer_list<const void*> pointers, const Body& body) {
  for_elements(stream, count, std::span(pointers.begin(), pointers.size()), body);
}

} // namespace troupe::kernels::cuda
