// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps or refuses pushes, performs the lead's orders in order.
#include "protocols/holder.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/copying.hpp"
#include "protocols/tree.hpp"

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
    if (msg.rooted > state_.plan.epoch)
      take_place(msg);
    state_.plan = msg;
    // Pushes of workers forgotten here are refused as foreign from now on. One that is kept came ahead of the plan that brings
    // its worker back.
    std::erase_if(state_.newest, [this](const auto& seen) {
      const auto first = state_.kept.lower_bound({.worker = seen.first});
      return state_.plan.rank_of(seen.first) < 0 && (first == state_.kept.end() || first->first.worker != seen.first);
    });
  }
  return advance();
}

void holder::take_place(const plan& in) {
  if (!place_.tree)
    return;
  holder_place now = holder_tree(*place_.tree, in.gone).at(place_.backup_of.value_or(place_.self).value);
  place_.children = std::move(now.children);
  place_.parents = std::move(now.parents);
  place_.workers = std::move(now.workers);
}

holder_effects holder::on(const push& msg) {
  const push_id id = msg.id;
  const auto seen = state_.newest.find(id.worker);
  const bool old = (seen != state_.newest.end() && id <= seen->second) || state_.kept.contains(id);
  // The lead judges a push of a plan that is not here yet: if it were refused, the lead would wait for it for ever.
  const bool foreign = msg.epoch <= state_.plan.epoch && !state_.plan.has({id.worker, id.incarnation});
  if (old || foreign) {
    holder_effects out;
    discard_unless_empty(out, msg.gradient);
    out.emplace_back(refused(msg));
    return out;
  }
  // A push may come again for a lead that has not heard of it; which are decided, the lead knows.
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
  std::erase(place_.backups, msg.holder);
  state_.admitted.erase(msg.holder);
  state_.asked_for.erase(msg.holder);
  return advance();
}

/// Of any aggregator: a new child may be ahead of the plan that makes it one.
holder_effects holder::on(const partial& msg) {
  if (place_.commits && place_.backup_of == msg.from)
    return on(summed{msg.ver, msg.decision, msg.sum, false});
  holder_effects out;
  if (!place_.tree || msg.ver <= state_.current || is_outside()) {
    discard_unless_empty(out, msg.sum);
    return out;
  }
  const child_sum fresh{msg.decision, msg.sum};
  const auto [known, first] = state_.partials[msg.ver].try_emplace(msg.from, fresh);
  if (!first)
    discard_unless_empty(out, msg.decision > known->second.decision ? std::exchange(known->second, fresh).sum : msg.sum);
  add_all(out, advance());
  return out;
}

