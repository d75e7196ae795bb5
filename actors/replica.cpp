// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on a worker's own parameters.
#include "actors/replica.hpp"

namespace troupe::actors {

replica::replica(kernels::backend& queue, const optimizer_spec& spec, std::int64_t count, in_flight* held)
    : queue_(queue), held_(held), spec_(spec), count_(count) {}

void replica::mix(const std::vector<replica_term>& terms) { replace(own_, sum(terms)); }

void replica::dual_step(const kernels::buffer& anchor, double rho) {
  auto rate = static_cast<double>(rho);
  replace(dual_, sum({{replica_term::source::dual, {}, 1},
                      {replica_term::source::own, {}, rate},
                      {replica_term::source::tensor, anchor, -rate}}));
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
  queue_.weighted_sum(parts, out.as<float>(), count_);
  return out;
}

void replica::step(const kernels::buffer& gradient, const local_update& how) {
  if (!optimizer_) {
    auto spec = spec_;
    if (how.momentum >= 0) {
      spec.name = "sgd";
      spec.momentum = how.momentum;
      spec.nesterov = true;
    }
    optimizer_.emplace(spec, queue_, count_);
  }
  std::vector<kernels::term> terms{{gradient.as<const float>(), 1}};
  if (how.proximal != 0) {
    terms.push_back({own_.as<const float>(), how.proximal});
    terms.push_back({how.anchor.as<const float>(), -how.proximal});
  }
  if (how.dual != 0)
    terms.push_back({source_of({replica_term::source::dual, {}, 1}).as<const float>(), how.dual});
  // In place where nobody else reads w, and no term is w itself.
  auto out = how.proximal == 0 && nobody_else_holds(own_) ? own_ : fresh();
  optimizer_->apply(terms, own_.as<const float>(), out.as<float>(), how.lr);
  keep(gradient);
  keep(how.anchor);
  replace(own_, out);
}

void replica::forget_momentum() {
  if (optimizer_)
    optimizer_->reset();
}

const kernels::buffer& replica::source_of(const replica_term& term) {
  switch (term.from) {
  case replica_term::source::own:
    return own_;
  case replica_term::source::dual:
    if (!dual_) {
      dual_ = fresh();
      queue_.fill(dual_.as<float>(), 0, count_);
    }
    return dual_;
  case replica_term::source::tensor:
    break;
  }
  return term.tensor;
}

void replica::keep(const kernels::buffer& block) {
  if (held_)
    held_->keep(block);
}

/// What was there is read by what has been enqueued.
void replica::replace(kernels::buffer& old, kernels::buffer by) {
  if (!old.shares_block_with(by))
    keep(old);
  old = std::move(by);
}

kernels::buffer replica::fresh() { return queue_.allocate(static_cast<std::size_t>(count_) * sizeof(float)); }

} // namespace troupe::actors
