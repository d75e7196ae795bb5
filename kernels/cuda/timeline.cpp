// SPDX-License-Identifier: BSD-3-Clause
// The activities of the device, for a trace.
#include "kernels/cuda/timeline.hpp"

#include <chrono>
#include <cmath>
#include <limits>

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned timed = 0; // an event's flags

} // namespace

timeline::timeline(std::function<void(const device_span&)> hear, cudaStream_t compute) : hear_(std::move(hear)) {
  if (!on())
    return;
  anchor_.emplace(timed);
  // The event passes somewhere between two looks at the clock: of several tries, the one with the least between them.
  const auto now = [] { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  auto narrowest = std::numeric_limits<std::int64_t>::max();
  for (int attempt = 0; attempt < 8; ++attempt) {
    event tried(timed);
    const std::int64_t before = now();
    TROUPE_CUDA(cudaEventRecord(tried, compute));
    TROUPE_CUDA(cudaEventSynchronize(tried));
    const std::int64_t after = now();
    if (after - before >= narrowest)
      continue;
    narrowest = after - before;
    anchor_ns_ = before + narrowest / 2;
    std::swap(*anchor_, tried);
  }
}

event timeline::take() {
  if (spare_.empty())
    return event(timed);
  event out = std::move(spare_.back());
  spare_.pop_back();
  return out;
}

void timeline::begin(cudaStream_t where) {
  if (!on())
    return;
  began_ = take();
  TROUPE_CUDA(cudaEventRecord(*began_, where));
}

void timeline::end(cudaStream_t where, const device_span& span) {
  if (!on())
    return;
  event ended = take();
  TROUPE_CUDA(cudaEventRecord(ended, where));
  pending_[static_cast<std::size_t>(span.where)].push_back({std::move(*began_), std::move(ended), span});
}

std::int64_t timeline::host_time(cudaEvent_t when) {
  float milliseconds = 0;
  TROUPE_CUDA(cudaEventElapsedTime(&milliseconds, *anchor_, when));
  return anchor_ns_ + std::llround(static_cast<double>(milliseconds) * 1e6);
}

void timeline::report() {
  for (auto& track : pending_)
    while (!track.empty()) {
      const auto status = cudaEventQuery(track.front().end);
      if (status == cudaErrorNotReady)
        break;
      check(status, "cudaEventQuery");
      auto [begin, end, span] = std::move(track.front());
      track.pop_front();
      span.begin_ns = host_time(begin);
      span.end_ns = host_time(end);
      hear_(span);
      // Elapsed times are floats of milliseconds: measured from too long ago they would lose the microseconds.
      constexpr std::int64_t second = 1'000'000'000;
      if (span.end_ns - anchor_ns_ > second) {
        std::swap(*anchor_, end);
        anchor_ns_ = span.end_ns;
      }
      spare_.push_back(std::move(begin));
      spare_.push_back(std::move(end));
    }
}

} // namespace troupe::kernels::cuda
