// SPDX-License-Identifier: BSD-3-Clause
// Raft among coordinators, carried out.
#include "actors/cluster/decisions/council.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "protocols/wire/raft.hpp"

namespace troupe::actors {
namespace {

namespace ledger = protocols::ledger;
namespace raft = protocols::raft;

/// A tenth of a heartbeat.
constexpr std::chrono::milliseconds tick_pause{10};
/// A disk or a machine that is busy for a moment is no reason for another leader. A process that ends is noticed at once.
constexpr protocols::nanoseconds election = 1'500'000'000;

const std::string deposed = "this coordinator does not lead any more; the `jobs` of the next one's console tell what it knows";

raft::options options_of(std::uint32_t self, std::size_t members) {
  raft::options out{.self = {self}, .seed = static_cast<std::uint64_t>(wall_clock_ns()), .election = election};
  for (std::uint32_t i = 0; i < members; ++i)
    out.members.push_back({i});
  return out;
}

} // namespace

std::shared_ptr<durable_ledger> open_council_ledger(const std::string& folder, std::uint32_t self,
                                                    const std::vector<std::string>& names) {
  return std::make_shared<durable_ledger>(folder, options_of(self, names.size()), names, steady_ns());
}

council_state::council_state(council_actor::stateful_pointer<council_state> self, council_setup setup,
                             std::shared_ptr<durable_ledger> ledger)
    : self_(self), setup_(std::move(setup)), ledger_(std::move(ledger)) {
  end_with_reason(*self);
  self_->send(council_actor{self_}, council_tick{});
}

council_actor::behavior_type council_state::make_behavior() {
  return {
      [this](const decide_entry& msg) { return decide(msg.entry); },
      [this](const raft_words& msg) {
        if (const auto said = protocols::wire::decode_raft_message(msg.words))
          step(*said);
      },
      [this](const council_peer& msg) { peers_[msg.member] = msg.door; },
      [this](council_tick) {
        step(raft::tick{});
        if (failed_.empty())
          self_->delayed_send(council_actor{self_}, tick_pause, council_tick{});
      },
  };
}

caf::result<decided_entry> council_state::decide(const ledger::entry& entry) {
  const auto& member = ledger_->member();
  if (!failed_.empty() || member.role != raft::role::leader)
    return decided_entry{{}, failed_.empty() ? deposed : failed_};
  if (auto full = ledger::no_room_for(ledger_->state(), entry); !full.empty())
    return decided_entry{std::move(full), {}};
  auto promise = self_->make_response_promise<decided_entry>();
  undecided_[raft::next(member.stored.last())] = {member.stored.term, promise};
  step(entry);
  return promise;
}

template <class Event>
void council_state::step(const Event& event) {
  if (!failed_.empty())
    return;
  try {
    if constexpr (std::is_same_v<Event, ledger::entry>)
      carry_on(ledger_->propose(event, steady_ns()));
    else
      carry_on(ledger_->on(event, steady_ns()));
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

void council_state::carry_on(const durable_ledger::messages& out) {
  for (const auto& each : out)
    if (const auto peer = peers_.find(each.to.value); peer != peers_.end() && peer->second)
      self_->send(peer->second, raft_words{protocols::wire::encode(each)});
  const auto& member = ledger_->member();
  while (!undecided_.empty()) {
    const auto first = undecided_.begin();
    const bool lost = member.role != raft::role::leader || first->second.term != member.stored.term;
    if (!lost && first->first > member.commit)
      break;
    first->second.promise.deliver(lost ? decided_entry{{}, deposed} : decided_entry{});
    undecided_.erase(first);
  }
  tell_the_door();
}

/// A new leader knows what is decided once its own first entry is.
void council_state::tell_the_door() {
  const auto& member = ledger_->member();
  const bool leads = member.role == raft::role::leader;
  const bool knows =
      leads && member.commit > member.stored.snapshot.index && member.stored.term_at(member.commit) == member.stored.term;
  if (leads ? knows && !told_leads_ : told_leads_ || told_who_ != member.leader) {
    told_leads_ = leads;
    told_who_ = member.leader;
    if (leads)
      self_->send(setup_.door, council_leads{ledger_->state(), member.stored.term.value});
    else
      self_->send(setup_.door, council_follows{member.leader ? std::optional(member.leader->value) : std::nullopt, {}});
  }
}

void council_state::fail(const std::string& why) {
  failed_ =
      fmt::format("the journal of this coordinator failed, and it decides nothing any more: {}; mend that (is the disk full?), "
                  "and start its node again",
                  why);
  for (auto& [index, each] : std::exchange(undecided_, {}))
    each.promise.deliver(decided_entry{{}, failed_});
  self_->send(setup_.door, council_follows{{}, failed_});
}

} // namespace troupe::actors
