// SPDX-License-Identifier: BSD-3-Clause
// Traces of a run: spans on a track for each worker, shard and aggregator. protocols/sim/README.md describes the file.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "protocols/ids.hpp"

namespace troupe::actors {

/// The kind of a span determines its role.
enum class span_kind : std::uint8_t {
  compute,  ///< worker: a step; args: step, version, samples, training_ns, real_ns, emulated_ns
  push,     ///< worker: from the end of computing to the trailer; args: bytes, clock (of the push)
  wait,     ///< worker: from there to the next parameters; args: version
  apply,    ///< shard: a version is made; args: version, contributions
  sum,      ///< aggregator: of what its children pushed; args: version, contributions
  hold,     ///< coordinator: training time is paused; args: version
  evaluate, ///< evaluator: of a version, from its parameters to the report; args: version
  load,     ///< a worker's loader: a batch is gathered; args: samples
  // of a role's device, each with its own name ("gemm", "download"); args: bytes, of a copy
  kernel,
  to_host,
  to_device,
};

/// Set in `trace_event::role` of a device's span if the device is a holder's.
inline constexpr std::uint32_t of_holder = 0x8000'0000;

/// The kind in one word, as the file has it.
std::string_view name_of(span_kind kind);
/// The track's role: "worker", "shard", "aggregator", "evaluator", "loader" or "coordinator"; for a device "kernels", "copies to
/// host" or "copies to device".
std::string_view role_of(span_kind kind);
/// The names of a kind's arguments, in their order.
const std::vector<std::string_view>& arguments_of(span_kind kind);

/// Times are from the host's monotonic clock, which all its processes share.
struct trace_event {
  span_kind kind = span_kind::compute;
  std::uint32_t role = 0; ///< worker or holder number
  std::int64_t begin_ns = 0, end_ns = 0;
  std::array<std::int64_t, 6> args{}; ///< see span_kind
  std::string name{};                 ///< of a device's
  std::vector<std::int64_t> pushes{}; ///< of an `apply`: worker and clock of each push in it, one after the other
  friend bool operator==(const trace_event&, const trace_event&) = default;
};

/// How many of the first events fit a message of the control plane (system.cpp), with room to spare.
template <class Iterator>
std::ptrdiff_t fitting(Iterator begin, Iterator end) {
  constexpr std::size_t room = 768 * 1024, of_event = 96;
  std::size_t used = 0;
  auto at = begin;
  for (; at != end; ++at)
    if ((used += of_event + 8 * at->pushes.size()) > room && at != begin)
      break;
  return at - begin;
}

/// A version as an argument of an event.
inline std::int64_t signed_of(protocols::version ver) {
  return static_cast<std::int64_t>(ver.value);
}

/// A node's events, or some of them.
struct trace_chunk {
  std::vector<trace_event> events;
  std::uint64_t dropped = 0; ///< events lost because the buffer was full
  bool last = true;
};

/// A node's buffer: bounded, in the order of ends. Spans of one track never overlap: a span begins no earlier than the last one
/// ended (work in a device's queue waits there). Thread-safe.
class tracer {
public:
  explicit tracer(bool records = true, std::size_t capacity = 1'000'000) : capacity_(capacity), records_(records) {}

  bool records() const { return records_.load(std::memory_order_relaxed); }
  /// Clears the buffer and begins to record.
  void begin();
  void add(trace_event event);
  /// Removes and returns the oldest events, as many as fit a message. The first call ends the recording.
  trace_chunk take();
  /// Removes and returns all events.
  std::vector<trace_event> take_all();

private:
  std::mutex mutex_;
  std::size_t capacity_;
  std::atomic<bool> records_;
  std::deque<trace_event> events_;
  std::uint64_t dropped_ = 0;
  std::map<std::pair<std::string_view, std::uint32_t>, std::int64_t> free_; ///< by track: when its last span ended
};
/// Null: nothing is recorded.
using tracer_ptr = std::shared_ptr<tracer>;

/// For backend_options::on_span: records what a role's device does. `role` as in trace_event.
std::function<void(const kernels::device_span&)> device_recorder(tracer_ptr to, std::uint32_t role);

/// A span that has begun; a copy may end it on any thread.
class open_span {
public:
  open_span() = default; ///< not recorded
  /// Begins now.
  open_span(tracer_ptr to, span_kind kind, std::uint32_t role, std::array<std::int64_t, 6> args,
            std::vector<std::int64_t> pushes = {});
  void end() const;

private:
  tracer_ptr to_;
  trace_event event_;
};

/// A worker's track. If nothing is recorded, each call only reads a flag.
class worker_track {
public:
  worker_track(tracer_ptr to, protocols::worker_id self) : to_(std::move(to)), self_(self.value) {}

  /// It has parameters: its wait is over.
  void adopts(protocols::version ver);
  /// Computing begins. `begun`: training time at the step's begin; `training_ns` includes loading its rows.
  void computes(protocols::nanoseconds begun);
  void computed(std::uint64_t step, std::int64_t samples, protocols::nanoseconds training_now);
  /// Real and emulated duration of the present step (0: not emulated).
  void took(protocols::nanoseconds real, protocols::nanoseconds emulated);
  void pushes(protocols::clock_tick clock);
  /// Everything was sent, including the trailers.
  void pushed(std::uint64_t bytes);

private:
  bool records();
  void begin(span_kind kind);
  void end(const std::array<std::int64_t, 6>& args);

  tracer_ptr to_;
  std::uint32_t self_;
  protocols::version version_;
  protocols::clock_tick clock_;
  std::optional<trace_event> open_;
  protocols::nanoseconds training_begin_ = 0, real_ = 0, emulated_ = 0;
};

/// A node's part of a job's trace.
struct node_trace {
  std::string name;
  std::vector<trace_event> events{};
  std::uint64_t dropped = 0; ///< lost because the buffer was full
};

} // namespace troupe::actors
