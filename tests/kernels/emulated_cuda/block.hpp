// SPDX-License-Identifier: BSD-3-Clause
// How a block of CUDA threads runs on one thread of a processor: what a kernel may name, and the fibers behind it.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
/// One stream runs one block at a time, on one thread.
#define __shared__ static thread_local

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) {
  return {x, y, z, w};
}

inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

namespace troupe::emulated_cuda {

inline constexpr unsigned warp_size = 32;

/// Runs every thread of every block. A thread that waits at a barrier keeps its stack, a fiber of its own; threads that never
/// wait run one after another as a plain loop on a single one.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

/// All living threads of the block, or of the calling thread's warp, have come here.
void wait_for_block();
void wait_for_warp();
/// This thread's place in its warp, and the warp's mailboxes: two, used in turn, so that a quick thread's next message does not
/// replace one that a slow thread has yet to read.
unsigned lane();
std::array<std::uint64_t, warp_size>& next_mailboxes();

template <class T>
T exchange(T value, unsigned from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  auto& mail = next_mailboxes();
  std::memcpy(&mail[lane()], &value, sizeof value);
  wait_for_warp();
  T result;
  std::memcpy(&result, &mail[from % warp_size], sizeof result);
  return result;
}

} // namespace troupe::emulated_cuda

inline void __syncthreads() {
  troupe::emulated_cuda::wait_for_block();
}
inline void __syncwarp(unsigned = ~0U) {
  troupe::emulated_cuda::wait_for_warp();
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return troupe::emulated_cuda::exchange(value, troupe::emulated_cuda::lane() ^ static_cast<unsigned>(lanes));
}
