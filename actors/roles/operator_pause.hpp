// SPDX-License-Identifier: BSD-3-Clause
// How the operator pauses an actor.
#pragma once

#include <functional>
#include <utility>

#include <caf/behavior.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/skip.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

/// For an actor's handler of `operator_pause`. Until it is resumed, it only answers inspections (with `report`, in another
/// state); all other messages stay in its mailbox, in order. Answers to its own requests still reach it, so it finishes what it
/// has begun.
inline void handle_pause(caf::scheduled_actor* self, const operator_pause& order, std::function<actor_report()> report) {
  if (!order.on)
    return; // it is not paused
  self->set_default_handler(caf::skip);
  self->do_become(caf::behavior{
                      [report = std::move(report), since = steady_ns()](const inspect_query&) {
                        auto out = report();
                        out.state = "stands still: paused by the operator";
                        out.since_s = static_cast<double>(steady_ns() - since) * 1e-9;
                        out.paused = true;
                        out.waits_for.clear();
                        out.waits_on.clear();
                        return out;
                      },
                      [self](const operator_pause& next) {
                        if (next.on)
                          return;
                        self->set_default_handler(caf::print_and_drop);
                        self->bhvr_stack().pop_back();
                      },
                  },
                  false);
}

} // namespace troupe::actors
