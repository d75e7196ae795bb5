// SPDX-License-Identifier: BSD-3-Clause
// What a run was busy with, and when: spans on a track for each worker, shard and aggregator. protocols/sim/README.md has the
// file's form.
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

/// Whose span it is follows from its kind.
enum class span_kind : std::uint8_t {
  compute,  ///< worker: a step; args: step, version, samples, training_ns, real_ns, emulated_ns
  push,     ///< worker: from the end of its computing to the trailer sent; args: bytes, clock (of the push)
  wait,     ///< worker: from there to the next parameters; args: version
  apply,    ///< shard: a version is made; args: version, contributions
  sum,      ///< aggregator: of what its children pushed; args: version, contributions
  hold,     ///< coordinator: training time stands still; args: version
  evaluate, ///< evaluator: of a version, from its parameters to the report; args: version
  load,     ///< a worker's loader: a batch is gathered; args: samples
  // of a role's device, each with a name of its own ("gemm", "download"); args: bytes, of a copy
  kernel,
  to_host,
  to_device,
};

/// As `trace_event::role` of a device's span: that of a holder; of a worker its number alone.
inline constexpr std::uint32_t of_holder = 0x8000'0000;

/// The kind in one word, as the file has it.
std::string_view name_of(span_kind kind);
/// The track's role: "worker", "shard", "aggregator", "evaluator", "loader" or "coordinator"; of a device what it is busy with:
/// "kernels", "copies to host" or "copies to device".
std::string_view role_of(span_kind kind);
/// The names of a kind's arguments, in their order.
const std::vector<std::string_view>& arguments_of(span_kind kind);

/// Times are of the host's monotonic clock, which all its processes share.
struct trace_event {
  span_kind what = span_kind::compute;
  std::uint32_t role = 0; ///< worker or holder number
  std::int64_t begin_ns = 0, end_ns = 0;
  std::array<std::int64_t, 6> args{}; ///< see span_kind
  std::string name{};                 ///< of a device's
  std::vector<std::int64_t> pushes{}; ///< of an `apply`: worker and clock of each push in it, one after the other
  friend bool operator==(const trace_event&, const trace_event&) = default;
};

/// How many of these events, the first ones, fit a message of the control plane (system.cpp), with room to spare.
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

/// As an argument of an event.
inline std::int64_t signed_of(protocols::version ver) {
  return static_cast<std::int64_t>(ver.value);
}

/// A node's events, or some of them.
struct trace_chunk {
  std::vector<trace_event> events;
  std::uint64_t dropped = 0; ///< how many came when the buffer was full
  bool last = true;
};

/// A node's buffer: bounded, in the order of ends. Spans of one track never overlap: one begins where the last has ended, at the
/// earliest (what a device's queue applies has waited there). Thread-safe.
class tracer {
public:
  explicit tracer(bool records = true, std::size_t capacity = 1'000'000) : capacity_(capacity), records_(records) {}

  bool records() const { return records_.load(std::memory_order_relaxed); }
  /// From now on, with nothing in it.
  void begin();
  void add(trace_event event);
  /// Hands over the oldest events that are left, as many as fit a message. From the first call on nothing more is recorded.
  trace_chunk take();
  /// All that are left.
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

/// Something that has begun; a copy may end it, on any thread.
class open_span {
public:
  open_span() = default; ///< not recorded
  /// Begins now.
  open_span(tracer_ptr to, span_kind what, std::uint32_t role, std::array<std::int64_t, 6> args,
            std::vector<std::int64_t> pushes = {});
  void end() const;

private:
  tracer_ptr to_;
  trace_event event_;
};

/// A worker's track. Each call is a look at a flag where nothing is recorded.
class worker_track {
public:
  worker_track(tracer_ptr to, protocols::worker_id self) : to_(std::move(to)), self_(self.value) {}

  /// It has parameters to work with: its wait is over.
  void adopts(protocols::version ver);
  /// The device is asked. `begun`: when the step began in training time; what loading its rows took is part of its `training_ns`.
  void computes(protocols::nanoseconds begun);
  void computed(std::uint64_t step, std::int64_t samples, protocols::nanoseconds training_now);
  /// What the step under way took on the device, and what it is made to take (0: as long).
  void took(protocols::nanoseconds real, protocols::nanoseconds emulated);
  void pushes(protocols::clock_tick clock);
  /// Everything is on its way, the trailers too.
  void pushed(std::uint64_t bytes);

private:
  bool records();
  void begin(span_kind what);
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
  std::uint64_t dropped = 0; ///< after these, for want of memory
};

} // namespace troupe::actors
