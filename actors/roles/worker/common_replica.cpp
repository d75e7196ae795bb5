// SPDX-License-Identifier: BSD-3-Clause
// Sums among workers, and the steps that all of them take.
#include "actors/roles/worker/common_replica.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "actors/roles/device.hpp"
#include "actors/roles/gradient_norm.hpp"
#include "actors/roles/holder/push_inbox.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors {

namespace {

/// Of a state: behind its tensors, numbers of the optimizer.
constexpr std::int64_t memory_floats = 16;

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

} // namespace

using step_kind = protocols::step_rule::kind;

common_replica::common_replica(std::shared_ptr<kernels::backend> queue, const optimizer_spec& spec, std::int64_t floats,
                               std::int64_t data_size, std::vector<update_range> ranges, const protocols::step_rule& steps_by,
                               std::int64_t unit)
    : queue_(std::move(queue)), clip_norm_(steps_by.method == step_kind::optimizer ? spec.clip_norm : 0),
      at_once_(clip_norm_ > 0
               || (steps_by.method == step_kind::optimizer && std::ranges::any_of(ranges, &update_range::own_rate))),
      floats_(floats), unit_(unit), step_(steps_by.method == step_kind::optimizer ? spec : optimizer_spec{.momentum = 0}, *queue_,
                                          floats, data_size, std::move(ranges)) {
  TROUPE_ASSERT(queue_->on_host());
  if (steps_by.method == step_kind::outer) // a state has as many floats before the first step as after
    step_.begin_outer(steps_by);
}

flat_range common_replica::where(const protocols::segment_range& part) const {
  const auto cuts = cut_into_shards(floats_, static_cast<int>(part.of), unit_);
  return {cuts[part.first].begin, cuts[part.last - 1].end};
}

void common_replica::each_part(const protocols::send_peer& chunk, const kernels::buffer& of, const copied_factors& factors,
                               const std::function<void(const protocols::wire::peer_part&, const kernels::buffer&)>& send) {
  using protocols::collective::cargo;
  const auto whole = where(chunk.message.part);
  protocols::wire::peer_part head{chunk.to, chunk.message, {whole.begin, whole.end}};
  head.message.data = {};
  if (whole.size() == 0)
    return send(head, {});
  if (!sums_ || chunk.cargo == cargo::plain) {
    auto floats = of.slice(bytes_of(whole.begin), bytes_of(whole.size()));
    if (chunk.cargo == cargo::copy) {
      const auto there = std::exchange(floats, allocate(floats.bytes()));
      std::memcpy(floats.data(), there.data(), there.bytes());
    }
    return send(head, floats);
  }
  for (const auto part : sums_->cut(whole)) {
    const std::span<float> values{of.as<float>() + part.begin, static_cast<std::size_t>(part.size())};
    const bool is_new = !sums_->has(chunk.message, chunk.cargo, part); // else another peer has had it
    const auto codes = sums_->encode(chunk.message, chunk.cargo, part, values, factors);
    head.where = {part.begin, part.end};
    head = sums_->head_of(chunk.cargo, head);
    if (is_new && chunk.cargo != cargo::term)
      chunk_encoder::decode(head.as, part, codes, values);
    send(head, codes);
  }
}

protocols::operands<kernels::buffer> common_replica::mean_with(double own) const {
  protocols::operands<kernels::buffer> out{{.tensor = parameters_, .weight = 1 - own}};
  if (own != 0)
    out.push_back({.from = protocols::operand<kernels::buffer>::source::own, .weight = own});
  return out;
}

kernels::buffer common_replica::zeros() const {
  auto out = queue_->allocate(bytes_of(floats_));
  queue_->enqueue(kernels::fill{.y = out.as<float>(), .count = floats_});
  return out;
}

void common_replica::add_up(const kernels::buffer& to, const protocols::segment_range& part,
                            const protocols::operands<kernels::buffer>& sum) {
  const auto range = where(part);
  if (range.size() == 0)
    return;
  float* const place = to.as<float>() + range.begin;
  std::vector<kernels::term> terms;
  for (const auto& term : sum)
    terms.push_back(
        {term.from == protocols::operand<kernels::buffer>::source::own ? place : term.tensor.as<const float>(), term.weight});
  if (terms.size() == 1 && terms.front().weight == 1) {
    if (terms.front().data != place)
      queue_->copy(place, terms.front().data, bytes_of(range.size()));
    return;
  }
  queue_->enqueue(kernels::weighted_sum{.terms = terms, .y = place, .count = range.size()});
}

