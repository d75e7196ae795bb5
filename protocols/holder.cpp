// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps or refuses pushes, performs the lead's orders in order.
#include "protocols/holder.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

report refused(const push& msg) {
  return {.event = report::kind::push_discarded, .ver = msg.base, .worker = msg.id.worker};
}

send_arrival arrived(holder_id at, const push& msg) {
  send_arrival out{{at, msg}};
  out.arrival.push.gradient = {};
  return out;
}

/// Not older than any push of this incarnation.
push_id end_of(member who) {
  return {who.worker, who.incarnation, clock_tick{std::numeric_limits<clock_tick::rep>::max()}};
}

void add_all(holder_effects& out, holder_effects more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void discard_unless_empty(holder_effects& out, ticket tensor) {
  if (tensor != ticket{})
    out.emplace_back(discard{tensor});
}

} // namespace

holder::holder(holder_place place, holder_state from) : place_(std::move(place)), state_(std::move(from)) {}

holder::~holder() = default;

holder_effects holder::on(const plan& msg) {
  if (msg.epoch > state_.plan.epoch) {
    state_.plan = msg;
    // Pushes of workers forgotten here are refused as foreign from now on.
    std::erase_if(state_.newest, [this](const auto& seen) { return state_.plan.rank_of(seen.first) < 0; });
  }
  return advance();
}

holder_effects holder::on(const push& msg) {
  const push_id id = msg.id;
  const auto seen = state_.newest.find(id.worker);
  // A push may be kept though its worker was forgotten: it came ahead of the plan that brought the worker back, and the plan that
  // left it out came after.
  const bool old = (seen != state_.newest.end() && id <= seen->second) || state_.kept.contains(id);
  // The lead judges a push of a plan that is not here yet: if it were refused, the lead would wait for it for ever.
  const bool foreign = msg.epoch <= state_.plan.epoch && !state_.plan.has({id.worker, id.incarnation});
  if (old || foreign) {
    holder_effects out;
    discard_unless_empty(out, msg.gradient);
    out.emplace_back(refused(msg));
    return out;
  }
  // Where shards have backups, a push may come again for a lead that has not heard of it; which are decided, the lead knows.
  if (!place_.commits)
    state_.newest.insert_or_assign(id.worker, id);
  state_.kept.emplace(id, msg);
  if (place_.backup_of) // it says so when it takes the shard's place
    return {};
  holder_effects out = advance(); // a close may wait for it
  out.emplace_back(arrived(place_.self, msg));
  return out;
}

holder_effects holder::on(const worker_down& msg) {
  if (state_.plan.has({msg.worker, msg.incarnation})) {
    push_id& seen = state_.newest[msg.worker];
    seen = std::max(seen, end_of({msg.worker, msg.incarnation}));
  }
  return advance();
}

holder_effects holder::on(const holder_down& msg) {
  state_.gone.insert(msg.holder);
  std::erase(place_.backups, msg.holder);
  return advance();
}

holder_effects holder::on(const partial& msg) {
  if (place_.commits && place_.backup_of == msg.from)
    return on(summed{msg.ver, msg.decision, msg.sum, false});
  const bool wanted = msg.ver > state_.current && std::ranges::count(place_.children, msg.from) > 0;
  if (!wanted || !state_.partials[msg.ver].try_emplace(msg.from, msg.sum).second) {
    holder_effects out;
    discard_unless_empty(out, msg.sum);
    return out;
  }
  return advance();
}

holder_effects holder::on(const close& msg) {
  if (place_.commits) {
    holder_effects out;
    prepare(out, msg);
    add_all(out, advance());
    return out;
  }
  if (msg.ver <= state_.ordered)
    return {};
  state_.ordered = msg.ver;
  return enqueue(msg);
}

holder_effects holder::on(const send_order& msg) {
  return enqueue(msg);
}
holder_effects holder::on(const drop_order& msg) {
  return enqueue(msg);
}
holder_effects holder::on(const retain& msg) {
  return enqueue(msg);
}
holder_effects holder::on(const release& msg) {
  return enqueue(msg);
}
holder_effects holder::on(const report& msg) {
  return enqueue(msg);
}

void holder::check() const {
  for (const auto& [id, part] : state_.kept) {
    const auto last = state_.newest.find(id.worker);
    TROUPE_ASSERT(place_.commits || last == state_.newest.end() || id <= last->second);
  }
  TROUPE_ASSERT(state_.current <= state_.ordered);
  TROUPE_ASSERT(state_.partials.empty() || state_.partials.begin()->first > state_.current);
  // Orders wait only behind a close, whose children have not all sent, or that is not committed.
  if (!state_.orders.empty()) {
    const version waits = std::get<close>(state_.orders.front()).ver;
    TROUPE_ASSERT(!missing(waits).empty() || (place_.commits && (!state_.sums.contains(waits) || state_.committed < waits)));
  }
  TROUPE_ASSERT(place_.commits || (state_.sums.empty() && state_.sent.empty()));
  TROUPE_ASSERT(state_.sums.empty() || state_.sums.begin()->first > state_.current);
}

