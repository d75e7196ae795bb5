// SPDX-License-Identifier: BSD-3-Clause
// What a job's machine wants done, once what it decides is on the disks.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"

namespace troupe::actors {

/// Effects are carried out in the order in which they came, those of one call together. If one of them tells of a plan, of a
/// promotion or of a holder that is out, all of them wait until that is decided: by then no other leader decides otherwise.
/// Without a ledger nothing waits.
///
/// A process that leads no more cannot decide. Its coordinators end without a word, for another one goes on with the job.
///
/// Part of the coordinator, and used on its thread alone.
class decided_effects {
public:
  using effects = protocols::coordinator_effects;

  /// `fail`: the ledger has no room for what the job decides.
  decided_effects(measured_pointer<coordinator_control> self, const decided_job& job, std::function<void(const effects&)> perform,
                  std::function<void(const std::string&)> fail);

  void add(const effects& all);
  /// `then` is called once this is decided, and what came before is carried out.
  void decide(protocols::ledger::entry entry, std::function<void()> then);

private:
  struct batch {
    std::deque<protocols::ledger::entry> to_decide;
    std::function<void()> then;
  };
  std::deque<protocols::ledger::entry> decisions_in(const effects& all) const;
  void enqueue(batch next);
  void go_on();
  void ask();

  measured_pointer<coordinator_control> self_;
  const decided_job& job_;
  const std::function<void(const effects&)> perform_;
  const std::function<void(const std::string&)> fail_;
  protocols::ledger::state known_; ///< what is decided, or about to be, of this job: the rest is repeated
  std::deque<batch> waiting_;
  bool busy_ = false; ///< it asks the ledger, or carries out what waited
  bool lost_ = false; ///< the ledger has failed, and nobody else decides
};

} // namespace troupe::actors
