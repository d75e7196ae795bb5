// SPDX-License-Identifier: BSD-3-Clause
// The steps that shards take.
#include "actors/roles/holder/shard_step.hpp"

#include <algorithm>
#include <iterator>

#include "actors/checkpoint/names.hpp"
#include "actors/roles/gradient_norm.hpp"

namespace troupe::actors {

namespace {

constexpr const char* outer_prefix = "outer.";

/// A step on differences takes them as they are.
std::vector<update_range> unscaled(std::vector<update_range> ranges) {
  for (auto& range : ranges) {
    range.lr_scale = 1;
    range.own_rate = false;
  }
  return ranges;
}

} // namespace

shard_step::shard_step(const optimizer_spec& spec, kernels::backend& queue, std::int64_t count, std::int64_t data_size,
                       std::vector<update_range> ranges)
    : spec_(spec), queue_(queue), count_(count), data_size_(data_size),
      ranges_(ranges.empty() ? std::vector<update_range>{{.where = {0, count}}} : std::move(ranges)),
      optimizer_(spec, queue, count, ranges_) {}

void shard_step::begin(const protocols::close& round) {
  using kind = protocols::step_rule::kind;
  const auto& how = round.step;
  if (last_ && how.method != *last_) {
    optimizer_.reset();
    if (outer_)
      past_.push_back(std::move(outer_));
    from_ = {};
  }
  last_ = how.method;
  if (how.method == kind::optimizer) {
    auto epochs = static_cast<double>(round.samples_before) / static_cast<double>(data_size_);
    optimizer_.begin_step(learning_rate(spec_, epochs, static_cast<int>(round.workers)) * how.lr_scale);
    clip_ = round.compensate.lambda != 0 ? 1 : protocols::clip_factor(spec_.clip_norm, how.squares);
  } else if (how.method == kind::outer) {
    if (!outer_)
      begin_outer(how);
    outer_->begin_step(how.lr);
  }
}

/// Each step says its rate.
void shard_step::begin_outer(const protocols::step_rule& how) {
  outer_momentum_ = how.momentum;
  outer_nesterov_ = how.nesterov;
  outer_ = std::make_unique<optimizer>(optimizer_spec{.name = "sgd", .momentum = how.momentum, .nesterov = how.nesterov}, queue_,
                                       count_, unscaled(ranges_));
  restore(from_, queue_, outer_buffers());
}

/// The optimizer's steps, the kind of the last one (-1: none), and, if there is one, the outer optimizer.
std::vector<double> shard_step::memory() const {
  std::vector<double> out{static_cast<double>(optimizer_.steps()), last_ ? static_cast<double>(*last_) : -1};
  if (outer_)
    out.insert(out.end(), {outer_momentum_, outer_nesterov_ ? 1.0 : 0.0});
  return out;
}

void shard_step::take(const std::vector<double>& memory) {
  if (memory.size() < 2)
    return;
  optimizer_.resume_after(static_cast<std::int64_t>(memory[0]));
  last_.reset();
  if (memory[1] >= 0)
    last_ = static_cast<protocols::step_rule::kind>(memory[1]);
  if (memory.size() >= 4 && !outer_)
    begin_outer({.momentum = memory[2], .nesterov = memory[3] != 0});
}

named_buffers shard_step::outer_buffers() const {
  auto out = outer_ ? outer_->buffers() : named_buffers{};
  for (auto& [name, buffer] : out)
    name = outer_prefix + name;
  return out;
}

named_buffers shard_step::buffers() const {
  auto out = optimizer_.buffers();
  for (auto& each : outer_buffers())
    out.push_back(std::move(each));
  if (mean_square_)
    out.emplace_back("mean_square", mean_square_);
  return out;
}

role_snapshot shard_step::snapshot(file_saved about, flat_range range, const kernels::buffer& parameters) const {
  role_snapshot out(std::move(about), range, queue_);
  out.share(parameters_name, parameters);
  out.copy(buffers());
  out.number("optimizer.steps", steps());
  return out;
}

/// The state of a step on differences waits for the first of these, which says how they are taken.
void shard_step::resume(const saved_state& from) {
  std::ranges::copy_if(from.blocks, std::back_inserter(from_.blocks),
                       [](const auto& each) { return each.first.starts_with(outer_prefix); });
  if (from.find("mean_square") != nullptr)
    mean_square_ = queue_.allocate(static_cast<std::size_t>(count_) * sizeof(float));
  restore(from, queue_, buffers());
  optimizer_.resume_after(from.optimizer_steps);
}

void shard_step::apply(const std::vector<kernels::term>& terms, const protocols::close& round, const float* p, float* p_out,
                       flat_range part) {
  switch (round.step.method) {
  case protocols::step_rule::kind::optimizer:
    // Where each push is applied alone, it is a part of a round: were a statistic to move by all of each, then the mean over its
    // past would be shorter than the delay of a push, and with many workers it would not settle.
    each_alike(ranges_, part, [&](const update_range& piece) {
      const double factor = piece.kind == slot_kind::statistic ? std::min(round.step.lr_scale, 1.0) : clip_;
      optimizer_.apply_range(factor != 1 ? times(factor, terms) : terms, p, p_out, piece.where.begin, piece.where.end);
    });
    return;
  case protocols::step_rule::kind::outer:
    outer_->apply_range(terms, p, p_out, part.begin, part.end);
    return;
  case protocols::step_rule::kind::linear:
    each_alike(ranges_, part, [&](const update_range& piece) {
      if (piece.kind != slot_kind::frozen)
        apply_linear(terms, round.step, p, p_out, piece.where);
      else if (p != p_out)
        queue_.copy(p_out + piece.where.begin, p + piece.where.begin,
                    static_cast<std::size_t>(piece.where.size()) * sizeof(float));
    });
    return;
  }
}

/// Only a protocol with a dual variable has a threshold, and such a one has no statistics (build_model).
void shard_step::apply_linear(const std::vector<kernels::term>& terms, const protocols::step_rule& how, const float* p,
                              float* p_out, flat_range part) {
  std::vector<kernels::term> sum;
  if (how.parameter_weight != 0)
    sum.push_back({p + part.begin, how.parameter_weight});
  for (const auto& term : terms)
    sum.push_back({term.data + part.begin, term.weight});
  queue_.enqueue(kernels::weighted_sum{.terms = sum, .y = p_out + part.begin, .count = part.size()});
  if (how.threshold > 0)
    queue_.enqueue(kernels::soft_threshold{
        .x = p_out + part.begin, .threshold = static_cast<float>(how.threshold), .y = p_out + part.begin, .count = part.size()});
}

kernels::buffer shard_step::compensated(const float* gradient, const float* p, const float* backup,
                                        const protocols::close& round) {
  const auto& how = round.compensate;
  const double clip = protocols::clip_factor(spec_.clip_norm, round.step.squares);
  auto bytes = static_cast<std::size_t>(count_) * sizeof(float);
  if (how.adaptive && !mean_square_) {
    mean_square_ = queue_.allocate(bytes);
    queue_.enqueue(kernels::fill{.y = mean_square_.as<float>(), .count = count_});
  }
  auto out = queue_.allocate(bytes);
  each_alike(ranges_, {0, count_}, [&](const update_range& piece) {
    const auto begin = piece.where.begin;
    if (piece.kind != slot_kind::trained) { // what a statistic moves by is no gradient
      queue_.copy(out.as<float>() + begin, gradient + begin, static_cast<std::size_t>(piece.where.size()) * sizeof(float));
      return;
    }
    const std::vector<kernels::term> clipped{{gradient + begin, clip}};
    if (clip != 1)
      queue_.enqueue(kernels::weighted_sum{.terms = clipped, .y = out.as<float>() + begin, .count = piece.where.size()});
    queue_.enqueue(kernels::delay_compensate{.count = piece.where.size(),
                                             .g = (clip != 1 ? out.as<const float>() : gradient) + begin,
                                             .w = p + begin,
                                             .w_backup = backup + begin,
                                             .g_out = out.as<float>() + begin,
                                             .mean_square = how.adaptive ? mean_square_.as<float>() + begin : nullptr,
                                             .lambda = static_cast<float>(how.lambda)});
  });
  return out;
}

} // namespace troupe::actors
