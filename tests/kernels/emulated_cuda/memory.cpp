// SPDX-License-Identifier: BSD-3-Clause
// Devices that are none, and their memory.
#include "tests/kernels/emulated_cuda/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include <sys/mman.h>

#include "tests/kernels/emulated_cuda/cuda_runtime.h"

namespace troupe::emulated_cuda {

namespace {

constexpr std::size_t reserved = std::size_t{64} << 30; // addresses, not memory
constexpr std::size_t page = std::size_t{2} << 20;      // huge: opening and closing walks the pages
constexpr int most_devices = 8;

long long from_environment(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

/// The memory of all devices: equal shares of one range, blocks first fit from the front.
struct arena {
  std::byte* base = nullptr;
  std::size_t share = reserved / most_devices;
  std::size_t opened = 0; ///< bytes of each share that ever had a block: what is opened and closed
  bool protect = from_environment("TROUPE_EMULATED_CUDA_PROTECT", 1) != 0;
  std::map<std::byte*, std::size_t> blocks[most_devices];
  std::size_t used[most_devices] = {};
  int users = 0;
  std::mutex mutex;

  arena() {
    void* range = mmap(nullptr, reserved + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
      std::perror("emulated CUDA: reserving addresses");
      std::abort();
    }
    base = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(range) + page - 1) / page * page);
    madvise(base, reserved, MADV_HUGEPAGE);
  }

  void set_protection(int protection) {
    for (int d = 0; d < std::max(1, device_count()); ++d)
      mprotect(base + static_cast<std::size_t>(d) * share, opened, protection);
  }
  bool open() const { return users > 0 || !protect; }
};

/// Of each device; asked anew each time, so that a test may change it.
std::size_t memory_limit() {
  return static_cast<std::size_t>(from_environment("TROUPE_EMULATED_CUDA_MEMORY_MIB", 4096)) << 20;
}

arena& memory() {
  static arena all;
  return all;
}

std::atomic<long long> kernels_run{0};

/// What the device has left, of which another process may take all in the middle of a run. Its arena is locked.
std::size_t memory_left(int device) {
  const char* text = std::getenv("TROUPE_EMULATED_CUDA_FULL");
  int full = -1;
  long long kernels = 0;
  if (text && std::sscanf(text, "%d:%lld", &full, &kernels) == 2 && full == device && kernels_run >= kernels)
    return 0;
  const auto limit = memory_limit(), used = memory().used[device];
  return limit - std::min(limit, used);
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t report(cudaError_t status) {
  if (status != cudaSuccess)
    last_error = status;
  return status;
}

} // namespace

int device_count() {
  return static_cast<int>(std::min<long long>(from_environment("TROUPE_EMULATED_CUDA_DEVICES", 1), most_devices));
}

std::optional<int> device_of(const void* address) {
  auto& all = memory();
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - all.base);
  if (address < all.base || offset >= reserved)
    return {};
  return static_cast<int>(offset / all.share);
}

void count_kernel() {
  ++kernels_run;
}

memory_access::memory_access() {
  auto& all = memory();
  std::lock_guard lock{all.mutex};
  if (++all.users == 1 && all.protect)
    all.set_protection(PROT_READ | PROT_WRITE);
}

memory_access::~memory_access() {
  auto& all = memory();
  std::lock_guard lock{all.mutex};
  if (--all.users == 0 && all.protect)
    all.set_protection(PROT_NONE);
}

} // namespace troupe::emulated_cuda

