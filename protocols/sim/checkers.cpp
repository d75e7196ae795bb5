// SPDX-License-Identifier: BSD-3-Clause
// Checks what is said aloud.
#include "protocols/sim/checkers.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <fmt/format.h>

#include "protocols/catalog.hpp"
#include "protocols/sim/text.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

constexpr double rounding = 1e-9;

member author(const push_id& id) {
  return {id.worker, id.incarnation};
}

std::set<std::string> decoded_protocols(const options& job) {
  std::set<std::string> names;
  for (const protocol& each : catalog(job.added))
    if (each.decodes)
      names.insert(each.name);
  return names;
}

/// A coordinator that takes over tells plans again.
bool is_news(plan_epoch& newest, const plan& heard) {
  if (heard.epoch <= newest)
    return false;
  newest = heard.epoch;
  return true;
}

} // namespace

// -- each push ends once

void each_push_ends_once::heard(nanoseconds at, endpoint from, endpoint to, const message& msg) {
  if (to == endpoint{role::lead, 0} && std::holds_alternative<resume_order>(msg))
    leads_[{0}].free_since = at;
  if (to.kind != role::holder)
    return;
  if (from.kind == role::lead)
    note_proposal(leads_[{from.index}], at, msg);
  if (const auto* next = std::get_if<takes_over>(&msg)) {
    leads_[{to.index}].free_since = at;
    std::uint64_t& view = leads_[next->shard].view;
    view = std::max(view, next->view);
  }
  one_lead& own = leads_[{to.index}];
  if (const auto* gone = std::get_if<worker_down>(&msg))
    own.dead.insert({gone->worker, gone->incarnation});
  if (const auto* now = std::get_if<plan_envelope>(&msg); now != nullptr && is_news(own.newest, **now))
    own.members = (*now)->workers.size();
}

/// What comes while a version is proposed, the lead hears one by one, when that is decided.
void each_push_ends_once::note_proposal(one_lead& own, nanoseconds at, const message& msg) {
  if (std::holds_alternative<commit_order>(msg))
    own.free_since = at;
  const auto* proposal = std::get_if<close>(&msg);
  if (proposal == nullptr || proposal->decision == 0)
    return;
  if (at > own.free_since && !own.dead_then.contains(proposal->decision)) // else it is on its way to others
    own.known_dead = own.dead;
  own.dead_then.try_emplace(proposal->decision, own.known_dead);
}

void each_push_ends_once::pushed(nanoseconds, const push& head) {
  if (!pushed_.emplace(head.id, head).second)
    wrong(fmt::format("{} is sent twice by its worker", text_of(head.id)));
}

void each_push_ends_once::decided(nanoseconds, holder_id shard, const lead&, const lead_effects& effects) {
  one_lead& own = leads_[shard];
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect)) {
      check(own, *round);
    } else if (const auto* drop = std::get_if<drop_order>(&effect)) {
      // A used one may be named again, when its arrival came twice: it is not kept any more.
      own.kept.erase(drop->id);
      own.dropped.insert_or_assign(drop->id, own.view);
    }
}

void each_push_ends_once::check(one_lead& own, const close& round) {
  for (const contribution& part : round.contributions) {
    const std::string name = text_of(part.id);
    const auto known = pushed_.find(part.id);
    if (known == pushed_.end()) {
      wrong(fmt::format("{} is used, and nobody has sent it", name));
      continue;
    }
    if (!own.used.insert(part.id).second && !own.kept.contains(part.id))
      wrong(fmt::format("{} is used twice", name));
    // A lead may propose what one before the last did, and the last one did not know and decided without it.
    if (const auto dropped = own.dropped.find(part.id); dropped != own.dropped.end() && dropped->second == own.view)
      wrong(fmt::format("{} is used after it was dropped", name));
    if ((round.decision != 0 ? own.dead_then[round.decision] : own.dead).contains(author(part.id)))
      wrong(fmt::format("{} is of the dead", name));
    if (!known->second.finite)
      wrong(fmt::format("{} is not finite", name));
    if (round.keep)
      own.kept.insert(part.id);
  }
}

void each_push_ends_once::retaining(holder_id shard, std::size_t count) {
  if (count > leads_[shard].members)
    wrong(fmt::format("shard {} retains {} sets of parameters for {} workers", shard.value, count, leads_[shard].members));
}

