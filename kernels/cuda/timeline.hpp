// SPDX-License-Identifier: BSD-3-Clause
// The activities of the device, for a trace.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/stream.hpp"

namespace troupe::kernels::cuda {

/// Puts an event before and after every operation and, once both have passed, reports their times on the host's steady clock.
/// Events are read by the thread that enqueues, whenever it calls `report`: a host function of the device must not call CUDA.
class timeline {
public:
  /// An empty `hear` switches everything off. Else waits for `compute`, to set the clocks.
  timeline(std::function<void(const device_span&)> hear, cudaStream_t compute);

  bool on() const { return static_cast<bool>(hear_); }
  /// Call them around the enqueuing of one operation; not nested. They do nothing where it is off.
  void begin(cudaStream_t where);
  void end(cudaStream_t where, const device_span& span);
  /// Reports every completed span.
  void report();

private:
  struct pending {
    event begin, end;
    device_span span;
  };
  event take();
  std::int64_t host_time(cudaEvent_t when);

  std::function<void(const device_span&)> hear_;
  std::vector<event> spare_;
  std::array<std::deque<pending>, 3> pending_; // by track: each is in order
  std::optional<event> began_;
  std::optional<event> anchor_; ///< an event whose time on the host's clock is known
  std::int64_t anchor_ns_ = 0;
};

} // namespace troupe::kernels::cuda