using troupe::emulated_cuda::current_device;
using troupe::emulated_cuda::device_count;
using troupe::emulated_cuda::from_environment;
using troupe::emulated_cuda::last_error;
using troupe::emulated_cuda::memory;
using troupe::emulated_cuda::memory_left;
using troupe::emulated_cuda::memory_limit;
using troupe::emulated_cuda::report;

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (device_count() < 0)
    return report(cudaErrorInsufficientDriver); // and the count is left as it was, as CUDA does
  if (device_count() == 0)
    return report(cudaErrorNoDevice);
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count())
    return report(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count())
    return report(cudaErrorInvalidDevice);
  const char* capability = std::getenv("TROUPE_EMULATED_CUDA_CAPABILITY");
  *properties = {};
  std::strcpy(properties->name, "Emulated CUDA device on this processor");
  properties->totalGlobalMem = memory_limit();
  properties->major = 9;
  if (capability)
    std::sscanf(capability, "%d.%d", &properties->major, &properties->minor);
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  std::lock_guard lock{memory().mutex};
  *total = memory_limit();
  *free = memory_left(current_device);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  auto& all = memory();
  const std::size_t capacity = (std::max<std::size_t>(bytes, 1) + 511) / 512 * 512;
  std::lock_guard lock{all.mutex};
  if (capacity > memory_left(current_device))
    return report(cudaErrorMemoryAllocation);
  std::byte* const first = all.base + static_cast<std::size_t>(current_device) * all.share;
  std::byte* place = first;
  auto& blocks = all.blocks[current_device];
  for (auto& [begin, size] : blocks) {
    if (begin - place >= static_cast<std::ptrdiff_t>(capacity))
      break;
    place = begin + size;
  }
  const auto end = static_cast<std::size_t>(place - first) + capacity;
  if (end > all.share)
    return report(cudaErrorMemoryAllocation);
  all.opened =
      std::max(all.opened, (end + troupe::emulated_cuda::page - 1) / troupe::emulated_cuda::page * troupe::emulated_cuda::page);
  all.set_protection(PROT_READ | PROT_WRITE);
  std::memset(place, 0xff, capacity); // NaN: what nobody has written must not look like zeros
  if (!all.open())
    all.set_protection(PROT_NONE);
  blocks.emplace(place, capacity);
  all.used[current_device] += capacity;
  *block = place;
  return cudaSuccess;
}

cudaError_t cudaFree(void* block) {
  auto& all = memory();
  const auto device = troupe::emulated_cuda::device_of(block);
  if (!device)
    return block ? report(cudaErrorInvalidValue) : cudaSuccess;
  std::lock_guard lock{all.mutex};
  auto found = all.blocks[*device].find(static_cast<std::byte*>(block));
  if (found == all.blocks[*device].end())
    return report(cudaErrorInvalidValue);
  all.used[*device] -= found->second;
  all.blocks[*device].erase(found);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** block, std::size_t bytes, unsigned) {
  return posix_memalign(block, 4096, std::max<std::size_t>(bytes, 1)) == 0 ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* block) {
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const auto device = troupe::emulated_cuda::device_of(pointer);
  *attributes = {device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, device.value_or(0)};
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
#define TROUPE_CASE(name)                                                                                                        \
  case name:                                                                                                                     \
    return #name
  switch (error) {
    TROUPE_CASE(cudaSuccess);
    TROUPE_CASE(cudaErrorInvalidValue);
    TROUPE_CASE(cudaErrorMemoryAllocation);
    TROUPE_CASE(cudaErrorInvalidConfiguration);
    TROUPE_CASE(cudaErrorInsufficientDriver);
    TROUPE_CASE(cudaErrorDevicesUnavailable);
    TROUPE_CASE(cudaErrorNoDevice);
    TROUPE_CASE(cudaErrorInvalidDevice);
    TROUPE_CASE(cudaErrorNoKernelImageForDevice);
    TROUPE_CASE(cudaErrorECCUncorrectable);
    TROUPE_CASE(cudaErrorNotReady);
    TROUPE_CASE(cudaErrorIllegalAddress);
    TROUPE_CASE(cudaErrorPeerAccessAlreadyEnabled);
    TROUPE_CASE(cudaErrorLaunchFailure);
    TROUPE_CASE(cudaErrorStreamCaptureUnsupported);
    TROUPE_CASE(cudaErrorStreamCaptureInvalidated);
    TROUPE_CASE(cudaErrorStreamCaptureUnjoined);
  }
#undef TROUPE_CASE
  return "unrecognised error";
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the emulated runtime";
}