void each_push_ends_once::finished(const aftermath& all) {
  if (!all.drained)
    return;
  for (const aftermath::holder_left& left : all.holders) {
    if (!left.alive)
      continue;
    // What aggregators and other shards keep, the lead of the job decides about.
    const auto own_lead = left.self.value < all.open.size() ? left.self : holder_id{0};
    const one_lead& decided = leads_[own_lead];
    std::size_t pushes = 0;
    for (const push_id& id : left.kept) {
      if (id == push_id{})
        continue;
      ++pushes;
      const bool named_again = decided.kept.contains(id);
      if (!all.parked.contains(id) && (decided.dropped.contains(id) || (decided.used.contains(id) && !named_again)))
        wrong(fmt::format("holder {} keeps {}, which is decided", left.self.value, text_of(id)));
      else if (decided.dead.contains(author(id)) && !all.parked.contains(id))
        wrong(fmt::format("holder {} keeps {} of the dead for ever", left.self.value, text_of(id)));
    }
    if (pushes > left.machine_keeps)
      wrong(fmt::format("holder {}: {} tensors are kept for {} pushes", left.self.value, pushes, left.machine_keeps));
    if (left.retained > decided.members)
      wrong(fmt::format("shard {} is left with {} sets of parameters for {} workers", left.self.value, left.retained,
                        decided.members));
  }
}

// -- rounds are sound

rounds_are_sound::rounds_are_sound(const options& job)
    : decoded_(decoded_protocols(job)),
      holders_(static_cast<std::uint32_t>(
          holder_tree({job.job.workers, job.job.shards, job.protocol.fan_in, job.job.replicas, false, job.blocks}).size())) {
  if (const auto entry = find_protocol(job.protocol.name, job.added))
    per_push_ = entry->per_push, decentralized_ = entry->decentralized;
}

void rounds_are_sound::heard(nanoseconds, endpoint, endpoint, const message& msg) {
  if (const auto* now = std::get_if<plan_envelope>(&msg))
    plans_.try_emplace((*now)->epoch, **now);
}

void rounds_are_sound::pushed(nanoseconds, const push& head) {
  pushed_.emplace(head.id, head);
  const member author{head.id.worker, head.id.incarnation};
  if (!per_push_ && !decentralized_ && !answered_.emplace(author, head.epoch, head.base).second)
    wrong(fmt::format("worker {} answers version {} twice under plan {}", text_of(author), head.base.value, head.epoch.value));
}

void rounds_are_sound::decided(nanoseconds, holder_id, const lead&, const lead_effects& effects) {
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect))
      check(*round);
}

void rounds_are_sound::check(const close& round) {
  const auto with = plans_.find(round.epoch);
  if (with == plans_.end())
    return wrong(fmt::format("version {} is made under a plan that nobody has sent", round.ver.value));
  if (round.workers != with->second.workers.size())
    wrong(fmt::format("version {}: n is {}, and the plan's {}", round.ver.value, round.workers, with->second.workers.size()));
  double sum = 0;
  const contribution* before = nullptr;
  for (const contribution& part : round.contributions) {
    sum += part.weight;
    const push& head = pushed_.at(part.id);
    if (!per_push_ && !round.keep && (head.base.value + 1 != round.ver.value || head.epoch != round.epoch))
      wrong(fmt::format("{} belongs to another round than version {}", text_of(part.id), round.ver.value));
    if (before != nullptr && !(before->id.worker < part.id.worker))
      wrong(fmt::format("version {} is not summed in worker order", round.ver.value));
    before = &part;
  }
  const bool decoded = decoded_.contains(with->second.protocol.name);
  const bool elastic = round.step.method == step_rule::kind::linear && !round.keep;
  if (!round.contributions.empty() && !decoded && !elastic && std::abs(sum - 1) > rounding)
    wrong(fmt::format("the weights of version {} sum to {}", round.ver.value, sum));
}

