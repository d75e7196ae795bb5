// SPDX-License-Identifier: BSD-3-Clause
// Sum-weight gossip.
#include "protocols/gossip.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/gossip_rule.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::protocols {

namespace {

/// A weight below this is used up: its owner gave to peers that never give back. It is reset to 1.
constexpr double spent = 0x1p-64;
/// Separates the draws of peers from other draws for the same worker and step.
constexpr std::uint64_t peer_draws = 0x70656572;

} // namespace

worker_effects gossip_worker::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  worker_effects out;
  std::erase_if(heard_, [&](const auto& entry) {
    const bool gone = !plan_.has(entry.first);
    if (gone && entry.second.data != ticket{})
      out.emplace_back(discard{entry.second.data});
    return gone;
  });
  for (worker_effect& effect : begin_if_ready())
    out.push_back(std::move(effect));
  return out;
}

worker_effects gossip_worker::on(const params& msg) {
  if (first_)
    return {};
  first_ = msg;
  return begin_if_ready();
}

worker_effects gossip_worker::begin_if_ready() {
  if (begun_ || !first_ || !plan_.has(self_))
    return {};
  begun_ = true;
  late_ = first_->position != memory_.samples;
  const bool has_replica = !late_ && memory_.has_replica && memory_.weight > 0;
  weight_ = late_ ? 0 : has_replica ? memory_.weight : 1;
  next_position_ = has_replica ? memory_.position : first_->position;
  worker_effects out{adopt{first_->ver, first_->parameters}};
  if (!has_replica)
    out.emplace_back(mix{{{first_->parameters, 1}}});
  out.emplace_back(next_step());
  return out;
}

kept_replica gossip_worker::kept() const {
  return {.sum = mean(), .weight = weight_here(), .position = position_};
}

worker_effects gossip_worker::on(const computed& msg) {
  if (!begun_ || msg.step != steps_ || !plan_.has(self_))
    return {};
  if (!msg.finite)
    weight_ = 0;
  else if (weight_ < spent && !late_)
    weight_ = 1;
  worker_effects out;
  if (msg.samples > 0 && msg.finite)
    made_ = {made_.steps + 1, made_.samples + static_cast<std::uint64_t>(msg.samples)};
  if (msg.samples > 0)
    out.emplace_back(send_push{{.epoch = plan_.epoch,
                                .id = {self_.worker, self_.incarnation, {msg.step}},
                                .samples = msg.samples,
                                .loss = msg.loss,
                                .compute = msg.compute,
                                .finite = msg.finite,
                                .ignored = msg.ignored}});
  idle_ = msg.samples == 0 && nothing_came();
  if (!idle_)
    go_on(out);
  return out;
}

worker_effects gossip_worker::on(const peer_message& msg) {
  if (msg.from == self_) {
    weight_ += msg.weight;
    return {};
  }
  const auto known = heard_.find(msg.from);
  const bool stale = known != heard_.end() && msg.round <= known->second.round;
  if (stale || !(msg.weight > 0) || !plan_.has(msg.from))
    return {discard{msg.data}};
  peer_message& last = heard_.try_emplace(msg.from, peer_message{.weight = 0}).first->second;
  worker_effects out;
  if (last.data != ticket{})
    out.emplace_back(discard{last.data});
  last = {msg.from, msg.round, last.weight + msg.weight, msg.data};
  if (std::exchange(idle_, false))
    go_on(out);
  return out;
}

worker_effects gossip_worker::on(const fetch_order& msg) {
  return {send_peer{evaluator, {.from = self_, .round = msg.ver.value, .weight = begun_ && !late_ ? 1.0 : 0.0, .made = made_}}};
}

void gossip_worker::check() const {
  TROUPE_ASSERT(weight_ >= 0);
  TROUPE_ASSERT(!begun_ || first_);
  for (const auto& [from, msg] : heard_) {
    TROUPE_ASSERT(plan_.has(from) && from != self_);
    TROUPE_ASSERT((msg.weight > 0) == (msg.data != ticket{}));
  }
}

/// The boundary between two steps.
void gossip_worker::go_on(worker_effects& out) {
  mix_in(out);
  share_out(out);
  out.emplace_back(next_step());
}

bool gossip_worker::nothing_came() const {
  return std::ranges::all_of(heard_, [](const auto& from) { return from.second.weight == 0; });
}

double gossip_worker::weight_here() const {
  double total = weight_;
  for (const auto& [from, msg] : heard_)
    total += msg.weight;
  return total;
}

std::vector<term> gossip_worker::mean() const {
  const double total = weight_here();
  std::vector<term> out;
  if (weight_ > 0)
    out.push_back({own_parameters, weight_ / total});
  for (const auto& [from, msg] : heard_)
    if (msg.weight > 0)
      out.push_back({msg.data, msg.weight / total});
  return out;
}

void gossip_worker::mix_in(worker_effects& out) {
  if (nothing_came())
    return;
  out.emplace_back(mix{mean()});
  weight_ = weight_here();
  late_ = false;
  for (auto& [from, msg] : heard_)
    if (std::exchange(msg.weight, 0) > 0)
      out.emplace_back(discard{std::exchange(msg.data, {})});
}

void gossip_worker::share_out(worker_effects& out) {
  std::vector<worker_id> others;
  for (const member& who : plan_.workers)
    if (who != self_)
      others.push_back(who.worker);
  const std::size_t count = std::min<std::size_t>(peers_, others.size());
  if (count == 0 || !(weight_ > 0))
    return;
  weight_ /= static_cast<double>(count + 1);
  random_stream draw = random_stream::keyed(seed_, peer_draws, self_.worker.value, next_position_);
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(others[i], others[i + draw.below(others.size() - i)]);
    out.emplace_back(send_peer{others[i], {.from = self_, .round = steps_, .weight = weight_}});
  }
}

/// Its cut of the next global batch. If the batch has fewer samples than there are workers, cuts are shared, so that every worker
/// has some.
local_step gossip_worker::next_step() {
  const auto n = static_cast<std::uint32_t>(plan_.workers.size());
  position_ = std::exchange(next_position_, plan_.after(next_position_));
  const auto cuts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(next_position_ - position_, 1, n));
  const auto rank = static_cast<std::uint32_t>(plan_.rank_of(self_.worker));
  return {{.step = ++steps_, .position = position_, .batches = n, .cuts = cuts, .parts = {{rank % cuts, 1}}}};
}

protocol gossip_protocol() {
  const auto peers = integer_parameter("peers", 1, 1, "peers to which a worker sends its replica after each step");
  return {.name = "gossip",
          .summary =
              "decentralized averaging between random peers: each averages its own replica with another's; any worker may die",
          .round_is_full = "each step alone; mixed by the weights that travel with the replicas (sum-weight gossip)",
          .recipients = "peers drawn at random, after each step; no worker waits",
          .pays_when = "the link is slow, and any worker may die",
          .decentralized = true,
          .resumable = true,
          .parameters = {peers},
          .validate = [peers](const protocol_spec& spec, std::uint32_t workers) -> std::string {
            const std::int64_t count = peers.of(spec);
            return count > 1 && count >= workers
                       ? fmt::format("peers = {}, and of {} workers each has only {} beside it", count, workers, workers - 1)
                       : "";
          },
          .keeps = [](const protocol_spec&) { return footprint{.replica = true}; },
          .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<gossip_rule>(); },
          .make_worker =
              [peers](const protocol_spec& spec, member self, std::uint64_t seed) {
                return std::make_unique<gossip_worker>(self, static_cast<std::uint32_t>(peers.of(spec)), seed);
              }};
}

} // namespace troupe::protocols
