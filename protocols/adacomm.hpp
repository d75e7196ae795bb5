// SPDX-License-Identifier: BSD-3-Clause
// AdaComm: local SGD whose communication period falls with the loss (Wang & Joshi, SysML 2019, section 4).
#pragma once

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/local_sgd.hpp"
#include "protocols/memory.hpp"

namespace troupe::protocols {

struct adacomm_options {
  std::uint32_t initial_steps = 20;      ///< tau_0
  nanoseconds interval = 60'000'000'000; ///< T_0
  bool couple_lr = true;
};

/// At the end of interval l: tau_l = ceil(sqrt(F_l / F_0) tau_0), with F_l the mean training loss over the interval's last round
/// and F_0 over the job's first; where that is not below tau_{l-1}, tau_l = ceil(tau_{l-1} / 2). tau >= 1.
///
/// Coupled to the learning rate: F_l / F_0 times eta_0 / eta_l; after an interval in which eta changed, tau follows the formula
/// up as well as down (ours: the paper's tau only falls). A loss that is not finite is ignored; at a learning rate of 0 tau
/// stays.
class adacomm final : public controller {
public:
  explicit adacomm(const adacomm_options& options) : options_(options), tau_(options.initial_steps) {}

  nanoseconds interval() const override { return options_.interval; }

  std::optional<decision> on(const report& closed, double learning_rate) override {
    if (closed.contributions == 0 || !std::isfinite(closed.loss))
      return std::nullopt;
    if (first_loss_ == 0) {
      first_loss_ = closed.loss;
      first_rate_ = last_rate_ = learning_rate;
    }
    loss_ = closed.loss;
    rate_ = learning_rate;
    return std::nullopt;
  }

  std::optional<decision> on_interval(nanoseconds at) override {
    if (first_loss_ <= 0 || rate_ <= 0)
      return std::nullopt;
    const double coupling = options_.couple_lr ? first_rate_ / rate_ : 1;
    const bool follows = options_.couple_lr && rate_ != last_rate_;
    last_rate_ = rate_;
    const double formula =
        std::ceil(std::sqrt(std::max(0.0, coupling * loss_ / first_loss_)) * static_cast<double>(options_.initial_steps));
    const auto wanted = static_cast<std::uint32_t>(std::clamp(formula, 1.0, 1e9));
    const std::uint32_t before = tau_;
    tau_ = wanted < before || follows ? wanted : (before + 1) / 2;
    TROUPE_ASSERT(follows || tau_ <= before);
    if (tau_ == before)
      return std::nullopt;
    return decision{.period = tau_,
                    .why = fmt::format("adacomm at {} s: loss {} of {}, learning rate {} of {}: communication period {} -> {}",
                                       static_cast<double>(at) * 1e-9, loss_, first_loss_, rate_, first_rate_, before, tau_)};
  }

  std::vector<double> memory() const override { return {double(tau_), first_loss_, loss_, first_rate_, last_rate_, rate_}; }
  void remember(std::span<const double> memory) override {
    memory_reader in{memory};
    tau_ = std::max(in.integer<std::uint32_t>(), 1U);
    for (double* each : {&first_loss_, &loss_, &first_rate_, &last_rate_, &rate_})
      *each = in.real();
  }

  void check() const override {
    TROUPE_ASSERT(tau_ > 0);
    TROUPE_ASSERT(std::isfinite(first_loss_) && std::isfinite(loss_));
  }

private:
  adacomm_options options_;
  std::uint32_t tau_;
  double first_loss_ = 0, loss_ = 0;
  double first_rate_ = 0, last_rate_ = 0, rate_ = 0; ///< of the first round, of the last interval, of the last round
};

inline protocol adacomm_protocol() {
  const auto steps = integer_parameter("initial_steps", 20, 1, "tau_0: local steps between communications at first");
  const auto interval = real_parameter("interval_s", 60, {.least = 0.001, .most = 1e9}, "training seconds between adaptations");
  const auto couple_lr = bool_parameter("couple_lr", true, "let the period follow the learning rate too");
  return local_steps_protocol({.name = "adacomm",
                               .summary = "local SGD whose communication period falls with the loss",
                               .round_is_full = "as local",
                               .recipients = "everyone in the next round",
                               .pays_when = "the link is slower than the step, and long periods leave a floor",
                               .parameters = {steps, interval, couple_lr},
                               .make_controller =
                                   [steps, interval, couple_lr](const protocol_spec& spec) {
                                     return std::make_unique<adacomm>(adacomm_options{static_cast<std::uint32_t>(steps.of(spec)),
                                                                                      duration_of_s(interval.of(spec)),
                                                                                      couple_lr.of(spec)});
                                   }},
                              steps);
}

} // namespace troupe::protocols