void rounds_are_sound::applying(nanoseconds, nanoseconds, holder_id shard, const close& round, std::span<const operand> sum) {
  const bool first_of_newcomer = shard.value >= holders_ && !made_.contains(shard);
  if (std::uint64_t& last = made_[shard]; round.ver.value != std::exchange(last, round.ver.value) + 1 && !first_of_newcomer)
    wrong(fmt::format("shard {} skips to version {}", shard.value, round.ver.value));
  const tally terms = tally_of(sum);
  const bool first = shard.value == 0;
  if (!per_push_) {
    if (first)
      versions_[round.ver.value] = terms;
    const auto known = versions_.find(round.ver.value);
    if (known != versions_.end() && known->second != terms)
      wrong(fmt::format("shard {} makes version {} from something else than shard 0", shard.value, round.ver.value));
    std::set<worker_id> authors;
    for (const auto& [key, weight] : terms)
      authors.insert(key.worker.worker);
    if (authors.size() != round.contributions.size())
      wrong(fmt::format("version {} of shard {} is made of the gradients of {} workers instead of {}", round.ver.value,
                        shard.value, authors.size(), round.contributions.size()));
  }
  if (round.step.method != step_rule::kind::linear)
    check_samples(round, terms, first);
}

void rounds_are_sound::made(holder_id shard, version ver, std::span<const std::uint64_t> fingerprints) {
  for (const std::uint64_t each : fingerprints)
    if (fingerprints_.try_emplace({shard, ver}, each).first->second != each)
      wrong(fmt::format("two copies of version {} of shard {} differ", ver.value, shard.value));
}

/// A step on gradients of one batch gives every sample that it uses the same weight; all of them sum to 1.
void rounds_are_sound::check_samples(const close& round, const tally& sum, bool first_shard) {
  std::map<std::uint64_t, double> by_sample;
  for (const auto& [key, weight] : sum)
    by_sample[key.sample] += weight;
  const bool one_step = round.step.method == step_rule::kind::optimizer;
  for (const auto& [sample, weight] : by_sample) {
    if (one_step && std::abs(weight * static_cast<double>(by_sample.size()) - 1) > rounding * 100) {
      wrong(fmt::format("version {}: sample {} of {} has the weight {}", round.ver.value, sample, by_sample.size(), weight));
      break;
    }
    if (first_shard && !used_.insert(sample).second) {
      wrong(fmt::format("version {}: sample {} is used a second time", round.ver.value, sample));
      break;
    }
  }
}

// -- replicas are one

void replicas_are_one::heard(nanoseconds, endpoint, endpoint, const message& msg) {
  if (const auto* now = std::get_if<plan_envelope>(&msg))
    plans_.try_emplace((*now)->epoch, **now);
}

void replicas_are_one::stepping(member who, const close& round, std::span<const operand> sum) {
  const tally made = tally_of(sum);
  const plan& under = plans_[round.epoch];
  std::uint64_t next = round.position;
  double whole = 0;
  for (const auto& [key, weight] : made) {
    whole += weight;
    if (carries_on_ && key.sample < round.position)
      continue;
    if (key.sample != next++)
      return wrong(fmt::format("version {}: sample {} follows sample {}", round.ver.value, key.sample, next - 2));
    if (!under.has(key.worker))
      wrong(
          fmt::format("version {} has a gradient of worker {}, which is not in its plan", round.ver.value, text_of(key.worker)));
  }
  const bool one_step = round.step.method == step_rule::kind::optimizer; // else what several steps moved by
  std::uint64_t end = under.after(round.position);
  while (!one_step && end < next)
    end = under.after(end);
  if (next != end || (one_step && std::abs(whole - 1) > 1e-9))
    wrong(fmt::format("version {} is of samples {} to {}, with weights of {}", round.ver.value, round.position, next, whole));
  if (const auto last = newest_.find(who); last != newest_.end() && last->second >= round.ver)
    wrong(fmt::format("worker {} makes version {} after {}", text_of(who), round.ver.value, last->second.value));
  one_version& known = versions_[round.ver];
  if (known.epoch < round.epoch) {
    for (const member& other : known.holders)
      if (under.has(other))
        wrong(fmt::format("version {} is made again, and worker {} has it", round.ver.value, text_of(other)));
    known = {.epoch = round.epoch, .sum = made, .begin = round.position, .end = next};
  } else if (known.epoch > round.epoch) {
    wrong(fmt::format("worker {} makes version {} of an older plan", text_of(who), round.ver.value));
  } else if (known.sum != made) {
    wrong(fmt::format("worker {} makes another version {}", text_of(who), round.ver.value));
  }
}

