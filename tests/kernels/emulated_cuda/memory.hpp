// SPDX-License-Identifier: BSD-3-Clause
// The emulated devices' memory: one reserved range of addresses that nobody may touch while no emulated work runs.
#pragma once

#include <cstddef>
#include <optional>

namespace troupe::emulated_cuda {

/// How many devices there are: TROUPE_EMULATED_CUDA_DEVICES, else 1; -1 stands for a machine without a driver.
int device_count();

/// The device whose memory an address is; empty for the host's.
std::optional<int> device_of(const void* address);

/// A kernel runs. Where TROUPE_EMULATED_CUDA_FULL is DEVICE:KERNELS that device has no memory left once so many have run on all.
void count_kernel();

/// Lets the calling thread, and alas every other, touch device memory until it is destroyed. Where TROUPE_EMULATED_CUDA_PROTECT
/// is 0 memory is always open.
class memory_access {
public:
  memory_access();
  memory_access(const memory_access&) = delete;
  memory_access& operator=(const memory_access&) = delete;
  ~memory_access();
};

} // namespace troupe::emulated_cuda
