// SPDX-License-Identifier: BSD-3-Clause
// How a running job is cut short: with its newest parameters.
#include <fmt/format.h>

#include "actors/roles/coordinator/coordinator_actor.hpp"

namespace troupe::actors {

namespace {

/// How long whoever has parameters may take to send them. A scheduler's patience after SIGTERM is 30 s.
constexpr std::chrono::seconds newest_deadline{10};

} // namespace

/// They are asked for as for an evaluation, but at once: a job whose round waits for somebody would not be held soon.
void coordinator_state::interrupt(const std::string& reason) {
  if (finishing_ || interrupt_)
    return;
  result_.interrupted = true;
  const bool measured = result_.last && result_.last->step == result_.steps;
  if (result_.steps == 0 || measured)
    return finish({true, reason});
  interrupt_ = reason;
  if (collected_ && collected_->ver.value == result_.steps)
    return on_collected(*std::exchange(collected_, std::nullopt));
  self_->run_delayed(newest_deadline, [this] { newest_are_overdue(); });
  if (clock_.running()) // else the job is held, and they are on their way
    perform({protocols::evaluate{{result_.steps}}});
  clock_.pause();
  activity_.enter("ends");
}

/// What the lead has decided meanwhile belongs to the result as far as it is in the parameters.
void coordinator_state::on_collected(const collected& msg) {
  if (finishing_)
    return;
  collected_ = msg;
  if (!interrupt_)
    return;
  for (const auto& late : std::exchange(late_, {}))
    if (!centreless_ && late.ver <= msg.ver)
      count(late);
  if (centreless_) { // replicas say themselves which steps are in them
    const auto more = machine_->unheard(msg.made);
    result_.steps += more.steps;
    result_.samples += more.samples;
  }
  result_.parameters = msg.parameters;
  result_.weights_step = centreless_ ? result_.steps : msg.ver.value;
  finish({true, *interrupt_});
}

void coordinator_state::newest_are_overdue() {
  if (finishing_)
    return;
  setup_.observer->on_event(
      fmt::format("the newest parameters are not here after {} s: some {} does not answer; {}", newest_deadline.count(),
                  centreless_ ? "worker" : "shard",
                  result_.last ? fmt::format("the run leaves those of step {}, its last evaluation", result_.last->step)
                               : "no others were evaluated"));
  finish({true, *interrupt_});
}

} // namespace troupe::actors