void replicas_are_one::has(member who, version ver, std::uint64_t fingerprint) {
  newest_[who] = ver;
  one_version& known = versions_[ver];
  const auto is_there = [&](const member& other) { return plans_.rbegin()->second.has(other); };
  if (known.holders.empty())
    known.fingerprint = fingerprint;
  else if (known.fingerprint != fingerprint && std::ranges::any_of(known.holders, is_there))
    wrong(fmt::format("worker {} has another version {} than the rest", text_of(who), ver.value));
  else if (known.fingerprint != fingerprint) // made again of a sum that was not finite: nobody takes a step
    known = {.fingerprint = fingerprint};
  known.holders.insert(who);
}

/// What each version is of follows what the one before is of, or leaves out a round that was not finite. One that no maker of
/// the next has had died with those who had it.
void replicas_are_one::finished(const aftermath&) {
  const one_version* next = nullptr;
  for (const auto& [ver, made] : std::views::reverse(versions_)) {
    const auto is_there = [next](const member& who) { return next == nullptr || next->holders.contains(who); };
    if (made.sum.empty() || std::ranges::none_of(made.holders, is_there))
      continue;
    if (next != nullptr && made.end > next->begin)
      wrong(fmt::format("version {}: sample {} is used again after it", ver.value, next->begin));
    next = &made;
  }
}

// -- limits are exact

limits_are_exact::limits_are_exact(const options& job)
    : decoded_(decoded_protocols(job)), asked_again_(!job.coordinator_deaths.empty()) {
  const auto entry = find_protocol(job.protocol.name, job.added);
  decentralized_ = entry && entry->decentralized;
}

void limits_are_exact::heard(nanoseconds, endpoint from, endpoint to, const message& msg) {
  if (const auto* now = std::get_if<plan_envelope>(&msg))
    plans_.try_emplace((*now)->epoch, **now);
  // A lead that takes over is asked once more for what it holds, and a coordinator that does asks once more.
  const bool may_come_again = asked_again_ || !proposed_.empty();
  // Such a coordinator may ask a lead that has gone on for the last one.
  const bool may_be_later = asked_again_ && !holds_;
  const auto is_wrong = [&](version ver) {
    return ver != held_at_ && !(may_come_again && ver < held_at_) && !(may_be_later && ver > held_at_);
  };
  if (const auto* part = std::get_if<params_envelope>(&msg);
      part != nullptr && to.kind == role::evaluator && part->from.value == 0
      && part->head.key > std::exchange(evaluated_, std::max(evaluated_, part->head.key)) && is_wrong(part->head.ver))
    wrong(fmt::format("version {} is evaluated, and {} held", part->head.ver.value, held_at_.value));
  if (const auto* found = std::get_if<evaluated>(&msg); found != nullptr && is_wrong(found->ver))
    wrong(fmt::format("version {} was evaluated, and {} is held", found->ver.value, held_at_.value));
  if (const auto* proposal = std::get_if<close>(&msg); proposal != nullptr && from.kind == role::lead)
    proposed_.try_emplace(proposal->decision, limit_);
  if (to != endpoint{role::lead, 0})
    return;
  if (const auto* order = std::get_if<hold_order>(&msg))
    limit_ = *order;
  if (const auto* order = std::get_if<resume_order>(&msg); order != nullptr && held_at_ <= order->held)
    holds_ = false;
}

void limits_are_exact::computing(nanoseconds, nanoseconds, member who, const batch& of) {
  last_batch_.insert_or_assign(who, of);
}

void limits_are_exact::pushed(nanoseconds, const push& head) {
  pushed_.emplace(head.id, head);
  global_batch_[head.id] = last_batch_[author(head.id)].samples;
}

/// Pushes of a coded round repeat samples: what counts is the batch that they decode to.
std::uint64_t limits_are_exact::samples_of(const close& round) {
  std::uint64_t out = 0;
  const bool decoded = plans_.contains(round.epoch) && decoded_.contains(plans_.at(round.epoch).protocol.name);
  for (const contribution& part : round.contributions)
    if (decoded)
      out = global_batch_[part.id];
    else if (counted_.insert(part.id).second)
      out += static_cast<std::uint64_t>(pushed_[part.id].samples);
  return out;
}