holder_effects holder::on(const close& msg) {
  if (is_outside())
    return {};
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

void holder::check() const {
  for (const auto& [id, part] : state_.kept) {
    const auto last = state_.newest.find(id.worker);
    TROUPE_ASSERT(place_.commits || last == state_.newest.end() || id <= last->second);
  }
  TROUPE_ASSERT(state_.current <= state_.ordered);
  TROUPE_ASSERT(state_.partials.empty() || state_.partials.begin()->first > state_.current);
  // Orders wait only behind a close that is not committed, or whose sum is not here, or not measured.
  if (!state_.orders.empty()) {
    const version waits = std::get<close>(state_.orders.front()).ver;
    const auto sum = state_.sums.find(waits);
    const bool lacks_sum = sum == state_.sums.end() || (place_.clips && !sum->second.squares);
    TROUPE_ASSERT(place_.commits && (state_.committed < waits || (place_.is_shard && lacks_sum)));
  }
  TROUPE_ASSERT(place_.commits || (state_.sums.empty() && state_.sent.empty() && state_.partials.empty()));
  TROUPE_ASSERT(state_.sums.empty() || state_.sums.begin()->first > state_.current);
}

std::vector<holder_id> holder::waiting_for() const {
  // Only a close waits, so the first of what is queued is one.
  return state_.orders.empty() || place_.backup_of ? std::vector<holder_id>{} : missing(std::get<close>(state_.orders.front()));
}

std::vector<holder_id> holder::children_missing() const {
  const auto sums = state_.partials.find(next(state_.current));
  std::vector<holder_id> out;
  for (const holder_id child : place_.children)
    if (sums == state_.partials.end() || !sums->second.contains(child))
      out.push_back(child);
  return out;
}

std::vector<worker_id> holder::workers_missing() const {
  std::set<worker_id> here;
  for (const auto& [id, part] : state_.kept)
    here.insert(id.worker);
  std::vector<worker_id> out;
  for (const auto& who : state_.plan.workers)
    if (takes(place_, who.worker) && !here.contains(who.worker))
      out.push_back(who.worker);
  return out;
}

std::vector<holder_id> holder::missing(const close& round) const {
  std::vector<holder_id> out;
  if (const auto sum = state_.sums.find(round.ver); sum != state_.sums.end() && sum->second.decision == round.decision)
    return out;
  const auto sums = state_.partials.find(round.ver);
  const auto is_here = [&](holder_id child) {
    const auto sent = sums == state_.partials.end() ? decltype(sums->second.end()){} : sums->second.find(child);
    return sums != state_.partials.end() && sent != sums->second.end() && sent->second.decision == round.decision;
  };
  std::ranges::copy_if(place_.children, std::back_inserter(out), std::not_fn(is_here));
  return out;
}

holder_effects holder::enqueue(holder_order msg) {
  if (is_outside())
    return {};
  state_.orders.push_back(std::move(msg));
  return advance();
}

holder_effects holder::advance() {
  holder_effects out;
  while (!state_.orders.empty()) {
    if (const auto* round = std::get_if<close>(&state_.orders.front()); round && place_.commits && !ready(out, *round))
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
  ask_for_copies(out, place_, state_);
  answer_requests(out, place_, state_);
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
    } else if (takes(place_, part.id.worker)) {
      // The lead counts only what every holder has reported, so an order was lost or forged.
      out.emplace_back(report{.event = report::kind::note,
                              .ver = round.ver,
                              .worker = part.id.worker,
                              .text = "a close names a push that is not kept here"});
    }
  state_.current = round.ver;
  out.emplace_back(apply_round{std::move(sum), round});
}

void holder::perform(holder_effects& out, const send_order& order) {
  if (place_.commits)
    for (const worker_id to : order.to)
      if (auto& newest = state_.sent[to]; newest.key <= order.key) { // a new lead may repeat one from before a version
        newest = order;
        newest.to = {to};
      }
  if (place_.is_shard && !place_.backup_of)
    out.emplace_back(serve{order});
  else if (place_.is_shard && !state_.joins)
    out.emplace_back(follow{order});
}

void holder::perform(holder_effects& out, const drop_order& order) {
  const auto kept = state_.kept.extract(order.id);
  if (!kept)
    return;
  discard_unless_empty(out, std::exchange(kept.mapped().gradient, ticket{}));
  if (place_.commits)
    if (push& last = state_.dropped[order.id.worker]; last.id < order.id)
      last = kept.mapped();
}

// -- where versions are made in two phases

/// A lead that has taken over decides again what the last one may have decided. What is made here stays as it is.
void holder::prepare(holder_effects& out, const close& round) {
  if (round.ver <= state_.current) {
    if (round.ver == state_.current) // where it was not made here: one that catches up has nothing of it, and lacks nothing
      state_.decided = round.decision;
    say_prepared(out, round);
    return;
  }
  settle_doubt(round.ver);
  // No lead decides on a version before the last one is committed.
  commit(version{round.ver.value - 1}, round.squares_before);
  if (round.view < state_.view) {
    state_.doubtful = round;
    return;
  }
  state_.view = round.view;
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
  if (place_.is_shard)
    out.emplace_back(send_prepared{{place_.self, round.ver, round.decision, possible, squares_to_say(round.ver)}});
}

/// A backup's are those of its shard, which says them.
squared_norm holder::squares_to_say(version ver) const {
  return place_.backup_of ? squared_norm{} : squares_of(ver);
}

squared_norm holder::squares_of(version ver) const {
  const auto sum = state_.sums.find(ver);
  return sum != state_.sums.end() ? sum->second.squares.value_or(squared_norm{})
         : ver == state_.current  ? state_.made_of
                                  : squared_norm{};
}

void holder::commit(version ver, const squared_norm& of) {
  if (ver <= state_.committed)
    return;
  state_.committed = ver;
  state_.committed_of = of;
}

/// Whether the version may be made: the sum of this very decision is here, and it is committed. An aggregator's sum may not be
/// wanted any more.
bool holder::ready(holder_effects& out, const close& round) {
  const auto sum = state_.sums.find(round.ver);
  if (sum == state_.sums.end() || sum->second.decision != round.decision) {
    if (!place_.backup_of)
      sum_up_if_complete(out, round);
    return !place_.is_shard && state_.committed >= round.ver;
  }
  if (!place_.backup_of && !sum->second.own) {
    const ticket inherited = state_.sums.extract(sum).mapped().sum;
    out.emplace_back(
        sum_up{inherited == ticket{} ? std::vector<term>{} : std::vector{term{inherited, 1}}, round, place_.backups});
    return false;
  }
  if (place_.clips && place_.is_shard && !sum->second.squares)
    return false;
  if (state_.joins && !state_.joins->asked.empty() && state_.committed < round.ver)
    return false;
  if (!std::exchange(state_.announced, true)) {
    if (place_.is_shard)
      say_prepared(out, round);
    else
      out.emplace_back(forward{round.ver, round.decision, sum->second.sum, place_.parents});
  }
  return state_.committed >= round.ver;
}

/// A push that a shard which has taken over lacks comes again, unless its worker is gone. Children's sums are weighted already.
void holder::sum_up_if_complete(holder_effects& out, const close& round) {
  sum_up whole{.sum = {}, .round = round, .backups = place_.backups};
  bool complete = has_places_of(round) && missing(round).empty(), possible = round.epoch >= state_.plan.rooted;
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.find(part.id); kept != state_.kept.end()) {
      if (const ticket gradient = kept->second.gradient; gradient != ticket{})
        whole.sum.push_back({gradient, part.weight});
    } else if (takes(place_, part.id.worker)) {
      complete = false;
      possible = possible && !is_gone(part.id);
    }
  if (complete) {
    for (const auto sums = state_.partials.extract(round.ver); const holder_id child : place_.children)
      if (const ticket sum = sums.mapped().at(child).sum; sum != ticket{})
        whole.sum.push_back({sum, 1});
    out.emplace_back(std::move(whole));
  } else if (!possible && place_.is_shard && !std::exchange(state_.refused, true)) {
    say_prepared(out, round, false);
  }
}

