// SPDX-License-Identifier: BSD-3-Clause
// Lines of text.
#include "protocols/sim/text_trace.hpp"

#include <fmt/format.h>

#include "protocols/sim/text.hpp"

namespace troupe::protocols::sim {

void text_trace::add(nanoseconds at, const std::string& text) {
  if (done_)
    return;
  lines_.push_back(fmt::format("{:9.3f} ms  {}", static_cast<double>(at) * 1e-6, text));
  if (lines_.size() > most_)
    lines_.pop_front();
}

void text_trace::heard(nanoseconds at, endpoint from, endpoint to, const message& msg) {
  add(at, from == to ? fmt::format("{}: {}", text_of(to), text_of(msg))
                     : fmt::format("{} <- {}: {}", text_of(to), text_of(from), text_of(msg)));
}

void text_trace::computing(nanoseconds at, nanoseconds until, member who, const batch& of) {
  std::string parts;
  for (const batch_part& part : of.parts) {
    parts += fmt::format(" [{}, {})", part.begin, part.end);
    if (part.weight != 1)
      parts += fmt::format(" * {:.3f}", part.weight);
  }
  add(at, fmt::format("worker {} computes{} for {:.3f} ms", text_of(who), parts, static_cast<double>(until - at) * 1e-6));
}

void text_trace::applying(nanoseconds at, nanoseconds, holder_id shard, const close& round, std::span<const operand> sum) {
  add(at, fmt::format("holder {} makes v{} of {} terms", shard.value, round.ver.value, sum.size()));
}

void text_trace::stopped(nanoseconds at, const stop& how) {
  add(at, fmt::format("{}: {}", how.failed ? "failed" : "done", how.reason));
  done_ = true;
}

} // namespace troupe::protocols::sim