void limits_are_exact::decided(nanoseconds, holder_id shard, const lead& by, const lead_effects& effects) {
  if (shard.value != 0)
    return;
  const auto is_close = [](const lead_effect& effect) { return std::holds_alternative<close>(effect); };
  // A lead that takes over may hold once more, until it hears what it was told to do since.
  if (!proposed_.empty() && std::ranges::none_of(effects, is_close))
    return;
  bool reached = holds_;
  // Where steps are but counted, a version is followed by the ends of the pushes that it counts. One that was made again is as
  // the last who made it report it. If those who reported a version are dead, the next one says how much is applied.
  const auto counted = [&](const lead_effect& version_made) -> std::uint64_t {
    const push* last = nullptr;
    for (const lead_effect* next = &version_made + 1; next <= &effects.back(); ++next) {
      const auto* end = std::get_if<drop_order>(next);
      if (end == nullptr)
        break;
      if (const push& one = pushed_[end->id]; last == nullptr || one.epoch > last->epoch)
        last = &one;
    }
    if (last == nullptr)
      return 0;
    return last->applied > 0 ? last->applied - std::min(last->applied, samples_) : static_cast<std::uint64_t>(last->samples);
  };
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect)) {
      if (reached)
        wrong(fmt::format("version {} is made while the lead holds", round->ver.value));
      if (round->samples_before != samples_)
        wrong(fmt::format("version {}: {} samples are applied before it, not {}", round->ver.value, samples_,
                          round->samples_before));
      samples_ += decentralized_ ? counted(effect) : samples_of(*round);
      const hold_order limit = round->decision != 0 ? proposed_[round->decision] : limit_;
      reached = limit.now || (limit.at_samples != 0 && samples_ >= limit.at_samples)
                || (limit.at_version != 0 && round->ver.value >= limit.at_version);
      if (reached) {
        if (limit == limit_)
          limit_ = {};
        held_at_ = round->ver;
        if (!round->send_to.empty())
          wrong(fmt::format("version {} is sent, and should be held", round->ver.value));
      }
    } else if (const auto* order = std::get_if<send_order>(&effect)) {
      if (reached && order->to != std::vector{evaluator})
        wrong(fmt::format("version {} is sent while the lead holds", order->ver.value));
    } else if (const auto* fact = std::get_if<report>(&effect)) {
      if (fact->event == report::kind::round_closed && by.samples_applied() < fact->samples)
        wrong("more samples are reported than applied");
    }
  if (reached != by.held())
    wrong(fmt::format("version {} is {}", by.current().value, reached ? "past the limit" : "held before the limit"));
  holds_ = by.held();
  if (by.samples_applied() != samples_)
    wrong(fmt::format("{} samples are applied, and the lead says {}", samples_, by.samples_applied()));
}

// -- sets are of one sending

sets_are_of_one_sending::sets_are_of_one_sending(const options& job) {
  const auto entry = find_protocol(job.protocol.name, job.added);
  per_push_ = entry && entry->per_push;
}

void sets_are_of_one_sending::heard(nanoseconds, endpoint, endpoint to, const message& msg) {
  const auto* now = std::get_if<plan_envelope>(&msg);
  if (now == nullptr || to.kind != role::worker)
    return;
  if (plan& newest = newest_[{to.index}]; (*now)->epoch > newest.epoch) // another coordinator tells some again
    newest = **now;
  for (const member& who : (*now)->workers)
    if (who.worker.value == to.index)
      first_plans_.try_emplace(who, (*now)->epoch);
}

void sets_are_of_one_sending::joining(member who, std::span<const params> parts) {
  for (const params& part : parts) {
    const auto first = first_plans_.find(who);
    if (first == first_plans_.end() || part.epoch < first->second)
      wrong(
          fmt::format("worker {} joins parameters under plan {}, which were for an older life", text_of(who), part.epoch.value));
    else if (part.epoch > newest_[who.worker].epoch)
      wrong(fmt::format("worker {} joins parameters of plan {} before it has come", text_of(who), part.epoch.value));
    if (part.key != parts.front().key || (!per_push_ && part.ver != parts.front().ver))
      wrong(fmt::format("worker {} joins parts of v{} and v{}", text_of(who), parts.front().ver.value, part.ver.value));
  }
}