bool holder::has_places_of(const close& round) const {
  return !place_.tree || (round.epoch >= state_.plan.rooted && round.epoch <= state_.plan.epoch);
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
  summed& sum = state_.sums.insert_or_assign(msg.ver, msg).first->second;
  if (place_.clips && place_.is_shard && msg.sum != ticket{})
    out.emplace_back(measure{msg.ver, msg.decision, msg.sum});
  else
    sum.squares.emplace();
  add_all(out, advance());
  return out;
}

/// Of the sum that is here, or of one that another has replaced.
holder_effects holder::on(const measured& msg) {
  const auto sum = state_.sums.find(msg.ver);
  if (sum == state_.sums.end() || sum->second.decision != msg.decision)
    return {};
  sum->second.squares = msg.squares;
  return advance();
}

/// The close that waits for its commit, if one does. Its sum may be that of another one's.
std::optional<close> holder::take_back_uncommitted() {
  for (auto order = state_.orders.begin(); order != state_.orders.end(); ++order)
    if (const auto* open = std::get_if<close>(&*order); open != nullptr && open->ver > state_.committed) {
      close out = *open;
      state_.ordered = version{out.ver.value - 1};
      state_.orders.erase(order);
      state_.announced = state_.refused = false;
      return out;
    }
  return {};
}

/// Whoever proposes a version knows that the one before is committed, though its commit may have been lost with its lead.
void holder::settle_doubt(version proposed) {
  const auto doubtful = std::exchange(state_.doubtful, std::nullopt);
  if (!doubtful || doubtful->ver >= proposed || doubtful->ver <= state_.ordered)
    return;
  state_.ordered = doubtful->ver;
  state_.orders.emplace_back(*doubtful);
}

holder_effects holder::on(const commit_order& msg) {
  const auto is_it = [&msg](const close& open) { return open.ver == msg.ver && open.decision == msg.decision; };
  if (state_.doubtful && is_it(*state_.doubtful))
    msg.abandoned ? state_.doubtful.reset() : settle_doubt(next(msg.ver));
  for (const holder_order& order : state_.orders)
    if (const auto* open = std::get_if<close>(&order); open != nullptr && is_it(*open)) {
      if (msg.abandoned)
        take_back_uncommitted();
      else
        commit(msg.ver, msg.squares);
      break;
    }
  return advance();
}

void holder::make(holder_effects& out, const close& round) {
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.find(part.id); kept != state_.kept.end() && !round.keep) {
      discard_unless_empty(out, kept->second.gradient);
      state_.kept.erase(kept);
    }
  state_.made_of = squares_of(round.ver);
  state_.current = round.ver;
  state_.decided = round.decision;
  state_.announced = state_.refused = false;
  if (state_.joins)
    state_.joins->asked.clear();
  if (place_.is_shard) {
    send_order order = order_of(round);
    for (const worker_id to : round.send_to) {
      order.to = {to};
      state_.sent[to] = order;
    }
    apply_round step{{}, round};
    step.round.step.squares = state_.committed_of;
    if (const ticket sum = state_.sums.extract(round.ver).mapped().sum; sum != ticket{})
      step.sum.push_back({sum, 1});
    if (place_.backup_of)
      step.round.send_to.clear();
    out.emplace_back(std::move(step));
    if (place_.backup_of && !state_.joins && !round.send_to.empty())
      out.emplace_back(follow{order_of(round)});
  }
  forget_sums(out, round.ver);
}

