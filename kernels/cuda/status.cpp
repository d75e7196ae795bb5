// SPDX-License-Identifier: BSD-3-Clause
// The error messages of CUDA's failures.
#include "kernels/cuda/status.hpp"

#include <fmt/format.h>

#include "kernels/backend.hpp"

namespace troupe::kernels::cuda {

namespace {

/// What can be done about a failure; empty where nothing better than its name is known.
std::string_view advice(cudaError_t status) {
  switch (status) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
    return "; the device is lost to this process, whose worker must be started again; compute-sanitizer shows the kernel at "
           "fault";
  case cudaErrorNoKernelImageForDevice:
    return "; the library was built for other GPUs: configure with TROUPE_CUDA_ARCHITECTURES, as in \"90-real\"";
  case cudaErrorInsufficientDriver:
    return "; no NVIDIA driver is loaded, or it is older than this CUDA";
  case cudaErrorDevicesUnavailable:
    return "; another process holds the device for itself alone";
  case cudaErrorECCUncorrectable:
    return "; the device's memory is damaged: reset it, or take another";
  default:
    return "";
  }
}

} // namespace

void fail(std::string_view call, std::string_view error, std::string_view meaning, std::string_view todo) {
  throw device_error(fmt::format("{} failed: {} ({}){}", call.substr(0, call.find('(')), error, meaning, todo));
}

void fail(std::string_view call, cudaError_t status) {
  cudaGetLastError(); // forget it, or the next launch would report it again; what is fatal stays
  fail(call, cudaGetErrorName(status), cudaGetErrorString(status), advice(status));
}

} // namespace troupe::kernels::cuda
