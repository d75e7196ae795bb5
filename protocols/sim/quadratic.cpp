// SPDX-License-Identifier: BSD-3-Clause
// Closed forms.
#include "protocols/sim/quadratic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "protocols/random_stream.hpp"

namespace troupe::protocols::sim {

namespace {

using numbers = std::vector<double>;

struct vector_data final : tensor_data {
  explicit vector_data(numbers elements) : elements(std::move(elements)) {}
  numbers elements;
};

tensor make(numbers elements) {
  return std::make_shared<vector_data>(std::move(elements));
}

void add(numbers& to, std::span<const double> from, double weight) {
  to.resize(std::max(to.size(), from.size()));
  for (std::size_t k = 0; k < from.size(); ++k)
    to[k] += weight * from[k];
}

numbers sum_of(std::span<const operand> terms, const numbers& own, const numbers& dual) {
  numbers out;
  for (const operand& part : terms)
    add(out,
        part.from == operand::source::own    ? own
        : part.from == operand::source::dual ? dual
                                             : elements_of(part.tensor),
        part.weight);
  return out;
}

/// v = m v + g; x -= lr v, or lr (g + m v).
void sgd(numbers& x, numbers& v, std::span<const double> g, double lr, double momentum, bool nesterov) {
  v.resize(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    v[k] = momentum * v[k] + g[k];
    x[k] -= lr * (nesterov ? g[k] + momentum * v[k] : v[k]);
  }
}

/// What an optimizer remembers.
struct optimizer_state {
  numbers first, second;
  std::uint64_t steps = 0;
};

void adamw(const quadratic_options& how, optimizer_state& state, numbers& x, std::span<const double> g, double lr) {
  state.first.resize(x.size());
  state.second.resize(x.size());
  const double unbias1 = 1 / (1 - std::pow(how.beta1, state.steps)), unbias2 = 1 / (1 - std::pow(how.beta2, state.steps));
  for (std::size_t k = 0; k < x.size(); ++k) {
    double &m = state.first[k], &v = state.second[k];
    m = how.beta1 * m + (1 - how.beta1) * g[k];
    v = how.beta2 * v + (1 - how.beta2) * g[k] * g[k];
    x[k] -= lr * (m * unbias1 / (std::sqrt(v * unbias2) + how.epsilon) + how.weight_decay * x[k]);
  }
}

/// The job's own step.
void optimize(const quadratic_options& how, optimizer_state& state, numbers& x, numbers g, double lr) {
  ++state.steps;
  if (how.adamw)
    return adamw(how, state, x, g, lr);
  if (how.weight_decay != 0)
    add(g, x, how.weight_decay);
  sgd(x, state.first, g, lr, how.momentum, how.nesterov);
}

double rate_of(const quadratic_options& how, std::uint64_t samples, std::uint32_t workers) {
  return how.learning_rate ? how.learning_rate(static_cast<double>(samples) / static_cast<double>(how.data_size), workers)
                           : how.lr;
}

squared_norm squares_under(const quadratic_options& how, std::span<const double> g) {
  squared_norm out;
  for (const double each : g)
    if (how.clip_norm > 0)
      out.add(each * each / (how.clip_norm * how.clip_norm));
  return out;
}

void clip(const quadratic_options& how, numbers& g, const squared_norm& squares) {
  const double factor = clip_factor(how.clip_norm, squares);
  for (double& each : g)
    each *= factor;
}

std::size_t edge(std::size_t dimensions, std::uint32_t index, std::uint32_t shards) {
  return dimensions * index / shards;
}

class quadratic_worker final : public worker_numerics {
public:
  explicit quadratic_worker(const quadratic_options& options)
      : options_(options), own_(options.minimum.size()), dual_(options.minimum.size()) {}

  gradient gradient_at(const tensor& parameters, const batch& of) override {
    numbers out(options_.minimum.size());
    const double loss = evaluate(elements_of(parameters), of, out);
    const squared_norm squares = squares_under(options_, out);
    return {.value = make(std::move(out)), .loss = loss, .finite = std::isfinite(loss), .squares = squares};
  }
  void adopt(const tensor& parameters) override { anchor_ = parameters; }
  gradient local_step(const batch& of, const local_step_rule& how) override {
    numbers slope(own_.size()), at = own_;
    velocity_.resize(own_.size());
    if (how.momentum > 0)
      add(at, velocity_, how.momentum);
    const double loss = evaluate(at, of, slope);
    clip(options_, slope, squares_under(options_, slope));
    const auto anchor = elements_of(anchor_);
    for (std::size_t k = 0; k < own_.size(); ++k)
      slope[k] += how.proximal * (at[k] - anchor[k]) + how.dual * dual_[k];
    const double lr = rate_of(options_, of.position, of.workers);
    if (how.momentum < 0) {
      optimize(options_, state_, own_, std::move(slope), lr);
    } else {
      add(slope, at, options_.weight_decay);
      for (std::size_t k = 0; k < own_.size(); ++k)
        velocity_[k] = how.momentum * velocity_[k] - lr * slope[k];
      add(own_, velocity_, 1);
    }
    return {.value = {}, .loss = loss, .finite = std::isfinite(loss)};
  }
  void mix(std::span<const operand> terms) override { own_ = sum_of(terms, own_, dual_); }
  void dual(double rho) override {
    const auto anchor = elements_of(anchor_);
    for (std::size_t k = 0; k < own_.size(); ++k)
      dual_[k] += rho * (own_[k] - anchor[k]);
  }
  tensor sum(std::span<const operand> terms) override { return make(sum_of(terms, own_, dual_)); }
  void forget_momentum() override {
    velocity_.clear();
    state_ = {};
  }

private:
  /// Adds the gradient to `slope`; the mean loss.
  double evaluate(std::span<const double> x, const batch& of, numbers& slope) const {
    double loss = 0, samples = 0;
    for (const batch_part& part : of.parts) {
      const double each = part.weight / static_cast<double>(part.end - part.begin);
      for (std::uint64_t p = part.begin; p < part.end; ++p) {
        random_stream draw = random_stream::keyed(options_.seed, p % static_cast<std::uint64_t>(options_.data_size));
        for (std::size_t k = 0; k < slope.size(); ++k) {
          const double off = x[k] - options_.minimum[k] - options_.noise * (2 * draw.uniform() - 1);
          slope[k] += each * options_.curvature[k] * off;
          loss += options_.curvature[k] * off * off / 2;
        }
        samples += 1;
      }
    }
    return samples > 0 ? loss / samples : 0;
  }

