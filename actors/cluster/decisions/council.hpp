// SPDX-License-Identifier: BSD-3-Clause
// One of several coordinators that decide together: Raft, its disk, and its peers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/journal/durable_ledger.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/raft.hpp"

namespace troupe::actors {

struct council_setup {
  std::string folder;             ///< of the journal
  std::uint32_t self = 0;         ///< number of this coordinator among `names`
  std::vector<std::string> names; ///< all of them, in the file's order
  council_door_control door;      ///< is told who leads
};

/// It waits for the disk, so it has a thread of its own. A disk that fails ends its part for good: it says so, and the others go
/// on. What it is asked to decide is answered once a majority has it; by one that ceases to lead, with a failure, though it may
/// be decided all the same.
class council_state {
public:
  static inline const char* name = "troupe.council";

  /// `ledger` is of `setup.folder`.
  council_state(council_actor::stateful_pointer<council_state> self, council_setup setup, std::shared_ptr<durable_ledger> ledger);
  council_actor::behavior_type make_behavior();

private:
  caf::result<decided_entry> decide(const protocols::ledger::entry& entry);
  /// Whatever the disk throws ends it.
  template <class Event>
  void step(const Event& event);
  void carry_on(const durable_ledger::messages& out);
  void tell_the_door();
  void fail(const std::string& why);

  struct waiting {
    protocols::raft::term term{};
    caf::typed_response_promise<decided_entry> promise;
  };

  council_actor::stateful_pointer<council_state> self_;
  council_setup setup_;
  std::shared_ptr<durable_ledger> ledger_;
  std::map<std::uint32_t, council_door> peers_;
  std::map<protocols::raft::log_index, waiting> undecided_;
  bool told_leads_ = false;
  std::optional<protocols::raft::member_id> told_who_{};
  std::string failed_{};
};

using council_impl = council_actor::stateful_impl<council_state>;

/// Opens the journal, which is made where it is missing, as that of one of several. Throws as durable_ledger does.
std::shared_ptr<durable_ledger> open_council_ledger(const std::string& folder, std::uint32_t self,
                                                    const std::vector<std::string>& names);

} // namespace troupe::actors
