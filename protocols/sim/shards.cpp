// SPDX-License-Identifier: BSD-3-Clause
// What shards, aggregators and leads of a simulated cluster do.
#include <algorithm>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "protocols/sim/cases.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

params head_of(const send_order& order) {
  return {.epoch = order.epoch, .ver = order.ver, .key = order.key, .position = order.position, .period = order.period};
}

} // namespace

void cluster::holder_role::hear(const message& msg) {
  std::visit(cases{
                 [&](const plan_envelope& m) { bound.on(*m); },
                 [&](const push_envelope& m) { bound.on(m.head, m.gradient); },
                 [&](const partial_envelope& m) { bound.on(m.head, m.sum); },
                 [&](const record_envelope& m) { bound.on(*m); },
                 [&](const piece_envelope& m) { bound.on(m.head, m.data ? std::optional<tensor>{m.data} : std::nullopt); },
                 [&](const takes_over& m) {
                   if (m.by == place.self)
                     place.self = m.shard;
                   moves[m.shard] = m.by;
                   bound.on(m);
                   place = bound.machine().place();
                 },
                 [&](const auto& m) {
                   if constexpr (requires { bound.on(m); })
                     bound.on(m);
                 },
             },
             msg);
}

void cluster::holder_role::hear_as_lead(const message& msg) {
  if (const auto* timer = std::get_if<expired>(&msg))
    return bound.on(expired{timer->timer, now()});
  if (const auto* come = std::get_if<arrival>(&msg); come != nullptr && bound.decides() && bound.decides()->held())
    in.parked_at_lead_.insert(come->push.id);
  hear(msg);
}

void cluster::holder_role::go_on() {
  if (in.clock_.running())
    return;
  in.last_progress_ = in.now_;
  in.clock_.resume();
  in.coordinator_->timers.resume();
  for (holder_role* holder : in.holders_->here())
    holder->timers.resume();
  for (const auto& each : in.workers_)
    if (in.protocol_.decentralized)
      in.unpark(*each);
}

void cluster::holder_role::arm(const arm_timer& timer) {
  timers.arm(timer);
}

void cluster::holder_role::tell_lead(const arrival& msg) {
  if (msg.push.gradient != ticket{})
    broken("a ticket leaves its holder");
  if (in.holders_->reaches({0}, moves))
    in.send(self(), {role::lead, 0}, msg);
}

void cluster::holder_role::tell_lead(const prepared& msg) {
  if (in.holders_->reaches({0}, moves))
    in.send(self(), {role::lead, 0}, msg);
}

template <class Order>
void cluster::holder_role::tell_others(const Order& order, nanoseconds head_start) {
  for (const holder_role* other : in.holders_->here())
    if (other != this)
      in.send(lead_here(), other->self(), order, 0, in.now_ - head_start);
}

void cluster::holder_role::apply(const close& round, const operands<tensor>& sum, const std::optional<tensor>& backup) {
  free_at = std::max(free_at, in.now_) + (sum.empty() ? 0 : in.options_.measured.apply);
  for (listener* each : in.listeners_)
    each->applying(in.now_, free_at, born, round, sum);
  // Without a term the version advances, and the parameters stay as they are.
  std::vector<std::uint64_t> made;
  for (shard_numerics* each : steps_of()) {
    if (!sum.empty())
      each->step(sum, round, backup.value_or(nullptr));
    made.push_back(each->fingerprint());
  }
  for (listener* each : in.listeners_)
    each->made(place.backup_of.value_or(place.self), round.ver, made);
  if (!round.send_to.empty())
    serve(order_of(round));
}

void cluster::holder_role::forward(const partial& head, const std::optional<tensor>& sum, const std::vector<holder_id>& parents) {
  const std::uint32_t shards = in.options_.job.shards;
  const bool sparse = kernels::is_sparse(in.options_.push_form);
  const std::size_t pushes = sparse ? workers_below(holder_tree(in.shape_), place.self).size() : 0;
  const double share = in.options_.pushed_share(head.ver) * static_cast<double>(pushes);
  for (const holder_id parent : parents) {
    if (!in.holders_->reaches(parent, moves))
      continue;
    const bool shard = in.holders_->at(parent.value).place.is_shard;
    const std::uint64_t plain = !sum ? 0 : shard ? in.options_.model_bytes / shards : in.options_.model_bytes;
    const std::uint64_t bytes = sparse ? bytes_in(kernels::form::sparse_fp32, plain, share) : plain;
    partial_envelope out{head, sum};
    if (sum && *sum && shard)
      out.sum = in.maths_.slice(*sum, parent.value, shards);
    in.send(self(), {role::holder, parent.value}, std::move(out), bytes);
  }
}

