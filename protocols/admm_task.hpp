// SPDX-License-Identifier: BSD-3-Clause
// Consensus ADMM, the worker's half (Boyd et al. 2011, section 7.1; Zhang & Kwok 2014).
#pragma once

#include <utility>

#include "protocols/params_worker.hpp"

namespace troupe::protocols {

/// H steps towards x = argmin f_i(x) + <l, x> + rho/2 |x - z|^2, from where x was; then l += rho (x - z) and push x + l / rho.
/// The paper minimises exactly; taking steps of the job's optimizer instead is ours. A replica that has diverged restarts at z,
/// with the l of its last finite step.
class admm_task final : public task {
public:
  explicit admm_task(double rho) : rho_(rho) {}

  worker_effects begin(const plan& plan, const params& msg, const push& draft) override {
    plan_ = plan;
    open_ = draft;
    left_ = msg.period;
    position_ = msg.position;
    worker_effects out{adopt{msg.ver, msg.parameters}};
    if (std::exchange(fresh_, false))
      out.emplace_back(mix{{{msg.parameters, 1}}});
    out.emplace_back(step());
    return out;
  }

  worker_effects on(const computed& msg) override {
    accumulate(open_, msg);
    position_ = plan_.after(position_);
    if (--left_ > 0)
      return {step()};
    fresh_ = !open_.finite;
    if (fresh_)
      return {send_push{open_, {{own_parameters, 1}}}};
    return {dual{rho_}, send_push{open_, {{own_parameters, 1}, {dual_variable, 1 / rho_}}}};
  }

  void has_replica() override { fresh_ = false; }

private:
  local_step step() const {
    const auto n = static_cast<std::uint32_t>(plan_.workers.size());
    const auto rank = static_cast<std::uint32_t>(plan_.rank_of(open_.id.worker));
    return {.gradient = {.position = position_, .batches = n, .cuts = n, .parts = {{rank, 1}}}, .proximal = rho_, .dual = 1};
  }

  double rho_;
  plan plan_;
  push open_;
  bool fresh_ = true; ///< x starts at z
  std::uint32_t left_ = 0;
  std::uint64_t position_ = 0;
};

} // namespace troupe::protocols
