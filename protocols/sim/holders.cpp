// SPDX-License-Identifier: BSD-3-Clause
// Who holds what, and since when.
#include "protocols/sim/holders.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "protocols/sim/roles.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

constexpr std::uint32_t hosts_of_newcomers = 1'000'000;

} // namespace

std::shared_ptr<cluster::holder_role> cluster::roster::make(const holder_place& place, host_id host) const {
  std::shared_ptr<holder_role> out;
  if (place.commits) {
    lead_succession leads{.make = [&in = in_](lead_state from) { return in.make_lead(std::move(from)); }};
    for (const holder_place& each : in_.tree_)
      if (each.is_shard)
        leads.first.holders.insert(each.self);
    out = std::make_shared<holder_role>(in_, place, host, std::move(leads));
  } else {
    const bool decides = place.self == holder_id{0} || (in_.protocol_.per_push && place.is_shard);
    out = std::make_shared<holder_role>(in_, place, host, decides ? in_.make_lead() : nullptr);
  }
  if (place.is_shard)
    out->maths = in_.maths_.make_shard(place.backup_of.value_or(place.self).value, in_.options_.job.shards);
  return out;
}

void cluster::roster::add(const holder_place& place, host_id host) {
  all_.emplace(place.self.value, make(place, host));
}

std::size_t cluster::roster::copies_of(holder_id shard) const {
  return static_cast<std::size_t>(std::ranges::count_if(here(), [&](const holder_role* at) {
    return at->alive && at->place.is_shard && at->place.backup_of.value_or(at->place.self) == shard;
  }));
}

void cluster::roster::add_backup(holder_id shard) {
  if (copies_of(shard) == 0 || copies_of(shard) >= in_.options_.job.replicas)
    return;
  holder_place place = in_.tree_.at(shard.value);
  place.backup_of = shard;
  place.backups.clear();
  place.self = {first_backup(in_.shape_).value + shard.value};
  while (place.self.value <= all_.rbegin()->first) // no number is given twice, and later ones are larger
    place.self.value += in_.options_.job.shards;
  const auto fresh = make(place, {hosts_of_newcomers + place.self.value});
  fresh->moves = moves_;
  fresh->begin_catching_up();
  all_.emplace(place.self.value, fresh);
  in_.last_progress_ = in_.now_;
  in_.note(fmt::format("holder {} is to back up shard {}", place.self.value, shard.value));
  in_.send({role::holder, place.self.value}, the_coordinator, new_backup{place.self, shard});
}

void cluster::roster::kill(holder_id who) {
  if (!has(who))
    return;
  const auto dead = all_.at(who.value);
  if ((dead->place.is_shard && in_.options_.job.replicas < 2) || !std::exchange(dead->alive, false))
    return;
  const auto is_it = [&](endpoint end) {
    return (end.kind == role::holder || end.kind == role::lead) && all_.at(end.index) == dead;
  };
  in_.lose(is_it, is_it);
  in_.last_progress_ = in_.now_;
  in_.note(fmt::format("{} {} is gone", dead->place.is_shard ? "holder" : "aggregator", dead->place.self.value));
  in_.send({role::holder, who.value}, the_coordinator, holder_down{dead->place.self, "it was killed"});
}

void cluster::roster::take_over(const takes_over& notice) {
  all_.at(notice.shard.value) = all_.at(notice.by.value);
  moves_[notice.shard] = notice.by;
}

bool cluster::roster::reaches(holder_id to, const std::map<holder_id, holder_id>& heard) const {
  const auto moved = moves_.find(to), known = heard.find(to);
  return moved == moves_.end() || (known != heard.end() && known->second == moved->second);
}

std::vector<cluster::holder_role*> cluster::roster::here() const {
  std::vector<holder_role*> out;
  for (const auto& [number, at] : all_)
    if ((at->alive || !at->place.commits) && std::ranges::find(out, at.get()) == out.end())
      out.push_back(at.get());
  return out;
}

std::vector<holder_id> cluster::roster::dead() const {
  std::vector<holder_id> out;
  for (const auto& [number, at] : all_)
    if (!at->alive)
      out.insert(out.begin(), {number});
  return out;
}

} // namespace troupe::protocols::sim
