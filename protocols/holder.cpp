// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps or refuses pushes, performs the lead's orders in order.
#include "protocols/holder.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

report refused(const push& msg) {
  return {.event = report::kind::push_discarded, .ver = msg.base, .worker = msg.id.worker};
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
  return {};
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
  state_.newest.insert_or_assign(id.worker, id);
  state_.kept.emplace(id, msg.gradient);
  send_arrival out{{place_.self, msg}};
  out.arrival.push.gradient = {};
  return {out};
}

holder_effects holder::on(const worker_down& msg) {
  const push_id last_push{msg.worker, msg.incarnation, clock_tick{std::numeric_limits<clock_tick::rep>::max()}};
  if (state_.plan.has({msg.worker, msg.incarnation})) {
    push_id& seen = state_.newest[msg.worker];
    seen = std::max(seen, last_push);
  }
  return {};
}

holder_effects holder::on(const holder_down& msg) {
  state_.gone.insert(msg.holder);
  return advance();
}

holder_effects holder::on(const partial& msg) {
  const bool wanted = msg.ver > state_.current && std::ranges::count(place_.children, msg.from) > 0;
  if (!wanted || !state_.partials[msg.ver].try_emplace(msg.from, msg.sum).second) {
    holder_effects out;
    discard_unless_empty(out, msg.sum);
    return out;
  }
  return advance();
}

holder_effects holder::on(const close& msg) {
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
  for (const auto& [id, gradient] : state_.kept) {
    const auto last = state_.newest.find(id.worker);
    TROUPE_ASSERT(last == state_.newest.end() || id <= last->second);
  }
  TROUPE_ASSERT(state_.current <= state_.ordered);
  TROUPE_ASSERT(state_.partials.empty() || state_.partials.begin()->first > state_.current);
  // Orders wait only behind a close whose children have not all sent.
  TROUPE_ASSERT(state_.orders.empty() || !missing(std::get<close>(state_.orders.front()).ver).empty());
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
  for (const auto& [id, gradient] : state_.kept)
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
    if (const auto* round = std::get_if<close>(&state_.orders.front()); round && !missing(round->ver).empty())
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
  std::vector<term> sum;
  for (const contribution& part : round.contributions)
    if (const auto kept = state_.kept.find(part.id); kept != state_.kept.end()) {
      if (kept->second != ticket{})
        sum.push_back({kept->second, part.weight});
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
  if (place_.is_shard)
    out.emplace_back(serve{order});
}

void holder::perform(holder_effects& out, const drop_order& order) {
  if (const auto kept = state_.kept.extract(order.id); kept)
    discard_unless_empty(out, kept.mapped());
}

} // namespace troupe::protocols
