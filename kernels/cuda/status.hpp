// SPDX-License-Identifier: BSD-3-Clause
// Checks every status of CUDA: a failure becomes a device_error that a user can act on.
#pragma once

#include <string_view>

#include <cuda_runtime.h>

namespace troupe::kernels::cuda {

/// Throws device_error: "cudaMemcpyAsync failed: cudaErrorInvalidValue (invalid argument)", and what can be done.
[[noreturn]] void fail(std::string_view call, std::string_view error, std::string_view meaning, std::string_view todo = "");
[[noreturn]] void fail(std::string_view call, cudaError_t status);

inline void check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) [[unlikely]]
    fail(call, status);
}

} // namespace troupe::kernels::cuda

/// Calls, checks, and names the call where it failed. Another library's file has a `check` of its own for its statuses.
#define TROUPE_CUDA(call) check((call), #call)
