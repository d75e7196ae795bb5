// SPDX-License-Identifier: BSD-3-Clause
// Elastic averaging SGD (Zhang, Choromanska, LeCun 2015), asynchronous, with its momentum form (EAMSGD).
#pragma once

#include "protocols/params_worker.hpp"
#include "protocols/push_rule.hpp"

namespace troupe::protocols {

/// The centre's half. A worker pushes its parameters x, is answered with the centre c as it was before, and the centre moves
/// towards it: c = (1 - alpha) c + alpha x. alpha travels with the push, so that both sides use the same.
class easgd final : public push_rule {
  bool answers_first() const override { return true; }

  step_rule step_of(const push& what) const override {
    return {.what = step_rule::kind::linear, .parameter_weight = 1 - what.weight};
  }
};

/// The worker's half: H local steps; push x; x = (1 - alpha) x + alpha c. alpha = beta / n.
class easgd_task final : public task {
public:
  /// `momentum` > 0: local steps with Nesterov momentum (EAMSGD) instead of the job's optimizer's.
  easgd_task(double beta, double momentum) : beta_(beta), momentum_(momentum) {}

  worker_effects begin(const plan& with, const params& what, const push& as) override {
    worker_effects out{adopt{what.ver, what.parameters}};
    if (fresh_)
      out.emplace_back(mix{{{what.parameters, 1}}});
    else
      out.emplace_back(mix{{{own_parameters, 1 - open_.weight}, {what.parameters, open_.weight}}});
    plan_ = with;
    open_ = as;
    open_.weight = beta_ / static_cast<double>(with.workers.size());
    left_ = what.period;
    position_ = what.position;
    out.emplace_back(step());
    return out;
  }

  worker_effects on(const computed& msg) override {
    accumulate(open_, msg);
    position_ = plan_.after(position_, 1);
    if (--left_ > 0)
      return {step()};
    fresh_ = !open_.finite; // a replica that has diverged begins again at the centre
    return {send_push{open_, {{own_parameters, 1}}}};
  }

private:
  local_step step() const {
    return {.what = {.position = position_, .cuts = 1, .parts = {{0, 1}}}, .momentum = momentum_ > 0 ? momentum_ : -1};
  }

  double beta_, momentum_;
  plan plan_;
  push open_;
  bool fresh_ = true; ///< the next parameters are taken over whole
  std::uint32_t left_ = 0;
  std::uint64_t position_ = 0;
};

} // namespace troupe::protocols
