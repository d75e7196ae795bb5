// SPDX-License-Identifier: BSD-3-Clause
// Recording spans.
#include "actors/monitoring/trace.hpp"

#include <algorithm>
#include <iterator>

#include "actors/roles/training_clock.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors {

namespace {

struct kind_words {
  std::string_view name, role;
  std::vector<std::string_view> arguments;
};

const kind_words& words_of(span_kind kind) {
  static const std::array<kind_words, 11> words{{
      {"compute", "worker", {"step", "version", "samples", "training_ns", "real_ns", "emulated_ns"}},
      {"push", "worker", {"bytes", "clock"}},
      {"wait", "worker", {"version"}},
      {"apply", "shard", {"version", "contributions"}},
      {"sum", "aggregator", {"version", "contributions"}},
      {"hold", "coordinator", {"version"}},
      {"evaluate", "evaluator", {"version"}},
      {"load", "loader", {"samples"}},
      {"kernel", "kernels", {}},
      {"to_host", "copies to host", {"bytes"}},
      {"to_device", "copies to device", {"bytes"}},
  }};
  return words.at(static_cast<std::size_t>(kind));
}

} // namespace

std::string_view name_of(span_kind kind) {
  return words_of(kind).name;
}
std::string_view role_of(span_kind kind) {
  return words_of(kind).role;
}
const std::vector<std::string_view>& arguments_of(span_kind kind) {
  return words_of(kind).arguments;
}

void tracer::add(trace_event event) {
  std::lock_guard guard{mutex_};
  if (!records_)
    return;
  if (events_.size() == capacity_) {
    ++dropped_;
    return;
  }
  auto& free = free_.try_emplace({role_of(event.kind), event.role}, event.begin_ns).first->second;
  event.begin_ns = std::max(event.begin_ns, free);
  free = event.end_ns = std::max(event.end_ns, event.begin_ns);
  events_.push_back(event);
}

void tracer::begin() {
  std::lock_guard guard{mutex_};
  events_.clear();
  free_.clear();
  dropped_ = 0;
  records_ = true;
}

trace_chunk tracer::take() {
  std::lock_guard guard{mutex_};
  records_ = false;
  const auto end = events_.begin() + fitting(events_.begin(), events_.end());
  trace_chunk chunk{{std::make_move_iterator(events_.begin()), std::make_move_iterator(end)}, dropped_, end == events_.end()};
  events_.erase(events_.begin(), end);
  return chunk;
}

std::vector<trace_event> tracer::take_all() {
  std::vector<trace_event> all;
  for (bool last = false; !last;) {
    auto chunk = take();
    std::ranges::move(chunk.events, std::back_inserter(all));
    last = chunk.last;
  }
  return all;
}

std::function<void(const kernels::device_span&)> device_recorder(tracer_ptr to, std::uint32_t role) {
  if (!to)
    return {};
  return [to = std::move(to), role](const kernels::device_span& span) {
    using track = kernels::device_span::track;
    const auto kind = span.where == track::compute   ? span_kind::kernel
                      : span.where == track::to_host ? span_kind::to_host
                                                     : span_kind::to_device;
    to->add({kind, role, span.begin_ns, span.end_ns, {static_cast<std::int64_t>(span.bytes)}, span.name, {}});
  };
}

open_span::open_span(tracer_ptr to, span_kind kind, std::uint32_t role, std::array<std::int64_t, 6> args,
                     std::vector<std::int64_t> pushes)
    : to_(std::move(to)) {
  if (to_ && !to_->records())
    to_ = nullptr;
  if (to_)
    event_ = {kind, role, steady_ns(), 0, args, {}, std::move(pushes)};
}

void open_span::end() const {
  if (!to_)
    return;
  auto event = event_;
  event.end_ns = steady_ns();
  to_->add(event);
}

/// A span that is open when recording ends is dropped.
bool worker_track::records() {
  if (to_ && to_->records())
    return true;
  open_.reset();
  return false;
}

void worker_track::begin(span_kind kind) {
  open_ = trace_event{kind, self_, steady_ns(), 0, {}, {}, {}};
}

void worker_track::end(const std::array<std::int64_t, 6>& args) {
  auto event = *std::exchange(open_, std::nullopt);
  event.end_ns = steady_ns();
  event.args = args;
  to_->add(event);
}

void worker_track::adopts(protocols::version ver) {
  version_ = ver;
  if (!records())
    return;
  if (open_ && open_->kind == span_kind::wait)
    end({signed_of(ver)});
}

void worker_track::computes(protocols::nanoseconds begun) {
  if (!records())
    return;
  if (open_ && open_->kind == span_kind::push) // the sum to push is still being computed, but new parameters were already there
    end({0, static_cast<std::int64_t>(clock_.value)});
  begin(span_kind::compute);
  training_begin_ = begun;
}

void worker_track::took(protocols::nanoseconds real, protocols::nanoseconds emulated) {
  real_ = real;
  emulated_ = emulated;
}

void worker_track::computed(std::uint64_t step, std::int64_t samples, protocols::nanoseconds training_now) {
  if (records() && open_ && open_->kind == span_kind::compute)
    end({static_cast<std::int64_t>(step), signed_of(version_), samples, training_now - training_begin_, real_, emulated_});
}

void worker_track::pushes(protocols::clock_tick clock) {
  clock_ = clock;
  if (records())
    begin(span_kind::push);
}

void worker_track::pushed(std::uint64_t bytes) {
  if (!records() || !open_ || open_->kind != span_kind::push)
    return;
  end({static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(clock_.value)});
  begin(span_kind::wait);
}

} // namespace troupe::actors