// -- norms are whole

norms_are_whole::norms_are_whole(const options& job) : shards_(job.job.shards) {
  const auto entry = find_protocol(job.protocol.name, job.added);
  clips_ = job.clips && entry && entry->sums_gradients(job.protocol);
}

void norms_are_whole::applying(nanoseconds, nanoseconds, holder_id shard, const close& round, std::span<const operand> sum) {
  squared_norm whole;
  for (std::uint32_t i = 0; clips_ && i < shards_; ++i)
    whole += squares_of(tally_of(sum));
  if (round.step.squares != whole)
    wrong(fmt::format("shard {} makes v{} by squares of {} instead of {}", shard.value, round.ver.value, round.step.squares.low,
                      whole.low));
}

// -- the bound is kept

void bound_is_kept::heard(nanoseconds, endpoint, endpoint to, const message& msg) {
  if (to.kind != role::holder)
    return;
  one_shard& own = shards_[{to.index}];
  if (const auto* gone = std::get_if<worker_down>(&msg)) {
    own.clocks.erase({gone->worker, gone->incarnation});
    own.dead.insert({gone->worker, gone->incarnation});
  }
  if (const auto* now = std::get_if<plan_envelope>(&msg); now != nullptr && is_news(own.newest, **now)) {
    std::erase_if(own.clocks, [&](const auto& entry) { return !(*now)->has(entry.first); });
    std::uint64_t slowest = 0;
    for (bool first = true; const auto& [who, clock] : own.clocks) {
      slowest = first ? clock : std::min(slowest, clock);
      first = false;
    }
    for (const member& who : (*now)->workers)
      if (!own.dead.contains(who))
        own.clocks.try_emplace(who, slowest);
  }
}

void bound_is_kept::count(one_shard& own, const push_id& id) {
  if (const auto clock = own.clocks.find(author(id)); own.seen.insert(id).second && clock != own.clocks.end())
    ++clock->second;
}

void bound_is_kept::check(const one_shard& own, holder_id shard, const std::vector<worker_id>& to) {
  std::uint64_t slowest = ~std::uint64_t{0};
  for (const auto& [who, clock] : own.clocks)
    slowest = std::min(slowest, clock);
  for (const auto& [who, clock] : own.clocks)
    if (std::ranges::count(to, who.worker) > 0 && clock - slowest > bound_)
      wrong(fmt::format("shard {} lets worker {} go on at clock {}, and the slowest is at {}", shard.value, text_of(who), clock,
                        slowest));
}

void bound_is_kept::decided(nanoseconds, holder_id shard, const lead&, const lead_effects& effects) {
  one_shard& own = shards_[shard];
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect)) {
      for (const contribution& part : round->contributions)
        count(own, part.id);
      check(own, shard, round->send_to);
    } else if (const auto* drop = std::get_if<drop_order>(&effect)) {
      count(own, drop->id);
    } else if (const auto* order = std::get_if<send_order>(&effect)) {
      check(own, shard, order->to);
    }
}

// -- nobody is left behind

void nobody_is_left_behind::heard(nanoseconds, endpoint, endpoint to, const message& msg) {
  if (const auto* now = std::get_if<plan_envelope>(&msg))
    plans_.try_emplace((*now)->epoch, **now);
  if (const auto* gone = std::get_if<worker_down>(&msg); gone != nullptr && to.kind == role::holder)
    dead_.insert({gone->worker, gone->incarnation});
  if (const auto* come = std::get_if<arrival>(&msg)) {
    version& newest = newest_[author(come->push.id)];
    newest = std::max(newest, come->push.base);
  }
}

void nobody_is_left_behind::decided(nanoseconds, holder_id, const lead&, const lead_effects& effects) {
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect); round != nullptr && plans_.contains(round->epoch))
      for (const member& who : plans_.at(round->epoch).workers) {
        const auto come = newest_.find(who);
        std::uint64_t& misses = misses_[who];
        misses = dead_.contains(who) || (come != newest_.end() && next(come->second) == round->ver) ? 0 : misses + 1;
        if (misses > most_)
          wrong(fmt::format("version {} is the {}th in a row without worker {}", round->ver.value, misses, text_of(who)));
      }
}

} // namespace troupe::protocols::sim
