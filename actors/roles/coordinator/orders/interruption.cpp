// SPDX-License-Identifier: BSD-3-Clause
// Waiting for the newest parameters, but not for long.
#include "actors/roles/coordinator/orders/interruption.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

/// How long those that have parameters may take to send them. A scheduler's patience after SIGTERM is 30 s.
constexpr std::chrono::seconds newest_deadline{10};

} // namespace

void interruption::begin(const std::string& reason) {
  if (by_.is_ending() || begun())
    return;
  auto& result = record_.result;
  result.interrupted = true;
  if (result.steps == 0 || record_.is_evaluated())
    return by_.fail(reason);
  reason_ = reason;
  if (by_.trains())
    by_.save_newest();
  if (collected_ && collected_->ver.value == result.steps)
    return on(*std::exchange(collected_, std::nullopt));
  self_->run_delayed(newest_deadline, [this] { overdue(); });
  if (by_.trains()) // else the job is held, and they are on their way
    by_.fetch_newest();
}

void interruption::on(const protocols::report& msg) {
  if (msg.event == protocols::report::kind::round_closed)
    late_.push_back(msg);
}

/// What the lead has decided meanwhile belongs to the result as far as it is in the parameters.
void interruption::on(const collected& msg) {
  if (by_.is_ending())
    return;
  collected_ = msg;
  if (!begun())
    return;
  for (const auto& late : std::exchange(late_, {}))
    if (!by_.is_decentralized() && late.ver <= msg.ver)
      setup_.observer->on_progress(record_.round_closed(late, by_.seconds()));
  record_.collected(msg, by_.unheard_in(msg)); // replicas say themselves which steps are in them
  by_.fail(*reason_);
}

void interruption::overdue() {
  if (by_.is_ending())
    return;
  const auto& last = record_.result.last;
  setup_.observer->on_event(fmt::format("the newest parameters are not here after {} s: some {} does not answer; {}",
                                        newest_deadline.count(), by_.is_decentralized() ? "worker" : "shard",
                                        last ? fmt::format("the run leaves those of step {}, its last evaluation", last->step)
                                             : "no others were evaluated"));
  by_.fail(*reason_);
}

} // namespace troupe::actors
