// SPDX-License-Identifier: BSD-3-Clause
// Encoding the parts of a push.
#include "actors/roles/codec/push_encoder.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/codec.hpp"
#include "kernels/factors.hpp"
#include "kernels/sparse.hpp"
#include "tensor/plan.hpp"

namespace troupe::actors {

namespace {

kernels::coded_range coded(flat_range where) {
  return {where.begin, where.size()};
}

template <class T>
std::span<T> at(std::span<T> all, flat_range where) {
  return all.subspan(static_cast<std::size_t>(where.begin), static_cast<std::size_t>(where.size()));
}

/// Apart from the streams of a model's layers.
constexpr std::uint32_t first_stream = 1U << 31U;

constexpr const char* residual_name = "codec.residual";
constexpr const char* velocity_name = "codec.velocity";

} // namespace

std::span<float> push_encoder::memory::remember(flat_range where) {
  const auto own = at(std::span{now}, where);
  std::ranges::copy(own, before.begin() + where.begin);
  return own;
}

void push_encoder::memory::take_back(flat_range where) {
  if (!now.empty())
    std::ranges::copy(at(std::span{before}, where), now.begin() + where.begin);
}

push_encoder::push_encoder(const job& job, protocols::worker_id worker, std::int64_t floats, allocate_fn allocate,
                           factored_slots factored)
    : how_(job.codec), momentum_(static_cast<float>(job.optimizer.momentum)), worker_(worker), seed_(job.seed),
      workers_(job.cluster.workers), floats_(floats), allocate_(std::move(allocate)), factored_(std::move(factored)) {
  const auto begin = [this](memory& all) {
    all.now.resize(static_cast<std::size_t>(floats_));
    all.before.resize(static_cast<std::size_t>(floats_));
  };
  if (how_.error_feedback)
    begin(residual_);
  if (how_.corrects_momentum())
    begin(velocity_);
}

void push_encoder::measure(std::span<const float> whole) {
  if (!clips())
    return;
  double squares = 0;
  for (const float g : whole)
    squares += static_cast<double>(g) * static_cast<double>(g);
  const double norm = std::sqrt(squares), largest = how_.clip / std::sqrt(static_cast<double>(workers_));
  scale_ = norm > largest ? static_cast<float>(largest / norm) : 1.0F;
}

kernels::buffer push_encoder::encode(const protocols::push& push, flat_range where, std::span<const float> values,
                                     const copied_factors& factors) {
  if (push.id != newest_) {
    if (!settled_ || push.base == base_)
      take_back();
    newest_ = push.id;
    base_ = push.base;
    settled_ = false;
    parts_.clear();
  }
  if (const part* known = find(where))
    return known->codes;
  part made{where, {}, form()};
  if (made.as == kernels::form::factors)
    made = encode_product(where, values, factors);
  else
    made.codes = kernels::is_sparse(made.as) ? encode_some(push.base, where, values) : encode_all(push.base, where, values);
  parts_.insert_or_assign(where.begin, made);
  return made.codes;
}

push_encoder::part push_encoder::encode_product(flat_range where, std::span<const float> values,
                                                const copied_factors& factors) const {
  const auto* slot = factors.rows > 0 ? slot_of(factored_, where) : nullptr;
  if (slot == nullptr) {
    auto floats = allocate_(values.size_bytes());
    std::ranges::copy(values, floats.as<float>());
    return {where, std::move(floats), kernels::form::fp32};
  }
  auto codes = allocate_(slot->bytes(where, factors.rows));
  kernels::encode_factors(slot->in(factors), slot->at(where), codes.span<std::byte>());
  if (slot->pays(where, factors.rows))
    return {where, std::move(codes), kernels::form::factors};
  // A few rows of a matrix that shards have cut. What they are must not depend on that.
  auto floats = allocate_(values.size_bytes());
  kernels::decode(kernels::form::factors, coded(where), codes.span<const std::byte>(), floats.span<float>());
  return {where, std::move(floats), kernels::form::fp32};
}

kernels::buffer push_encoder::encode_all(protocols::version base, flat_range where, std::span<const float> values) {
  auto codes = allocate_(kernels::encoded_bytes(form(), coded(where)));
  const kernels::random_key key{.seed = seed_, .stream = first_stream | worker_.value, .step = base.value};
  if (how_.error_feedback)
    kernels::encode_with_feedback(form(), coded(where), key, values, residual_.remember(where), codes.span<std::byte>());
  else
    kernels::encode(form(), coded(where), key, values, codes.span<std::byte>());
  return codes;
}

/// Nothing of values that are not finite; then all that is kept is as it was.
kernels::buffer push_encoder::encode_some(protocols::version base, flat_range where, std::span<const float> values) {
  if (!add_up(where, values)) {
    velocity_.take_back(where);
    return sparse(where, {}, whole_);
  }
  kernels::sparse_places places;
  kernels::buffer codes;
  if (form() == kernels::form::sparse_sign) {
    const auto size = static_cast<float>(how_.threshold);
    places = kernels::choose_from(whole_, size);
    std::vector<float> signs(whole_.size());
    std::ranges::transform(whole_, signs.begin(), [size](float x) { return std::copysign(size, x); });
    codes = sparse(where, places, signs);
  } else {
    places = allowed_ ? kernels::choose_largest(coded(where), whole_, [this](std::int64_t block) { return allowed_->of(block); })
                      : kernels::choose_largest(coded(where), whole_, how_.density_at(base.value));
    codes = sparse(where, places, whole_);
  }
  if (how_.corrects_momentum())
    for (const std::uint32_t place : places)
      velocity_.now[static_cast<std::size_t>(where.begin) + place] = 0;
  if (how_.error_feedback) {
    kernels::add_decoded(form(), coded(where), codes.span<const std::byte>(), -1, whole_);
    std::ranges::copy(whole_, at(std::span{residual_.now}, where).begin());
  }
  return codes;
}

/// Makes `whole_` all that could be sent, and moves the velocity. False if some of it is not finite.
bool push_encoder::add_up(flat_range where, std::span<const float> values) {
  whole_.assign(values.begin(), values.end());
  if (how_.corrects_momentum()) {
    const auto u = velocity_.remember(where);
    for (std::size_t i = 0; i < u.size(); ++i)
      whole_[i] = u[i] = momentum_ * u[i] + scale_ * values[i];
  }
  if (how_.error_feedback) {
    const auto lost = residual_.remember(where);
    std::ranges::transform(whole_, lost, whole_.begin(), std::plus{});
  }
  return kernels::every_finite(whole_);
}

kernels::buffer push_encoder::sparse(flat_range where, std::span<const std::uint32_t> places,
                                     std::span<const float> values) const {
  auto codes = allocate_(kernels::sparse_bytes(form(), coded(where), places));
  kernels::encode_sparse(form(), coded(where), places, values, codes.span<std::byte>());
  return codes;
}

const push_encoder::part* push_encoder::find(flat_range where) const {
  const auto known = parts_.find(where.begin);
  return known != parts_.end() && known->second.where == where ? &known->second : nullptr;
}

std::uint64_t push_encoder::bytes() const {
  std::uint64_t out = 0;
  for (const auto& [begin, each] : parts_)
    out += each.codes.bytes();
  return out;
}

void push_encoder::settle(const protocols::push& push) {
  if (push.id != newest_)
    return;
  if (!push.finite && !settled_)
    take_back();
  settled_ = true;
}

void push_encoder::take_back() {
  for (const auto& [begin, each] : parts_) {
    residual_.take_back(each.where);
    velocity_.take_back(each.where);
  }
}

named_buffers push_encoder::kept() const {
  named_buffers out;
  for (const auto& [name, memory] : {std::pair{residual_name, &residual_}, {velocity_name, &velocity_}}) {
    if (memory->now.empty())
      continue;
    auto block = allocate_(memory->now.size() * sizeof(float));
    std::ranges::copy(memory->now, block.as<float>());
    if (!settled_)
      for (const auto& [begin, each] : parts_)
        std::ranges::copy(at(std::span{memory->before}, each.where), at(block.span<float>(), each.where).begin());
    out.emplace_back(name, std::move(block));
  }
  return out;
}

void push_encoder::resume(const saved_state& from) {
  for (const auto& [name, memory] : {std::pair{residual_name, &residual_}, {velocity_name, &velocity_}})
    if (const auto* block = from.find(name); block != nullptr && !memory->now.empty())
      std::ranges::copy(block->span<const float>(), memory->now.begin());
}

kernels::buffer push_encoder::decoded() const {
  auto out = allocate_(static_cast<std::size_t>(floats_) * sizeof(float));
  for (const auto& [begin, each] : parts_)
    kernels::decode(each.as, coded(each.where), each.codes.span<const std::byte>(), at(out.span<float>(), each.where));
  return out;
}

factored_slots factored_slots_of(const job& job, const model& net) {
  return job.codec.factors() ? find_factored(net, job.data.batch) : factored_slots{};
}

std::optional<protocols::push_budget> push_budget_of(const job& job, const protocols::protocol& runs, std::int64_t floats) {
  if (!job.codec.has_budget() || !runs.clock_bound)
    return {};
  return protocols::push_budget{job.codec.budget_mbit, runs.clock_bound(job.protocol), job.codec.form(), floats};
}

} // namespace troupe::actors
