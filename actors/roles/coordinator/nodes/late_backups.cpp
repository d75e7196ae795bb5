// SPDX-License-Identifier: BSD-3-Clause
// Places for backups that come later, and what is said of them.
#include "actors/roles/coordinator/nodes/late_backups.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/nodes/job_start.hpp"
#include "actors/roles/join_counter.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

namespace {

bool is_copy_of(std::uint32_t shard, const role_place& holder) {
  return holder.node != nowhere && (holder.index == shard || holder.backup_of == shard);
}

struct nothing_more {};

constexpr std::uint32_t most_failures = 10; // more than an hour

} // namespace

void late_backups::begin_on(std::uint32_t node) {
  for (std::uint32_t shard = 0; shard < setup_.job.cluster.shards; ++shard)
    if (lacks_a_copy(shard) && may_copy(shard, node))
      begin(shard, node);
}

void late_backups::begin_anywhere() {
  for (std::uint32_t shard = 0; shard < setup_.job.cluster.shards; ++shard)
    while (lacks_a_copy(shard)) {
      const auto node = best_for(shard);
      if (node == nowhere)
        break;
      begin(shard, node);
    }
}

void late_backups::lost(protocols::holder_id backup) {
  if (catches_up(backup))
    failures_ = std::min(failures_ + 1, most_failures);
}

bool late_backups::lacks_a_copy(std::uint32_t shard) const {
  const auto copies = std::ranges::count_if(places_.holders, [shard](const auto& each) { return is_copy_of(shard, each); });
  return copies < setup_.job.cluster.replicas;
}

bool late_backups::may_copy(std::uint32_t shard, std::uint32_t node) const {
  const auto is_here = [&](const role_place& holder) { return holder.node == node && is_copy_of(shard, holder); };
  return (node == 0 || setup_.nodes[node].shard) && std::ranges::none_of(places_.holders, is_here);
}

/// The one with the fewest parts of the parameters, or `nowhere`.
std::uint32_t late_backups::best_for(std::uint32_t shard) const {
  const auto parts = [this](std::uint32_t node) { return std::ranges::count(places_.holders, node, &role_place::node); };
  auto best = nowhere;
  for (std::uint32_t node = 0; node < setup_.nodes.size(); ++node)
    if (!lost_.contains(node) && may_copy(shard, node) && (best == nowhere || parts(node) < parts(best)))
      best = node;
  return best;
}

/// Its number is one that no holder had before.
void late_backups::begin(std::uint32_t shard, std::uint32_t node) {
  const auto first = protocols::first_backup(setup_.job.shape()).value;
  role_place fresh{.index = first + shard, .node = node, .backup_of = shard, .catches_up = true};
  while (fresh.index < places_.holders.size())
    fresh.index += setup_.job.cluster.shards;
  places_.add(fresh);
  const protocols::ledger::placed decision{setup_.decided.number, setup_.decided.life, {fresh.index}, {shard}, node};
  effects_.decide(decision, [this, fresh] { tell(fresh); });
}

/// A node that is lost may be on its way back, with the places of a moment ago.
void late_backups::tell(const role_place& fresh) {
  if (!is_there(fresh))
    return; // it was lost meanwhile
  const join_counter<nothing_more> known([this, fresh](nothing_more) {
    if (!is_there(fresh))
      return;
    say("begins to copy", fresh);
    effects_.add(machine_->on(protocols::new_backup{{fresh.index}, {*fresh.backup_of}}));
    if (!clock_.running()) // as all others were told
      self_->send(setup_.nodes[fresh.node].actor, pause_order{});
  });
  for (std::uint32_t node = 0; node < setup_.nodes.size(); ++node) {
    const auto& other = setup_.nodes[node].actor;
    if (node == fresh.node || !other)
      continue;
    if (lost_.contains(node)) {
      self_->send(other, backup_place{fresh});
      continue;
    }
    known.one_more();
    self_->request(other, job_start::deadline, backup_place{fresh})
        .then([known] { known.one_less(); }, [known](const caf::error&) { known.one_less(); });
  }
  self_->request(setup_.nodes[fresh.node].actor, job_start::deadline, backup_place{fresh})
      .then([known] { known.one_less(); }, [this, fresh](const caf::error& why) { // the lead does not hear of it
        if (!is_there(fresh))
          return;
        say("cannot copy", fresh, ": " + explain(why));
        effects_.add(machine_->on(protocols::holder_down{{fresh.index}, explain(why)}));
      });
}

bool late_backups::catches_up(protocols::holder_id backup) const {
  return backup.value < places_.holders.size() && places_.holders[backup.value].catches_up;
}

/// It says so again to each coordinator.
void late_backups::on(const protocols::caught_up& msg) {
  if (!catches_up(msg.holder))
    return;
  effects_.decide(protocols::ledger::copied{setup_.decided.number, setup_.decided.life, msg.holder}, [this, msg] {
    if (!catches_up(msg.holder))
      return;
    auto& place = places_.holders[msg.holder.value];
    place.catches_up = false;
    failures_ = 0;
    say("has a whole copy of", place);
    effects_.add(machine_->on(msg));
  });
}

void late_backups::say(const char* does, const role_place& backup, const std::string& why) const {
  setup_.observer->on_event(fmt::format("node {} {} shard {}, as replica {}{}", setup_.nodes[backup.node].name, does,
                                        *backup.backup_of, backup.index, why));
}

} // namespace troupe::actors