std::vector<holder_id> holder::waiting_for() const {
  // Only a close waits, so the first of what is queued is one.
  return state_.orders.empty() ? std::vector<holder_id>{} : missing(std::get<close>(state_.orders.front()).ver);
}

std::vector<holder_id> holder::children_missing() const {
  return missing(version{state_.current.value + 1});
}

std::vector<worker_id> holder::workers_missing() const {
  std::set<worker_id> here;
  for (const auto& [id, part] : state_.kept)
    here.insert(id.worker);
  std::vector<worker_id> out;
  for (const auto& who : state_.plan.workers)
    if (place_.workers.contains(who.worker) && !here.contains(who.worker))
      out.push_back(who.worker);
  return out;
}

std::vector<holder_id> holder::missing(version ver) const {
  const auto sums = state_.partials.find(ver);
  std::vector<holder_id> out;
  for (const holder_id child : place_.children)
    if (!state_.gone.contains(child) && (sums == state_.partials.end() || !sums->second.contains(child)))
      out.emplace_back(child);
  return out;
}

holder_effects holder::enqueue(holder_order msg) {
  state_.orders.push_back(std::move(msg));
  return advance();
}

holder_effects holder::advance() {
  holder_effects out;
  while (!state_.orders.empty()) {
    if (const auto* round = std::get_if<close>(&state_.orders.front());
        round && (place_.commits ? !ready(out, *round) : !missing(round->ver).empty()))
      break;
    std::visit(
        [&]<class Order>(const Order& msg) {
          if constexpr (requires { perform(out, msg); })
            perform(out, msg);
          else
            out.emplace_back(msg);
        },
        state_.orders.front());
    state_.orders.pop_front();
  }
  return out;
}

void holder::perform(holder_effects& out, const close& round) {
  if (place_.commits)
    return make(out, round);
  std::vector<term> sum;
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.find(part.id); kept != state_.kept.end()) {
      if (const ticket gradient = kept->second.gradient; gradient != ticket{})
        sum.push_back({gradient, part.weight});
      if (!round.keep)
        state_.kept.erase(kept);
    } else if (place_.workers.contains(part.id.worker)) {
      // The lead counts only what every holder has reported, so an order was lost or forged.
      out.emplace_back(report{.event = report::kind::note,
                              .ver = round.ver,
                              .worker = part.id.worker,
                              .text = "a close names a push that is not kept here"});
    }
  // The children's sums are weighted already.
  const auto sums = std::exchange(state_.partials[round.ver], {});
  state_.partials.erase(round.ver);
  for (const holder_id child : place_.children)
    if (const auto part = sums.find(child); part != sums.end() && part->second != ticket{})
      sum.push_back({part->second, 1});
  state_.current = round.ver;
  if (place_.is_shard)
    out.emplace_back(apply_round{std::move(sum), round});
  else
    out.emplace_back(forward{std::move(sum), round});
}

void holder::perform(holder_effects& out, const send_order& order) {
  if (place_.commits)
    for (const worker_id to : order.to) {
      send_order& newest = state_.sent[to];
      newest = order;
      newest.to = {to};
    }
  if (place_.is_shard && !place_.backup_of)
    out.emplace_back(serve{order});
}

void holder::perform(holder_effects& out, const drop_order& order) {
  if (const auto kept = state_.kept.extract(order.id); kept)
    discard_unless_empty(out, kept.mapped().gradient);
}

// -- where shards have backups

/// A lead that has taken over decides again what the last one may have decided. What is made here stays as it is.
void holder::prepare(holder_effects& out, const close& round) {
  if (round.ver <= state_.current) {
    say_prepared(out, round);
    return;
  }
  // No lead decides on a version before the last one is committed.
  state_.committed = std::max(state_.committed, version{round.ver.value - 1});
  if (round.ver > state_.ordered) {
    state_.ordered = round.ver;
    state_.orders.emplace_back(round);
    return;
  }
  for (holder_order& order : state_.orders)
    if (auto* open = std::get_if<close>(&order);
        open != nullptr && open->ver == round.ver
        && std::tie(round.view, round.decision) >= std::tie(open->view, open->decision)) {
      *open = round;
      state_.announced = state_.refused = false;
    }
}

void holder::say_prepared(holder_effects& out, const close& round, bool possible) const {
  out.emplace_back(send_prepared{{place_.self, round.ver, round.decision, possible}});
}

/// Whether the version may be made: the sum of this very decision is here, and it is committed.
bool holder::ready(holder_effects& out, const close& round) {
  const auto sum = state_.sums.find(round.ver);
  if (sum == state_.sums.end() || sum->second.decision != round.decision) {
    if (!place_.backup_of)
      sum_up_kept(out, round);
    return false;
  }
  if (!place_.backup_of && !sum->second.own) {
    const ticket inherited = state_.sums.extract(sum).mapped().sum;
    out.emplace_back(
        sum_up{inherited == ticket{} ? std::vector<term>{} : std::vector{term{inherited, 1}}, round, place_.backups});
    return false;
  }
  if (!std::exchange(state_.announced, true))
    say_prepared(out, round);
  return state_.committed >= round.ver;
}