std::optional<tensor> cluster::holder_role::sum_up(const close& round, const operands<tensor>& sum,
                                                   const std::vector<holder_id>& backups) {
  std::optional<tensor> out;
  if (!sum.empty())
    out = in.maths_.sum(sum);
  for (const holder_id backup : backups)
    in.send(self(), {role::holder, backup.value},
            partial_envelope{{.from = place.self, .ver = round.ver, .decision = round.decision}, out},
            out ? in.options_.model_bytes / in.options_.job.shards : 0);
  return out;
}

void cluster::holder_role::measure(const measured& request, const tensor& sum) {
  bound.on(measured{request.ver, request.decision, maths->squares_of(sum)});
}

void cluster::holder_role::tell_backups(const std::vector<holder_id>& backups, const decision_record& record) {
  const std::vector<std::uint64_t> words = wire::encode_state(record);
  const auto copy = std::make_shared<const decision_record>(wire::decode_state<decision_record>(words).value());
  for (const holder_id backup : backups)
    in.send(lead_here(), {role::holder, backup.value}, copy);
}

// -- catching up: a piece is a copy of its shard, which takes steps from then on

namespace {

constexpr std::uint32_t pieces_of_a_shard = 4; ///< the last of them without a tensor

struct copied_shard final : tensor_data {
  explicit copied_shard(std::unique_ptr<shard_numerics> copy) : copy(std::move(copy)) {}
  std::unique_ptr<shard_numerics> copy;
};

} // namespace

void cluster::holder_role::begin_catching_up() {
  bound.replace(holder_state{.joins = catch_up{.pieces = pieces_of_a_shard}});
  joins = true;
}

/// The whole shard, or the pieces of it that are here.
std::vector<shard_numerics*> cluster::holder_role::steps_of() const {
  std::vector<shard_numerics*> out;
  for (const auto& [index, piece] : pieces)
    out.push_back(piece.get());
  if (!joins)
    out.push_back(maths.get());
  return out;
}

void cluster::holder_role::ask_for_copy(holder_id shard, const copy_request& request) {
  if (in.holders_->reaches(shard, moves))
    in.send(self(), {role::holder, shard.value}, request);
}

void cluster::holder_role::send_copy(holder_id to, shard_piece piece) {
  const bool last = piece.piece + 1 == pieces_of_a_shard;
  piece_envelope out{std::move(piece), last ? tensor{} : std::make_shared<const copied_shard>(maths->clone())};
  in.send(self(), {role::holder, to.value}, std::move(out), last ? 0 : in.options_.model_bytes / in.options_.job.shards);
}

void cluster::holder_role::install(const shard_piece& piece, const tensor& data) {
  if (!pieces.try_emplace(piece.piece, static_cast<const copied_shard&>(*data).copy->clone()).second)
    broken("a piece comes twice");
}

void cluster::holder_role::tell_coordinator(const caught_up& msg) {
  if (pieces.size() + 1 != pieces_of_a_shard)
    return broken("a backup is complete before its pieces are");
  joins = false;
  maths = std::move(pieces.begin()->second);
  pieces.clear();
  in.last_progress_ = in.now_;
  in.note(fmt::format("holder {} has caught up", place.self.value));
  in.send(self(), the_coordinator, msg);
}

void cluster::holder_role::serve(const send_order& order) {
  const std::uint64_t whole = in.options_.model_bytes / in.options_.job.shards;
  if (in.options_.params_form == kernels::form::fp32)
    return send_parameters(order.to, {place.self, head_of(order), maths->parameters()}, whole);
  if (std::ranges::count(order.to, evaluator) > 0)
    send_parameters({evaluator}, {place.self, head_of(order), maths->parameters()}, 0);
  const auto step = image.on(order);
  if (step.moves)
    image_now = maths->move_image(order.ver);
  const double share = in.options_.changed_share(order.ver);
  for (const auto& each : step.sendings)
    send_parameters(each.to, {place.self, head_of(order), image_now},
                    each.base ? bytes_in(in.options_.params_form, whole, share) : whole);
}

