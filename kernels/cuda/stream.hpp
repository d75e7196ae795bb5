// SPDX-License-Identifier: BSD-3-Clause
// Owners of CUDA's streams and events.
#pragma once

#include <utility>

#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

/// A stream that does not wait for the default stream. Destroying it waits for nothing.
class stream {
public:
  stream() { TROUPE_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { cudaStreamDestroy(handle_); }

  operator cudaStream_t() const { return handle_; } // NOLINT: CUDA's calls take it

private:
  cudaStream_t handle_ = nullptr;
};

class event {
public:
  explicit event(unsigned flags = cudaEventDisableTiming) { TROUPE_CUDA(cudaEventCreateWithFlags(&handle_, flags)); }
  event(event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~event() {
    if (handle_)
      cudaEventDestroy(handle_);
  }

  operator cudaEvent_t() const { return handle_; } // NOLINT: CUDA's calls take it

private:
  cudaEvent_t handle_ = nullptr;
};

/// What is enqueued on `later` from now on runs after what has been enqueued on `earlier`.
inline void wait_for(cudaStream_t later, cudaStream_t earlier, cudaEvent_t through) {
  TROUPE_CUDA(cudaEventRecord(through, earlier));
  TROUPE_CUDA(cudaStreamWaitEvent(later, through, 0));
}

} // namespace troupe::kernels::cuda