  const quadratic_options& options_;
  numbers own_, dual_;
  numbers velocity_; ///< of steps with a momentum of their own
  optimizer_state state_;
  tensor anchor_;
};

class quadratic_shard final : public shard_numerics {
public:
  quadratic_shard(const quadratic_options& options, std::size_t size) : options_(options), parameters_(make(numbers(size))) {}

  tensor parameters() const override { return parameters_; }

  void step(std::span<const operand> sum, const close& how, const tensor& backup) override {
    numbers g = sum_of(sum, {}, {});
    const auto old = elements_of(parameters_);
    g.resize(old.size());
    numbers x(old.begin(), old.end());
    if (how.step.method != std::exchange(last_, how.step.method))
      state_ = {};
    if (how.step.method == step_rule::kind::optimizer)
      clip(options_, g, how.step.squares);
    if (backup)
      compensate(g, how.compensate, x, elements_of(backup));
    switch (how.step.method) {
    case step_rule::kind::optimizer:
      optimize(options_, state_, x, std::move(g), rate_of(options_, how.samples_before, how.workers) * how.step.lr_scale);
      break;
    case step_rule::kind::outer:
      sgd(x, state_.first, g, how.step.lr, how.step.momentum, how.step.nesterov);
      break;
    case step_rule::kind::linear:
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double moved = how.step.parameter_weight * x[k] + g[k];
        x[k] = std::copysign(std::max(std::abs(moved) - how.step.threshold, 0.0), moved);
      }
      break;
    }
    parameters_ = make(std::move(x));
  }
  squared_norm squares_of(const tensor& sum) const override { return squares_under(options_, elements_of(sum)); }
  std::unique_ptr<shard_numerics> clone() const override { return std::make_unique<quadratic_shard>(*this); }
  std::uint64_t fingerprint() const override {
    std::uint64_t out = state_.steps;
    for (const std::span<const double> part : {elements_of(parameters_), std::span<const double>{state_.first},
                                               std::span<const double>{state_.second}, std::span<const double>{mean_square_}})
      for (const double each : part)
        out = (out ^ std::bit_cast<std::uint64_t>(each)) * 0x9e3779b97f4a7c15;
    return out;
  }

private:
  void compensate(numbers& g, const delay_compensation& how, const numbers& x, std::span<const double> backup) {
    mean_square_.resize(g.size());
    for (std::size_t k = 0; k < g.size(); ++k) {
      mean_square_[k] = 0.95 * mean_square_[k] + 0.05 * g[k] * g[k];
      const double lambda = how.adaptive ? how.lambda / std::sqrt(mean_square_[k] + 1e-7) : how.lambda;
      g[k] += lambda * g[k] * g[k] * (x[k] - backup[k]);
    }
  }

  const quadratic_options& options_;
  tensor parameters_;
  optimizer_state state_;
  numbers mean_square_;
  step_rule::kind last_ = step_rule::kind::optimizer;
};

} // namespace

std::span<const double> elements_of(const tensor& vector) {
  return vector ? std::span<const double>{static_cast<const vector_data&>(*vector).elements} : std::span<const double>{};
}

std::unique_ptr<worker_numerics> quadratic::make_worker(member) {
  return std::make_unique<quadratic_worker>(options_);
}

std::unique_ptr<shard_numerics> quadratic::make_shard(std::uint32_t index, std::uint32_t shards) {
  const std::size_t n = options_.minimum.size();
  return std::make_unique<quadratic_shard>(options_, edge(n, index + 1, shards) - edge(n, index, shards));
}

tensor quadratic::slice(const tensor& whole, std::uint32_t index, std::uint32_t shards) {
  const auto all = elements_of(whole);
  if (shards == 1)
    return whole;
  return make({all.begin() + static_cast<std::ptrdiff_t>(edge(all.size(), index, shards)),
               all.begin() + static_cast<std::ptrdiff_t>(edge(all.size(), index + 1, shards))});
}

tensor quadratic::join(std::span<const tensor> ranges, std::uint32_t, std::uint32_t) {
  if (ranges.size() == 1)
    return ranges.front();
  numbers out;
  for (const tensor& range : ranges) {
    const auto part = elements_of(range);
    out.insert(out.end(), part.begin(), part.end());
  }
  return make(std::move(out));
}

tensor quadratic::sum(std::span<const operand> terms) {
  return make(sum_of(terms, {}, {}));
}

evaluation quadratic::evaluate(const tensor& whole) {
  const auto x = elements_of(whole);
  evaluation out;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double off = x[k] - options_.minimum[k];
    out.test_loss += options_.curvature[k] * off * off / 2;
    out.train_loss += options_.curvature[k] * (off * off + options_.noise * options_.noise / 3) / 2;
  }
  return out;
}

} // namespace troupe::protocols::sim