void holder::forget_sums(holder_effects& out, version upto) {
  const auto end = state_.sums.upper_bound(upto);
  for (auto sum = state_.sums.begin(); sum != end; sum = state_.sums.erase(sum))
    discard_unless_empty(out, sum->second.sum);
  const auto last = state_.partials.upper_bound(upto);
  for (auto round = state_.partials.begin(); round != last; round = state_.partials.erase(round))
    for (const auto& [child, sent] : round->second)
      discard_unless_empty(out, sent.sum);
}

/// The new lead may not have heard of what the last one had: pushes that are kept are reported again. What the last one has
/// proposed, and not committed, the new one proposes again, if it knows of it.
holder_effects holder::on(const takes_over& msg) {
  holder_effects out;
  std::erase(place_.backups, msg.by);
  const bool this_one = msg.by == place_.self;
  if (place_.backup_of == msg.shard)
    ask_again(out, place_, state_);
  if (this_one) {
    place_.self = msg.shard;
    place_.backup_of.reset();
    std::ranges::for_each(msg.backups, [this](holder_id each) { add_backup(each); });
    for (const auto& [to, order] : state_.sent)
      out.emplace_back(serve{order});
  }
  // What was said of a close was said by another one, or to another one.
  if (this_one || msg.shard == holder_id{0})
    state_.announced = state_.refused = false;
  else if (!place_.is_shard && state_.announced)
    forward_again(out, msg.shard);
  if ((this_one || msg.shard == holder_id{0}) && state_.decided != 0 && place_.is_shard)
    out.emplace_back(send_prepared{{place_.self, state_.current, state_.decided, true, squares_to_say(state_.current)}});
  if (msg.shard == holder_id{0} && msg.view > state_.view) {
    state_.view = msg.view;
    if (auto open = take_back_uncommitted())
      state_.doubtful = std::move(open);
  }
  add_all(out, advance());
  if ((this_one || msg.shard == holder_id{0}) && !place_.backup_of) {
    for (const auto& [id, part] : state_.kept)
      out.emplace_back(arrived(place_.self, part));
    for (const auto& [worker, part] : state_.dropped)
      out.emplace_back(arrived(place_.self, part));
  }
  return out;
}

// -- catching up

/// Whoever leads next may admit it again.
holder_effects holder::on(const admit_order& msg) {
  holder_effects out;
  if (msg.holder == place_.self && is_outside()) {
    state_.joins->admitted = true;
    state_.joins->view = msg.view;
    state_.current = state_.ordered = state_.committed = msg.ver;
    forget_sums(out, msg.ver); // its shard may have heard of it before
    ask_for_copies(out, place_, state_);
  } else if (msg.holder != place_.self && place_.backup_of.value_or(place_.self) == msg.shard) {
    if (add_backup(msg.holder)) // it lacks what was summed here before this was heard
      for (auto& [ver, sum] : state_.sums)
        sum.own = false;
    std::uint64_t& view = state_.admitted[msg.holder];
    view = std::max(view, msg.view); // what the last lead had said may come late
    add_all(out, advance());
  }
  return out;
}

/// Whether it is new here.
bool holder::add_backup(holder_id who) {
  const bool added = std::ranges::count(place_.backups, who) == 0;
  if (added)
    place_.backups.push_back(who);
  return added;
}

holder_effects holder::on(const copy_request& msg) {
  holder_effects out;
  state_.asked_for.insert_or_assign(msg.from, msg);
  answer_requests(out, place_, state_);
  return out;
}

/// A piece is of no use where it has been asked for again, for it is of another version.
holder_effects holder::on(const shard_piece& msg) {
  holder_effects out;
  auto& joins = state_.joins;
  if (!joins || msg.ver != state_.current || joins->asked.erase(msg.piece) == 0) {
    discard_unless_empty(out, msg.data);
    return out;
  }
  joins->here.insert(msg.piece);
  state_.made_of = msg.squares; // if it leads next, others may have this version still to make
  for (const send_order& order : msg.sent)
    if (send_order& newest = state_.sent[order.to.front()]; newest.key < order.key)
      newest = order;
  if (msg.data != ticket{})
    out.emplace_back(install{msg});
  if (joins->here.size() == joins->pieces) {
    joins.reset();
    out.emplace_back(send_caught_up{{place_.self}});
  }
  add_all(out, advance());
  return out;
}

/// The shard's predecessor may not have summed it.
void holder::forward_again(holder_effects& out, holder_id to) const {
  const close& round = std::get<close>(state_.orders.front());
  if (std::ranges::count(place_.parents, to) > 0)
    out.emplace_back(forward{round.ver, round.decision, state_.sums.at(round.ver).sum, {to}});
}

} // namespace troupe::protocols
