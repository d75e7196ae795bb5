// SPDX-License-Identifier: BSD-3-Clause
// Local SGD: H local steps, then the average (Stich 2019), with FedAvg's sampling (McMahan et al. 2017) and an outer optimizer
// (block momentum: Chen & Huo 2016; Nesterov: DiLoCo, Douillard et al. 2023).
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/outer_step.hpp"
#include "protocols/protocol.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::protocols {

struct local_options {
  step_rule outer{.method = step_rule::kind::outer}; ///< lr 1 without momentum: the average
  double sample_fraction = 1;                        ///< of the workers in each round
};

/// The centre's half. A push is w - w_i, the worker's movement with the sign of a gradient. The step on their mean by samples,
/// with learning rate 1 and no momentum, gives the mean of the workers' parameters.
class local_sgd final : public round_policy {
public:
  local_sgd(const local_options& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  /// Draws who takes part in each round: ceil(fraction * n) workers, at least one, first those with samples in it. 1e-9 absorbs
  /// the rounding of a product that is a whole number.
  std::set<member> begin(const open_round& round, const std::set<member>& alive) override {
    TROUPE_ASSERT(!alive.empty());
    std::set<member> left, without_samples, chosen;
    for (const member& who : alive)
      (round.has_samples(who) ? left : without_samples).insert(who);
    random_stream draw = random_stream::keyed(seed_, round.base.value);
    const double wanted = options_.sample_fraction * static_cast<double>(round.plan.workers.size()) - 1e-9;
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

/// The worker's half: starts from the centre's parameters and takes H local steps, each on its slice of a global batch.
class local_task final : public task {
public:
  worker_effects begin(const plan& plan, const params& msg, const push& draft) override {
    TROUPE_ASSERT(msg.period > 0 && plan.has({draft.id.worker, draft.id.incarnation}));
    plan_ = plan;
    open_ = draft;
    left_ = msg.period;
    anchor_ = msg.parameters;
    position_ = msg.position;
    return {adopt{msg.ver, anchor_}, mix{{{anchor_, 1}}}, step()};
  }

  worker_effects on(const computed& msg) override {
    TROUPE_ASSERT(left_ > 0);
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

/// Parameters of the centre's half: its step on the mean movement, and who takes part.
struct centre_parameters {
  outer_parameters step;
  parameter<double> sample_fraction = real_parameter("sample_fraction", 1, {.least = 0, .most = 1, .open_least = true},
                                                     "share of the workers that take part in a round, drawn for each round");

  local_options of(const protocol_spec& spec) const {
    return {.outer = step.of(spec), .sample_fraction = sample_fraction.of(spec)};
  }
};

/// Fills in what protocols of local steps have in common; `steps` is the initial H.
inline protocol local_steps_protocol(protocol draft, const parameter<std::int64_t>& steps) {
  const centre_parameters centre;
  draft.parameters.insert(draft.parameters.end(),
                          {centre.step.outer, centre.step.lr, centre.step.momentum, centre.sample_fraction});
  draft.period = steps;
  draft.resumable = true;
  draft.validate = [centre](const protocol_spec& spec, std::uint32_t) { return centre.step.problem(spec); };
  draft.keeps = [centre](const protocol_spec& spec) {
    return footprint{.replica = true, .outer_momentum = !centre.step.averages(spec)};
  };
  draft.policy = [centre](const protocol_spec& spec, std::uint64_t seed) {
    return std::make_unique<local_sgd>(centre.of(spec), seed);
  };
  draft.task = [](const protocol_spec&) { return std::make_unique<local_task>(); };
  return round_protocol(std::move(draft));
}

/// H steps for one exchange; infinite unless an exchange takes longer than a step.
inline double cost_of_local_steps(round_times times, std::int64_t steps) {
  double compute = 0, travel = 0;
  for (const step_time& each : times) {
    compute = std::max(compute, each.compute);
    travel = std::max(travel, each.travel);
  }
  return travel > compute ? compute + travel / static_cast<double>(steps) : std::numeric_limits<double>::infinity();
}

inline protocol local_protocol() {
  const auto steps = integer_parameter("steps", 10, 1, "H: local steps between communications");
  return local_steps_protocol(
      {.name = "local",
       .summary = "local SGD: H steps at each worker, then the average; with outer momentum DiLoCo, with sampling FedAvg",
       .round_is_full = "all workers of the round have pushed what they moved by; weighted by samples; outer optimizer",
       .recipients = "everyone in the next round",
       .pays_when = "the link is slower than the step",
       .parameters = {steps},
       .cost = [steps](const protocol_spec& spec, const plan&,
                       round_times times) { return cost_of_local_steps(times, steps.of(spec)); }},
      steps);
}

} // namespace troupe::protocols
