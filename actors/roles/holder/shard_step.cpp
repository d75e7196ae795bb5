// SPDX-License-Identifier: BSD-3-Clause
// The steps that shards take.
#include "actors/roles/holder/shard_step.hpp"

#include <algorithm>

namespace troupe::actors {

shard_step::shard_step(const optimizer_spec& spec, kernels::backend& queue, std::int64_t count, std::int64_t data_size)
    : spec_(spec), queue_(queue), count_(count), data_size_(data_size), optimizer_(spec, queue, count) {}

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
  } else if (how.method == kind::outer) {
    if (!outer_) {
      outer_ = std::make_unique<optimizer>(
          optimizer_spec{.name = "sgd", .lr = how.lr, .momentum = how.momentum, .nesterov = how.nesterov}, queue_, count_);
      restore(from_, queue_, outer_buffers());
    }
    outer_->begin_step(how.lr);
  }
}

named_buffers shard_step::outer_buffers() const {
  auto out = outer_ ? outer_->buffers() : named_buffers{};
  for (auto& [name, buffer] : out)
    name = "outer." + name;
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

/// The state of a step on differences waits for the first of these, which says how they are taken.
void shard_step::resume(const saved_state& from) {
  from_ = from;
  const auto kept = [&from](const char* name) {
    return std::ranges::count(from.blocks, name, [](const auto& each) { return each.first; }) > 0;
  };
  if (kept("mean_square"))
    mean_square_ = queue_.allocate(static_cast<std::size_t>(count_) * sizeof(float));
  restore(from, queue_, buffers());
  optimizer_.resume_after(from.optimizer_steps);
}

void shard_step::apply(const std::vector<kernels::term>& terms, const protocols::close& round, const float* p, float* p_out,
                       flat_range part) {
  switch (round.step.method) {
  case protocols::step_rule::kind::optimizer:
    optimizer_.apply_range(terms, p, p_out, part.begin, part.end);
    return;
  case protocols::step_rule::kind::outer:
    outer_->apply_range(terms, p, p_out, part.begin, part.end);
    return;
  case protocols::step_rule::kind::linear:
    break;
  }
  std::vector<kernels::term> sum;
  if (round.step.parameter_weight != 0)
    sum.push_back({p + part.begin, round.step.parameter_weight});
  for (const auto& term : terms)
    sum.push_back({term.data + part.begin, term.weight});
  queue_.enqueue(kernels::weighted_sum{.terms = sum, .y = p_out + part.begin, .count = part.size()});
  if (round.step.threshold > 0)
    queue_.enqueue(kernels::soft_threshold{.x = p_out + part.begin,
                                           .threshold = static_cast<float>(round.step.threshold),
                                           .y = p_out + part.begin,
                                           .count = part.size()});
}

kernels::buffer shard_step::compensated(const float* gradient, const float* p, const float* backup,
                                        const protocols::delay_compensation& how) {
  auto bytes = static_cast<std::size_t>(count_) * sizeof(float);
  if (how.adaptive && !mean_square_) {
    mean_square_ = queue_.allocate(bytes);
    queue_.enqueue(kernels::fill{.y = mean_square_.as<float>(), .count = count_});
  }
  auto out = queue_.allocate(bytes);
  queue_.enqueue(kernels::delay_compensate{.count = count_,
                                           .g = gradient,
                                           .w = p,
                                           .w_backup = backup,
                                           .g_out = out.as<float>(),
                                           .mean_square = how.adaptive ? mean_square_.as<float>() : nullptr,
                                           .lambda = static_cast<float>(how.lambda)});
  return out;
}

} // namespace troupe::actors
