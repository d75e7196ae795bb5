// SPDX-License-Identifier: BSD-3-Clause
// A coordinator whose decisions outlive it, and a ledger that decides when a test tells it to.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "tests/actors/scripted_nodes.hpp"

namespace troupe::actors {

/// Decides nothing before it is told to, by the answer that it shall give.
class slow_ledger {
public:
  explicit slow_ledger(caf::actor_system& system)
      : actor(caf::actor_cast<ledger_actor>(system.spawn([this](caf::event_based_actor* self) {
          return caf::behavior{[this, self](const decide_entry& msg) -> caf::result<decided_entry> {
                                 asked.push_back(msg.entry);
                                 return waiting_.emplace_back(self->make_response_promise<decided_entry>());
                               },
                               [this](const decided_entry& how) {
                                 for (auto& each : std::exchange(waiting_, {}))
                                   each.deliver(how);
                               }};
        }))) {}
  void decide(const decided_entry& how) const { caf::anon_send(caf::actor_cast<caf::actor>(actor), how); }
  std::vector<protocols::ledger::entry> asked;
  ledger_actor actor;

private:
  std::deque<caf::typed_response_promise<decided_entry>> waiting_;
};

/// The job is the fifth of its cluster, in its second life.
class Decided : public Coordinator {
protected:
  slow_ledger slow{system};

  Decided() { decided = {.ledger = slow.actor, .alone = false, .number = 5, .life = 2, .term = 9, .orphan_s = 30}; }
  void TearDown() override {
    slow.decide({{}, "the test ends"});
    caf::anon_send_exit(slow.actor, caf::exit_reason::kill);
    Coordinator::TearDown();
  }
  void decide(const decided_entry& how = {}) {
    slow.decide(how);
    run();
  }
  void decide_all() {
    while (!slow.asked.empty()) {
      decisions.insert(decisions.end(), slow.asked.begin(), slow.asked.end());
      slow.asked.clear();
      decide();
    }
  }
  std::vector<protocols::ledger::entry> decisions; ///< by decide_all
};

} // namespace troupe::actors
