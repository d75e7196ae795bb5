// SPDX-License-Identifier: BSD-3-Clause
// What the library shows to the program that loads it: which build it is, the devices, and how to open one.
#include "kernels/cuda_library.hpp"

#include <atomic>
#include <charconv>

#include <fmt/format.h>

#include "kernels/cuda/cuda_backend.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int lowest_capability = TROUPE_CUDA_LOWEST_CAPABILITY; // 80: what the oldest of the built architectures runs on

/// Why no device at all can be used; empty where at least one is there, whose number `count` is.
std::string why_none(int& count) {
  count = 0;
  const auto status = cudaGetDeviceCount(&count);
  cudaGetLastError(); // forget it
  if (status == cudaErrorInsufficientDriver) {
    count = 0; // CUDA leaves it as it was
    return "no NVIDIA driver is loaded on this machine, or it is too old for CUDA 13 (driver 580 is the first that serves it)";
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return "there is a driver but no device: no GPU is present, or CUDA_VISIBLE_DEVICES hides it";
  if (status != cudaSuccess) {
    count = 0;
    return fmt::format("cudaGetDeviceCount failed: {} ({})", cudaGetErrorName(status), cudaGetErrorString(status));
  }
  return "";
}

std::string capability(const cudaDeviceProp& properties) {
  return fmt::format("{}.{}", properties.major, properties.minor);
}

std::string why_not(const cudaDeviceProp& properties) {
  if (properties.major * 10 + properties.minor >= lowest_capability)
    return "";
  return fmt::format("{} has compute capability {}, and this library was built for {}.{} and later", properties.name,
                     capability(properties), lowest_capability / 10, lowest_capability % 10);
}

std::string driver_version() {
  int version = 0;
  TROUPE_CUDA(cudaDriverGetVersion(&version));
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

device_info describe(int device) {
  device_info out{.name = fmt::format("cuda:{}", device)};
  try {
    cudaDeviceProp properties;
    TROUPE_CUDA(cudaGetDeviceProperties(&properties, device));
    out.capability = capability(properties);
    out.driver = driver_version();
    out.memory_bytes = properties.totalGlobalMem;
    out.detail =
        fmt::format("{}, {:.1f} GiB, compute capability {}, {} multiprocessors", properties.name,
                    static_cast<double>(properties.totalGlobalMem) / (1 << 30), out.capability, properties.multiProcessorCount);
    out.reason = why_not(properties);
    if (out.reason.empty()) {
      std::size_t free = 0, total = 0;
      TROUPE_CUDA(cudaSetDevice(device));
      TROUPE_CUDA(cudaMemGetInfo(&free, &total));
      out.free_bytes = free;
    }
  } catch (const device_error& e) {
    out.reason = e.what();
  }
  out.usable = out.reason.empty();
  return out;
}

/// "cuda" is the next device in turn.
int next_in_turn(int count) {
  static std::atomic<unsigned> opened{0};
  return static_cast<int>(opened++ % static_cast<unsigned>(count));
}

} // namespace

int usable_device(std::string_view name) {
  int count = 0;
  if (const auto reason = why_none(count); !reason.empty())
    throw device_error(reason);
  int device = 0;
  if (name == "cuda") {
    device = next_in_turn(count);
  } else {
    const auto digits = name.substr(std::min(name.size(), std::string_view("cuda:").size()));
    const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), device);
    if (wrong != std::errc{} || end != digits.data() + digits.size() || device < 0)
      throw device_error(fmt::format("\"{}\" is no number of a device; it is \"cuda:0\", say", digits));
    if (device >= count)
      throw device_error(count == 1 ? "there is one device, cuda:0"
                                    : fmt::format("there are {} devices, cuda:0 to cuda:{}", count, count - 1));
  }
  cudaDeviceProp properties;
  TROUPE_CUDA(cudaGetDeviceProperties(&properties, device));
  if (const auto reason = why_not(properties); !reason.empty())
    throw device_error(reason);
  return device;
}

} // namespace troupe::kernels::cuda

using namespace troupe::kernels; // NOLINT: entry points have C's names

extern "C" {

[[gnu::visibility("default")]] const char* troupe_cuda_build() {
  return TROUPE_KERNELS_BUILD;
}

[[gnu::visibility("default")]] backend* troupe_cuda_open(const backend_options& options) {
  return new cuda::cuda_backend(cuda::usable_device(options.device), options);
}

[[gnu::visibility("default")]] void troupe_cuda_list(std::vector<device_info>& devices) {
  int count = 0;
  if (auto reason = cuda::why_none(count); !reason.empty())
    devices.push_back({.name = "cuda", .detail = "GPU", .usable = false, .reason = std::move(reason)});
  for (int device = 0; device < count; ++device)
    devices.push_back(cuda::describe(device));
}

} // extern "C"
