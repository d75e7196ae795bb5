// SPDX-License-Identifier: BSD-3-Clause
// How a person makes any actor stand still.
#pragma once

#include <functional>
#include <utility>

#include <caf/behavior.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/skip.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

/// For an actor's handler of `stand_still`. Until it hears that it may go on, it only says what it does (`report`, with another
/// state); every other message stays in its mailbox, in order. Answers to what it has asked for still reach it: what it has
/// begun, it finishes.
inline void obey(caf::scheduled_actor* self, const stand_still& order, std::function<actor_report()> report) {
  if (!order.on)
    return; // it does
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
                      [self](const stand_still& next) {
                        if (next.on)
                          return;
                        self->set_default_handler(caf::print_and_drop);
                        self->bhvr_stack().pop_back();
                      },
                  },
                  false);
}

} // namespace troupe::actors