/// A push that a shard which has taken over lacks comes again, unless its worker is gone.
void holder::sum_up_kept(holder_effects& out, const close& round) {
  sum_up whole{.sum = {}, .round = round, .backups = place_.backups};
  bool complete = true, possible = true;
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.find(part.id); kept == state_.kept.end()) {
      complete = false;
      possible = possible && !is_gone(part.id);
    } else if (const ticket gradient = kept->second.gradient; gradient != ticket{}) {
      whole.sum.push_back({gradient, part.weight});
    }
  if (complete)
    out.emplace_back(std::move(whole));
  else if (!possible && !std::exchange(state_.refused, true))
    say_prepared(out, round, false);
}

bool holder::is_gone(const push_id& id) const {
  const member author{id.worker, id.incarnation};
  const auto seen = state_.newest.find(id.worker);
  return !state_.plan.has(author) || (seen != state_.newest.end() && end_of(author) <= seen->second);
}

holder_effects holder::on(const summed& msg) {
  holder_effects out;
  const auto known = state_.sums.find(msg.ver);
  if (msg.ver <= state_.current || (known != state_.sums.end() && known->second.decision > msg.decision)) {
    discard_unless_empty(out, msg.sum);
    return out;
  }
  if (known != state_.sums.end())
    discard_unless_empty(out, known->second.sum);
  state_.sums.insert_or_assign(msg.ver, msg);
  add_all(out, advance());
  return out;
}

/// The close that waits, if it is so. Its sum may be that of another one's.
template <class Predicate>
void holder::forget_close_if(Predicate is_void) {
  for (auto order = state_.orders.begin(); order != state_.orders.end(); ++order)
    if (const auto* open = std::get_if<close>(&*order); open != nullptr && is_void(*open)) {
      state_.ordered = version{open->ver.value - 1};
      state_.orders.erase(order);
      state_.announced = state_.refused = false;
      return;
    }
}

holder_effects holder::on(const commit_order& msg) {
  if (msg.abandoned)
    forget_close_if([&msg](const close& open) { return open.ver == msg.ver && open.decision == msg.decision; });
  for (const holder_order& order : state_.orders)
    if (const auto* open = std::get_if<close>(&order);
        open && !msg.abandoned && open->ver == msg.ver && open->decision == msg.decision)
      state_.committed = std::max(state_.committed, msg.ver);
  return advance();
}

void holder::make(holder_effects& out, const close& round) {
  const ticket sum = state_.sums.extract(round.ver).mapped().sum;
  apply_round step{{}, round};
  if (sum != ticket{})
    step.sum.push_back({sum, 1});
  if (place_.backup_of)
    step.round.send_to.clear();
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.extract(part.id); kept)
      discard_unless_empty(out, kept.mapped().gradient);
  for (const worker_id to : round.send_to)
    state_.sent[to] = {round.send_epoch, round.ver, round.key, {to}, round.position, round.period};
  state_.current = round.ver;
  state_.decided = round.decision;
  state_.announced = state_.refused = false;
  out.emplace_back(std::move(step));
  forget_sums(out, round.ver);
}

void holder::forget_sums(holder_effects& out, version upto) {
  const auto end = state_.sums.upper_bound(upto);
  for (auto sum = state_.sums.begin(); sum != end; sum = state_.sums.erase(sum))
    discard_unless_empty(out, sum->second.sum);
}

/// The new lead may not have heard of what the last one had: pushes that are kept are reported again. What the last one has
/// proposed, and not committed, the new one proposes again, if it knows of it.
holder_effects holder::on(const takes_over& msg) {
  holder_effects out;
  std::erase(place_.backups, msg.by);
  const bool this_one = msg.by == place_.self;
  if (this_one) {
    place_.self = msg.shard;
    place_.backup_of.reset();
    for (const auto& [to, order] : state_.sent)
      out.emplace_back(serve{order});
  }
  // What was said of a close was said by another one, or to another one.
  if (this_one || msg.shard == holder_id{0})
    state_.announced = state_.refused = false;
  if (msg.shard == holder_id{0} && state_.decided != 0)
    out.emplace_back(send_prepared{{place_.self, state_.current, state_.decided}});
  if (msg.shard == holder_id{0})
    forget_close_if([&](const close& open) { return open.view < msg.view && open.ver > state_.committed; });
  add_all(out, advance());
  if ((this_one || msg.shard == holder_id{0}) && !place_.backup_of)
    for (const auto& [id, part] : state_.kept)
      out.emplace_back(arrived(place_.self, part));
  return out;
}

} // namespace troupe::protocols