void common_replica::take_step(const protocols::take_step& order, const kernels::buffer& sum) {
  if (at_once_ && !order.last)
    return;
  auto round = order.round;
  const auto range = at_once_ ? flat_range{0, floats_} : where(order.part);
  std::vector<kernels::term> terms{{sum.as<const float>(), order.sum.weight}};
  kernels::buffer scaled;
  if (order.sum.weight != 1) { // the mean is what is measured, and what a statistic moves by
    scaled = queue_->allocate(bytes_of(floats_));
    terms.front().data += range.begin;
    queue_->enqueue(kernels::weighted_sum{.terms = terms, .y = scaled.as<float>() + range.begin, .count = range.size()});
    terms = {{scaled.as<const float>(), 1}};
  }
  if (clip_norm_ > 0)
    round.step.squares = squares_of(terms.front().data, step_.ranges(), clip_norm_);
  if (!next_) {
    if (!order.last)
      before_.memory = step_.memory();
    step_.begin(round);
    next_ = order.last && nobody_else_holds(parameters_) ? parameters_ : queue_->allocate(bytes_of(floats_));
    if (order.last && range.size() < floats_ && !next_.shares_block_with(parameters_))
      queue_->copy(next_.data(), parameters_.data(), bytes_of(floats_));
  }
  if (!order.last)
    keep_for_undo(range);
  step_.apply(terms, round, parameters_.as<const float>(), next_.as<float>(), range);
  if (range.size() > 0)
    join(stepped_, range);
  if (!order.last)
    return;
  parameters_ = std::exchange(next_, {});
  stepped_.clear();
  if (sums_)
    sums_->made(round.ver);
}

void common_replica::keep_for_undo(flat_range where) {
  const auto now = step_.buffers();
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (i == before_.buffers.size())
      before_.buffers.push_back(queue_->allocate(bytes_of(floats_)));
    queue_->copy(before_.buffers[i].as<float>() + where.begin, now[i].second.as<const float>() + where.begin,
                 bytes_of(where.size()));
  }
}

void common_replica::undo_steps() {
  const auto now = step_.buffers();
  for (const auto& where : std::exchange(stepped_, {}))
    for (std::size_t i = 0; i < now.size(); ++i)
      queue_->copy(now[i].second.as<float>() + where.begin, before_.buffers[i].as<const float>() + where.begin,
                   bytes_of(where.size()));
  if (std::exchange(next_, {}))
    step_.take(before_.memory);
}

std::int64_t common_replica::state_floats() const {
  return floats_ * static_cast<std::int64_t>(1 + step_.buffers().size()) + memory_floats;
}

kernels::buffer common_replica::state() const {
  auto out = queue_->allocate_host(bytes_of(state_floats()));
  std::byte* to = out.data();
  const auto put = [&to](const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(parameters_.data(), bytes_of(floats_));
  for (const auto& [name, block] : step_.buffers())
    put(block.data(), bytes_of(floats_));
  auto memory = step_.memory();
  memory.resize(bytes_of(memory_floats) / sizeof(double));
  put(memory.data(), bytes_of(memory_floats));
  return out;
}

void common_replica::take_state(protocols::version ver, const kernels::buffer& from) {
  if (sums_)
    sums_->made(ver);
  const std::byte* at = from.data();
  const auto get = [&at](void* to, std::size_t bytes) {
    std::memcpy(to, at, bytes);
    at += bytes;
  };
  parameters_ = queue_->allocate(bytes_of(floats_));
  get(parameters_.data(), bytes_of(floats_));
  for (auto& [name, block] : step_.buffers())
    get(block.data(), bytes_of(floats_));
  std::vector<double> memory(bytes_of(memory_floats) / sizeof(double));
  get(memory.data(), bytes_of(memory_floats));
  memory.resize(step_.memory().size()); // their steps are of one kind
  step_.take(memory);
}

chunk_inbox::key chunk_inbox::key_of(const protocols::peer_message& head) {
  return {head.epoch, head.from, head.is, head.round, head.stage, head.part};
}

bool chunk_inbox::add(const protocols::wire::peer_part& part, flat_range whole, const kernels::buffer& payload) {
  const auto name = key_of(part.message);
  const auto known = open_.find(name);
  if (known == open_.end() && open_.size() >= max_open)
    return false;
  auto& pieces = known != open_.end() ? known->second : open_.try_emplace(name, whole, allocate_).first->second;
  const bool fits = add_part(pieces, 0, part, payload);
  if (!fits && pieces.parts(0) == 0)
    open_.erase(name);
  return fits;
}

std::optional<kernels::buffer> chunk_inbox::take(const protocols::peer_message& head) {
  const auto found = open_.find(key_of(head));
  if (found == open_.end())
    return std::nullopt;
  auto out = found->second.take(0);
  if (out)
    open_.erase(found);
  return out;
}

result<std::optional<kernels::buffer>> chunk_inbox::join(const common_replica* of, const protocols::plan* newest,
                                                         const protocols::wire::peer_part& part, const kernels::buffer& payload) {
  using kind = protocols::peer_message::kind;
  const auto& head = part.message;
  if (of == nullptr)
    return error{errc::bad_option, fmt::format("a part of a sum of worker {}: nobody sums here", head.from.worker.value)};
  const auto whole = head.is == kind::standing ? flat_range{}
                     : head.is == kind::chunk  ? of->where(head.part)
                                               : flat_range{0, of->state_floats()};
  if (whole.size() == 0)
    return std::optional{kernels::buffer{}};
  if (newest != nullptr && newest->epoch == head.epoch && newest->has(head.from) && add(part, whole, payload))
    return take(head);
  return error{errc::bad_option,
               fmt::format("elements {} to {} of worker {} for version {} under plan {}: it is of no use under plan {}",
                           part.where.begin, part.where.end, head.from.worker.value, head.round, head.epoch.value,
                           newest != nullptr ? newest->epoch.value : 0)};
}

void chunk_inbox::drop_before(protocols::plan_epoch epoch) {
  std::erase_if(open_, [epoch](const auto& each) { return std::get<0>(each.first) < epoch; });
}

} // namespace troupe::actors
