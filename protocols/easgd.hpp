// SPDX-License-Identifier: BSD-3-Clause
// Elastic averaging SGD, asynchronous, with its momentum form (Zhang, Choromanska, LeCun 2015, algorithms 1 and 2).
#pragma once

#include <utility>

#include "protocols/protocol.hpp"
#include "protocols/push_rule.hpp"

namespace troupe::protocols {

/// The centre's half. A worker pushes its parameters x and is answered with the centre c as it was before; then the centre moves
/// towards x: c = c + alpha (x - c). alpha travels with the push, so that both sides use the same value. Ours: with several
/// shards, each exchanges its range alone.
class easgd final : public push_rule {
  bool answers_first() const override { return true; }

  /// One more with the first answer: see the worker's half.
  std::uint32_t slices_for(const progress& worker) const override {
    return current_plan().period + (worker.last_clock == clock_tick{} ? 1 : 0);
  }

  step_rule step_of(const push& msg) const override {
    return {.method = step_rule::kind::linear, .parameter_weight = 1 - msg.weight};
  }
};

/// The worker's half: step t is x = x - eta g(x) and, where the period H divides t, x = x - eta g(x) - alpha (x - c): the
/// gradient is taken at x as it was pushed, so computing it hides the exchange. alpha = beta / n. Step 0 exchanges nothing
/// because x is c there. So the last slice that a worker is given belongs to the step with the next exchange.
///
/// `momentum` > 0: EAMSGD, v = momentum v - eta g(x + momentum v) and x = x + v; x is exchanged.
class easgd_task final : public task {
public:
  easgd_task(double beta, double momentum) : beta_(beta), momentum_(momentum) {}

  worker_effects begin(const plan& plan, const params& msg, const push& draft) override {
    worker_effects out{adopt{msg.ver, msg.parameters}};
    const double alpha = std::exchange(open_, draft).weight;
    if (fresh_) {
      out.emplace_back(mix{{{msg.parameters, 1}}});
    } else {
      if (pushed_)
        out.emplace_back(mix{{{own_parameters, 1}, {pushed_sum, -alpha}, {msg.parameters, alpha}}});
      accumulate(open_, during_exchange_);
    }
    open_.weight = beta_ / static_cast<double>(plan.workers.size());
    exchanging_ = false;
    plan_ = plan;
    left_ = msg.period;
    position_ = msg.position;
    go_on(out);
    return out;
  }

  worker_effects on(const computed& msg) override {
    if (exchanging_) {
      during_exchange_ = msg;
      return {};
    }
    accumulate(open_, msg);
    worker_effects out;
    go_on(out);
    return out;
  }

private:
  /// The next step; before the last one, the push.
  void go_on(worker_effects& out) {
    exchanging_ = --left_ == 0;
    if (exchanging_) {
      fresh_ = !open_.finite; // a replica that has diverged restarts at the centre
      pushed_ = open_.samples > 0;
      out.emplace_back(send_push{.push = open_, .sum = {{own_parameters, 1}}, .keep = true});
    }
    out.emplace_back(local_step{.gradient = {.position = position_, .cuts = 1, .parts = {{0, 1}}},
                                .momentum = momentum_ > 0 ? momentum_ : -1});
    position_ = plan_.after(position_, 1);
  }

  double beta_, momentum_;
  plan plan_;
  push open_;
  computed during_exchange_; ///< the step since the push
  bool fresh_ = true;        ///< the next parameters replace the replica
  bool exchanging_ = false;  ///< computes the step of the exchange
  bool pushed_ = false;      ///< its replica: one that has just begun again, and is the centre, is not sent
  std::uint32_t left_ = 0;   ///< slices
  std::uint64_t position_ = 0;
};

inline protocol easgd_protocol() {
  const auto steps = integer_parameter("steps", 10, 1, "local steps between exchanges");
  const auto beta = real_parameter("beta", 0.9, {.least = 0, .most = 1, .open_least = true, .open_most = true},
                                   "n alpha: how far both sides move");
  const auto momentum = real_parameter("momentum", 0, {.least = 0, .most = 1, .open_most = true},
                                       "Nesterov momentum of the local steps; 0: the job's optimizer");
  return {.name = "easgd",
          .summary = "elastic averaging: each worker's replica is drawn towards a centre; with momentum EAMSGD",
          .round_is_full = "each exchange alone, alpha = beta / n",
          .recipients = "the pusher: the centre as it was before its exchange",
          .pays_when = "the link is slow, and speeds differ",
          .per_push = true,
          .pushes_parameters = true,
          .resumable = true, // workers begin again at the centre, as one that joins does
          .parameters = {steps, beta, momentum},
          .period = steps,
          .keeps =
              [momentum](const protocol_spec& spec) {
                return footprint{.replica = true, .pushed_replica = true, .velocity = momentum.of(spec) > 0};
              },
          .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<easgd>(); },
          .make_worker = params_worker_maker([beta, momentum](const protocol_spec& spec) {
            return std::make_unique<easgd_task>(beta.of(spec), momentum.of(spec));
          })};
}

} // namespace troupe::protocols
