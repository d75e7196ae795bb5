// SPDX-License-Identifier: BSD-3-Clause
// Local SGD: H local steps, then the average (Stich 2019), with FedAvg's sampling (McMahan et al. 2017) and an outer optimizer
// (block momentum: Chen & Huo 2016; Nesterov: DiLoCo, Douillard et al. 2023).
#pragma once

#include "protocols/dice.hpp"
#include "protocols/params_worker.hpp"
#include "protocols/round_policy.hpp"

namespace troupe::protocols {

struct local_options {
  step_rule outer{.what = step_rule::kind::outer}; ///< lr 1 without momentum: the average
  double sample_fraction = 1;                      ///< of the workers in each round
};

/// The centre's half. A push is w - w_i, what the worker moved by, the other way: as a gradient is. The step on the mean of
/// these by samples, with learning rate 1 and no momentum, is the mean of the workers' parameters.
class local_sgd final : public round_policy {
public:
  local_sgd(const local_options& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  /// Who takes part is drawn anew each round, from those first that have samples in it: ceil(fraction * n), at least one. A
  /// product that is whole but for its rounding is.
  std::set<member> begin(const open_round& round, const std::set<member>& alive) override {
    std::set<member> left, without_samples, chosen;
    for (const member& who : alive)
      (round.has_samples(who) ? left : without_samples).insert(who);
    dice draw = dice::keyed(seed_, round.base.value);
    const double wanted = options_.sample_fraction * static_cast<double>(round.with.workers.size()) - 1e-9;
    while (chosen.size() < alive.size() && (chosen.empty() || static_cast<double>(chosen.size()) < wanted)) {
      if (left.empty())
        left.swap(without_samples);
      chosen.insert(left.extract(std::next(left.begin(), static_cast<std::ptrdiff_t>(draw.below(left.size())))));
    }
    return chosen;
  }

  std::optional<closing> close(const open_round& round) override {
    if (!round.full())
      return std::nullopt;
    closing out = by_samples(round);
    out.step = options_.outer;
    return out;
  }

private:
  local_options options_;
  std::uint64_t seed_;
};

/// The worker's half: steps on parameters of its own, one slice of each of H global batches, from the centre's parameters on.
class local_task final : public task {
public:
  worker_effects begin(const plan& with, const params& what, const push& as) override {
    plan_ = with;
    open_ = as;
    left_ = what.period;
    anchor_ = what.parameters;
    position_ = what.position;
    return {adopt{what.ver, anchor_}, mix{{{anchor_, 1}}}, step()};
  }

  worker_effects on(const computed& msg) override {
    accumulate(open_, msg);
    position_ = plan_.after(position_);
    if (--left_ > 0)
      return {step()};
    return {send_push{open_, {{anchor_, 1}, {own_parameters, -1}}}};
  }

private:
  local_step step() const {
    const auto n = static_cast<std::uint32_t>(plan_.workers.size());
    return {{.position = position_,
             .batches = n,
             .cuts = n,
             .parts = {{static_cast<std::uint32_t>(plan_.rank_of(open_.id.worker)), 1}}}};
  }

  plan plan_;
  push open_;
  ticket anchor_;
  std::uint32_t left_ = 0;     ///< steps to make
  std::uint64_t position_ = 0; ///< in the data, of the next step's global batch
};

} // namespace troupe::protocols
