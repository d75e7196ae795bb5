// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on a worker's own parameters.
#include "actors/roles/worker/replica.hpp"

#include "actors/checkpoint/names.hpp"
#include "actors/roles/gradient_norm.hpp"

namespace troupe::actors {

namespace {

/// Those of a part: its first float's number is added to each address.
std::vector<kernels::term> from(std::int64_t begin, std::vector<kernels::term> terms) {
  for (auto& term : terms)
    term.data += begin;
  return terms;
}

} // namespace

replica::replica(kernels::backend& queue, const optimizer_spec& spec, std::int64_t count, in_flight* held,
                 std::vector<update_range> ranges)
    : queue_(queue), held_(held), spec_(spec), count_(count),
      ranges_(ranges.empty() ? std::vector<update_range>{{.where = {0, count}}} : std::move(ranges)) {}

kernels::buffer replica::mean(const std::vector<replica_term>& terms) {
  auto out = sum(terms);
  const bool is_new = terms.size() != 1 || terms.front().weight != 1;
  for (const auto& range : ranges_) // a mean of equal numbers may differ from them in its last bit
    if (is_new && own_ && range.kind == slot_kind::frozen)
      queue_.copy(out.as<float>() + range.where.begin, own_.as<const float>() + range.where.begin,
                  static_cast<std::size_t>(range.where.size()) * sizeof(float));
  return out;
}

void replica::mix(const std::vector<replica_term>& terms, flat_range where) {
  if (where.size() == 0 || where.size() == count_)
    return replace(own_, mean(terms));
  std::vector<kernels::term> parts;
  for (const auto& term : terms) {
    parts.push_back({source_of(term).as<const float>(), term.weight});
    keep(term.tensor);
  }
  auto out = own_;
  if (!nobody_else_holds(own_)) {
    out = fresh();
    queue_.copy(out.data(), own_.data(), own_.bytes());
  }
  each_alike(ranges_, where, [&](const update_range& range) {
    const auto begin = range.where.begin;
    if (range.kind != slot_kind::frozen)
      queue_.enqueue(
          kernels::weighted_sum{.terms = from(begin, parts), .y = out.as<float>() + begin, .count = range.where.size()});
  });
  replace(own_, out);
}

void replica::dual_step(const kernels::buffer& anchor, double rho) {
  auto rate = static_cast<double>(rho);
  replace(dual_, sum({{replica_term::source::dual, {}, 1},
                      {replica_term::source::own, {}, rate},
                      {replica_term::source::given, anchor, -rate}}));
}

kernels::buffer replica::sum(const std::vector<replica_term>& terms) {
  if (terms.size() == 1 && terms.front().weight == 1)
    return source_of(terms.front());
  std::vector<kernels::term> parts;
  for (const auto& term : terms) {
    parts.push_back({source_of(term).as<const float>(), term.weight});
    keep(term.tensor);
  }
  auto out = fresh();
  queue_.enqueue(kernels::weighted_sum{.terms = parts, .y = out.as<float>(), .count = count_});
  return out;
}

const kernels::buffer& replica::parameters_for(const local_update& how) {
  if (how.momentum < 0 || !velocity_)
    replace(ahead_, {});
  else
    replace(ahead_, sum({{replica_term::source::own, {}, 1}, {replica_term::source::given, velocity_, how.momentum}}));
  return ahead_ ? ahead_ : own_;
}

void replica::step(const kernels::buffer& gradient, const local_update& how) {
  const auto& point = ahead_ ? ahead_ : own_;
  const double clip = protocols::clip_factor(spec_.clip_norm, how.squares);
  std::vector<kernels::term> terms{{gradient.as<const float>(), clip}};
  if (how.proximal != 0) {
    terms.push_back({point.as<const float>(), how.proximal});
    terms.push_back({how.anchor.as<const float>(), -how.proximal});
  }
  if (how.dual != 0)
    terms.push_back({source_of({replica_term::source::dual, {}, 1}).as<const float>(), how.dual});
  keep(gradient);
  keep(how.anchor);
  if (how.momentum >= 0) {
    return step_with_velocity(terms, how);
  }
  if (!optimizer_)
    optimizer_.emplace(spec_, queue_, count_, ranges_);
  // In place if w has no other holder, and no term is w itself.
  auto out = how.proximal == 0 && nobody_else_holds(own_) ? own_ : fresh();
  optimizer_->begin_step(how.lr);
  for (const auto& range : ranges_) {
    if (range.kind == slot_kind::statistic) // no gradient: it is not clipped
      terms.front().weight = 1;
    optimizer_->apply_range(terms, own_.as<const float>(), out.as<float>(), range.where.begin, range.where.end);
    terms.front().weight = clip;
  }
  replace(own_, out);
}

/// v = momentum v - lr slope; w += v. What is not trained has no velocity, and `ahead_` is w there: a statistic moves by its
/// slope's first term, what is frozen by nothing.
void replica::step_with_velocity(const std::vector<kernels::term>& slope, const local_update& how) {
  const auto& point = ahead_ ? ahead_ : own_;
  auto moved = fresh(), next = fresh();
  for (const auto& [where, kind, decay, lr_scale, own_rate] : ranges_) {
    const auto add = [&, begin = where.begin, count = where.size()](const std::vector<kernels::term>& terms,
                                                                    kernels::buffer& to) {
      queue_.enqueue(kernels::weighted_sum{.terms = from(begin, terms), .y = to.as<float>() + begin, .count = count});
    };
    if (kind != slot_kind::trained) {
      queue_.enqueue(kernels::fill{.y = moved.as<float>() + where.begin, .count = where.size()});
      std::vector<kernels::term> terms{{own_.as<const float>(), 1}};
      if (kind == slot_kind::statistic)
        terms.push_back({slope.front().data, -1});
      add(terms, next);
      continue;
    }
    auto terms = slope;
    if (decay && spec_.weight_decay != 0)
      terms.push_back({point.as<const float>(), spec_.weight_decay});
    for (auto& term : terms)
      term.weight *= -how.lr * lr_scale;
    if (velocity_)
      terms.push_back({velocity_.as<const float>(), how.momentum});
    add(terms, moved);
    add({{own_.as<const float>(), 1}, {moved.as<const float>(), 1}}, next);
  }
  replace(velocity_, std::move(moved));
  replace(own_, std::move(next));
  replace(ahead_, {});
}

void replica::forget_momentum() {
  if (optimizer_)
    optimizer_->reset();
  replace(velocity_, {});
}

named_buffers replica::itself() const {
  named_buffers out;
  for (const auto& [name, block] : {std::pair{replica_name, &own_}, {dual_name, &dual_}})
    if (*block)
      out.emplace_back(name, *block);
  return out;
}

void replica::resume(const saved_state& from) {
  for (const auto& [name, block] : {std::pair{replica_name, &own_}, {dual_name, &dual_}})
    if (from.find(name) != nullptr)
      *block = fresh();
  restore(from, queue_, itself());
  if (from.optimizer_steps != 0) {
    optimizer_.emplace(spec_, queue_, count_, ranges_);
    restore(from, queue_, optimizer_->buffers());
    optimizer_->resume_after(from.optimizer_steps);
  }
  for (const auto& [name, values] : from.blocks)
    keep(values);
}

const kernels::buffer& replica::source_of(const replica_term& term) {
  switch (term.from) {
  case replica_term::source::own:
    return own_;
  case replica_term::source::dual:
    if (!dual_) {
      dual_ = fresh();
      queue_.enqueue(kernels::fill{.y = dual_.as<float>(), .count = count_});
    }
    return dual_;
  case replica_term::source::given:
    break;
  }
  return term.tensor;
}

void replica::keep(const kernels::buffer& block) {
  if (held_)
    held_->keep(block);
}

/// Enqueued work may still read the old block.
void replica::replace(kernels::buffer& old, kernels::buffer by) {
  if (!old.shares_block_with(by))
    keep(old);
  old = std::move(by);
}

kernels::buffer replica::fresh() {
  return queue_.allocate(static_cast<std::size_t>(count_) * sizeof(float));
}

} // namespace troupe::actors