void cluster::holder_role::follow(const send_order& order) {
  if (in.options_.params_form == kernels::form::fp32)
    return;
  if (const auto step = image.follow(order); step.moves)
    image_now = maths->move_image(order.ver);
}

void cluster::holder_role::send_parameters(const std::vector<worker_id>& to, const params_envelope& part, std::uint64_t bytes) {
  if (to.empty())
    return;
  const nanoseconds ready = std::max(in.now_, free_at);
  std::vector<std::vector<worker_id>> hosts; // in the order of their first workers
  std::map<host_id, std::size_t> numbers;
  for (const worker_id who : to) {
    if (who == evaluator)
      in.send(self(), the_evaluator, part, 0, ready);
    if (who == evaluator || who.value >= in.workers_.size() || !in.role_of(who).alive)
      continue;
    const auto [number, fresh] = numbers.try_emplace(in.host_of({role::worker, who.value}), hosts.size());
    if (fresh)
      hosts.emplace_back();
    hosts[number->second].push_back(who);
  }
  for (const auto& workers : hosts)
    in.send(self(), {role::worker, workers.front().value}, part, bytes, ready, {workers.begin() + 1, workers.end()});
}

void cluster::holder_role::tells_itself(const arrival& msg) {
  in.tell_listeners(self(), lead_here(), msg);
  if (bound.decides()->held())
    in.parked_at_lead_.insert(msg.push.id);
}

template <class Order>
void cluster::holder_role::tells_itself(const Order& order) {
  in.tell_listeners(lead_here(), self(), order);
}

/// What came while the lead held is decided now, unless it holds again before it has come to that.
void cluster::holder_role::decided(const lead_effects& effects) {
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect); round != nullptr && place.commits)
      if (const auto [known, fresh] = in.committed_.try_emplace(round->ver, round->decision); !fresh) {
        if (known->second != round->decision)
          broken(fmt::format("version {} is decided twice, and not alike", round->ver.value));
        return; // by a lead that has taken over
      }
  for (listener* each : in.listeners_)
    each->decided(in.now_, place.self, *bound.decides(), effects);
  if (!bound.leads_job())
    return;
  if (!bound.decides()->held())
    in.parked_at_lead_.clear();
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect)) {
      in.last_progress_ = in.now_;
      if (in.options_.job.stop.by_steps())
        in.events_at_rest_ = 0;
      for (const contribution& part : round->contributions)
        in.parked_at_lead_.erase(part.id);
    } else if (const auto* drop = std::get_if<drop_order>(&effect)) {
      in.parked_at_lead_.erase(drop->id);
    }
}

void cluster::holder_role::retains(std::size_t count) const {
  for (listener* each : in.listeners_)
    each->retaining(place.self, count);
}

void cluster::holder_role::tell_coordinator(const report& msg) {
  if (!bound.leads_job())
    return;
  using kind = report::kind;
  result& totals = in.result_;
  switch (msg.event) {
  case kind::round_closed:
    if (msg.ver <= std::exchange(in.last_reported_, std::max(in.last_reported_, msg.ver)) && place.commits)
      return;
    totals.gradients += msg.contributions;
    if (msg.contributions > 0)
      totals.staleness[msg.staleness] += msg.contributions;
    break;
  case kind::push_discarded:
  case kind::push_refused:
  case kind::push_not_finite:
    ++totals.gradients;
    ++totals.discarded;
    break;
  case kind::held:
    return in.send(lead_here(), the_coordinator, protocols::held{.ver = msg.ver, .samples = msg.samples, .at = now()});
  case kind::note:
    in.note(msg.text);
    break;
  case kind::lost:
    break;
  }
  in.send(lead_here(), the_coordinator, msg);
}

void cluster::holder_role::broken(const std::string& text) const {
  in.broken(fmt::format("holder {}: {}", place.self.value, text));
}

} // namespace troupe::protocols::sim
