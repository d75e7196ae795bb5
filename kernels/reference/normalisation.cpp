// SPDX-License-Identifier: BSD-3-Clause
// Normalisations and softmax, as plain loops. Layer, group and batch norm differ in which elements share a mean alone.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::reference {

namespace {

/// Sets of elements that share a mean and a variance.
template <class Place, class Channel>
struct sets {
  std::int64_t count, elements; ///< how many sets, and elements of each
  Place place;                  ///< (set, i) -> index of a set's element i
  Channel channel;              ///< index -> which gamma and beta
};

auto sets_of(const kernels::layernorm& op) {
  return sets{op.rows, op.columns, [n = op.columns](auto set, auto i) { return set * n + i; },
              [n = op.columns](auto index) { return index % n; }};
}

/// layernorm_backward and its kin have the same extents as their forward.
auto sets_of(const kernels::groupnorm& op) {
  const auto elements = op.channels / op.groups * op.inner;
  return sets{op.rows * op.groups, elements, [elements](auto set, auto i) { return set * elements + i; },
              [op](auto index) { return index / op.inner % op.channels; }};
}

auto sets_of(const kernels::batchnorm& op) {
  return sets{op.channels, op.rows * op.inner,
              [op](auto set, auto i) { return (i / op.inner * op.channels + set) * op.inner + i % op.inner; },
              [op](auto index) { return index / op.inner % op.channels; }};
}

template <class Real>
struct moments {
  double mean = 0, variance = 0;
  moments(const auto& over, std::int64_t set, const Real* x) {
    const auto n = static_cast<double>(over.elements);
    for (std::int64_t i = 0; i < over.elements; ++i)
      mean += x[over.place(set, i)] / n;
    for (std::int64_t i = 0; i < over.elements; ++i)
      variance += (x[over.place(set, i)] - mean) * (x[over.place(set, i)] - mean) / n;
  }
};

template <class Real>
void normalise(const auto& over, double epsilon, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean,
               Real* rstd) {
  for (std::int64_t set = 0; set < over.count; ++set) {
    const moments<Real> of_set(over, set, x);
    const double s = 1 / std::sqrt(of_set.variance + epsilon);
    mean[set] = static_cast<Real>(of_set.mean);
    rstd[set] = static_cast<Real>(s);
    for (std::int64_t i = 0; i < over.elements; ++i) {
      const auto at = over.place(set, i), channel = over.channel(at);
      y[at] = static_cast<Real>(gamma[channel] * ((x[at] - of_set.mean) * s) + beta[channel]);
    }
  }
}

/// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)), means over the set.
template <class Real>
void normalise_backward(const auto& over, std::int64_t channels, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta, bool accumulate) {
  std::vector<double> gammas(size(channels)), betas(size(channels)), result(size(over.count * over.elements));
  for (std::int64_t set = 0; set < over.count; ++set) {
    const auto xhat = [&](std::int64_t at) { return (static_cast<double>(x[at]) - mean[set]) * rstd[set]; };
    const auto g = [&](std::int64_t at) { return static_cast<double>(dy[at]) * gamma[over.channel(at)]; };
    double mean_g = 0, mean_g_xhat = 0;
    for (std::int64_t i = 0; i < over.elements; ++i) {
      const auto at = over.place(set, i);
      mean_g += g(at) / static_cast<double>(over.elements);
      mean_g_xhat += g(at) * xhat(at) / static_cast<double>(over.elements);
      gammas[size(over.channel(at))] += dy[at] * xhat(at);
      betas[size(over.channel(at))] += dy[at];
    }
    for (std::int64_t i = 0; i < over.elements; ++i) {
      const auto at = over.place(set, i);
      result[size(at)] = rstd[set] * (g(at) - mean_g - xhat(at) * mean_g_xhat);
    }
  }
  store(result, dx);
  store(gammas, dgamma, accumulate);
  store(betas, dbeta, accumulate);
}

} // namespace

template <class Real>
void layernorm(const kernels::layernorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean,
               Real* rstd) {
  normalise(sets_of(op), op.epsilon, x, gamma, beta, y, mean, rstd);
}

template <class Real>
void layernorm_backward(const kernels::layernorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta) {
  normalise_backward(sets_of(kernels::layernorm{.rows = op.rows, .columns = op.columns}), op.columns, x, gamma, mean, rstd, dy,
                     dx, dgamma, dbeta, op.accumulate);
}

template <class Real>
void groupnorm(const kernels::groupnorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean,
               Real* rstd) {
  normalise(sets_of(op), op.epsilon, x, gamma, beta, y, mean, rstd);
}

template <class Real>
void groupnorm_backward(const kernels::groupnorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta) {
  const kernels::groupnorm extents{.rows = op.rows, .channels = op.channels, .inner = op.inner, .groups = op.groups};
  normalise_backward(sets_of(extents), op.channels, x, gamma, mean, rstd, dy, dx, dgamma, dbeta, op.accumulate);
}

template <class Real>
void batchnorm(const kernels::batchnorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean,
               Real* rstd) {
  normalise(sets_of(op), op.epsilon, x, gamma, beta, y, mean, rstd);
}

template <class Real>
void batchnorm_backward(const kernels::batchnorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta) {
  const kernels::batchnorm extents{.rows = op.rows, .channels = op.channels, .inner = op.inner};
  normalise_backward(sets_of(extents), op.channels, x, gamma, mean, rstd, dy, dx, dgamma, dbeta, op.accumulate);
}

template <class Real>
void rmsnorm(const kernels::rmsnorm& op, const Real* x, const Real* gamma, Real* y, Real* rstd) {
  for (std::int64_t r = 0; r < op.rows; ++r, x += op.columns, y += op.columns) {
    double mean_square = 0;
    for (std::int64_t i = 0; i < op.columns; ++i)
      mean_square += static_cast<double>(x[i]) * x[i] / static_cast<double>(op.columns);
    const double s = 1 / std::sqrt(mean_square + op.epsilon);
    rstd[r] = static_cast<Real>(s);
    for (std::int64_t i = 0; i < op.columns; ++i)
      y[i] = static_cast<Real>(gamma[i] * (x[i] * s));
  }
}

/// With xhat = x rstd and g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <class Real>
void rmsnorm_backward(const kernels::rmsnorm_backward& op, const Real* x, const Real* gamma, const Real* rstd, const Real* dy,
                      Real* dx, Real* dgamma) {
  std::vector<double> gammas(size(op.columns));
  for (std::int64_t r = 0; r < op.rows; ++r, x += op.columns, dy += op.columns, dx += op.columns) {
    const auto xhat = [&](std::int64_t i) { return static_cast<double>(x[i]) * rstd[r]; };
    const auto g = [&](std::int64_t i) { return static_cast<double>(dy[i]) * gamma[i]; };
    double mean_g_xhat = 0;
    for (std::int64_t i = 0; i < op.columns; ++i) {
      mean_g_xhat += g(i) * xhat(i) / static_cast<double>(op.columns);
      gammas[size(i)] += dy[i] * xhat(i);
    }
    for (std::int64_t i = 0; i < op.columns; ++i)
      dx[i] = static_cast<Real>(rstd[r] * (g(i) - xhat(i) * mean_g_xhat));
  }
  store(gammas, dgamma, op.accumulate);
}

template <class Real>
void softmax(const Real* x, Real* y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const double peak = *std::max_element(x, x + columns);
    double total = 0;
    for (std::int64_t i = 0; i < columns; ++i)
      total += std::exp(x[i] - peak);
    for (std::int64_t i = 0; i < columns; ++i)
      y[i] = static_cast<Real>(std::exp(x[i] - peak) / total);
  }
}

template <class Real>
void softmax_backward(const Real* y, const Real* dy, Real* dx, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, y += columns, dy += columns, dx += columns) {
    double product = 0;
    for (std::int64_t i = 0; i < columns; ++i)
      product += static_cast<double>(y[i]) * dy[i];
    for (std::int64_t i = 0; i < columns; ++i)
      dx[i] = static_cast<Real>(y[i] * (dy[i] - product));
  }
}

#define TROUPE_INSTANTIATE(Real)                                                                                                 \
  template void layernorm(const kernels::layernorm&, const Real*, const Real*, const Real*, Real*, Real*, Real*);                \
  template void layernorm_backward(const kernels::layernorm_backward&, const Real*, const Real*, const Real*, const Real*,       \
                                   const Real*, Real*, Real*, Real*);                                                            \
  template void groupnorm(const kernels::groupnorm&, const Real*, const Real*, const Real*, Real*, Real*, Real*);                \
  template void groupnorm_backward(const kernels::groupnorm_backward&, const Real*, const Real*, const Real*, const Real*,       \
                                   const Real*, Real*, Real*, Real*);                                                            \
  template void batchnorm(const kernels::batchnorm&, const Real*, const Real*, const Real*, Real*, Real*, Real*);                \
  template void batchnorm_backward(const kernels::batchnorm_backward&, const Real*, const Real*, const Real*, const Real*,       \
                                   const Real*, Real*, Real*, Real*);                                                            \
  template void rmsnorm(const kernels::rmsnorm&, const Real*, const Real*, Real*, Real*);                                        \
  template void rmsnorm_backward(const kernels::rmsnorm_backward&, const Real*, const Real*, const Real*, const Real*, Real*,    \
                                 Real*);                                                                                         \
  template void softmax(const Real*, Real*, std::int64_t, std::int64_t);                                                         \
  template void softmax_backward(const Real*, const Real*, Real*, std::int64_t, std::int64_t);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

void compute(const kernels::layernorm& op) {
  layernorm(op, op.x, op.gamma, op.beta, op.y, op.mean, op.rstd);
}

void compute(const kernels::layernorm_backward& op) {
  layernorm_backward(op, op.x, op.gamma, op.mean, op.rstd, op.dy, op.dx, op.dgamma, op.dbeta);
}

void compute(const kernels::rmsnorm& op) {
  rmsnorm(op, op.x, op.gamma, op.y, op.rstd);
}

void compute(const kernels::rmsnorm_backward& op) {
  rmsnorm_backward(op, op.x, op.gamma, op.rstd, op.dy, op.dx, op.dgamma);
}

void compute(const kernels::groupnorm& op) {
  groupnorm(op, op.x, op.gamma, op.beta, op.y, op.mean, op.rstd);
}

void compute(const kernels::groupnorm_backward& op) {
  groupnorm_backward(op, op.x, op.gamma, op.mean, op.rstd, op.dy, op.dx, op.dgamma, op.dbeta);
}

void compute(const kernels::batchnorm& op) {
  const auto over = sets_of(op);
  const auto n = static_cast<double>(over.elements), factor = static_cast<double>(op.weight) * op.momentum;
  for (std::int64_t c = 0; c < op.channels; ++c) {
    const moments<float> of_batch(over, c, op.x);
    const double unbiased = n > 1 ? of_batch.variance * n / (n - 1) : 0;
    const auto step = [&](float* to, double by) { to[c] = rounded(by + (op.accumulate ? static_cast<double>(to[c]) : 0.0)); };
    step(op.mean_step, factor * (op.running_mean[c] - of_batch.mean));
    step(op.variance_step, factor * (op.running_variance[c] - unbiased));
  }
  batchnorm(op, op.x, op.gamma, op.beta, op.y, op.mean, op.rstd);
}

void compute(const kernels::batchnorm_inference& op) {
  for (std::int64_t i = 0; i < op.count(); ++i) {
    const auto c = i / op.inner % op.channels;
    const double s = 1 / std::sqrt(static_cast<double>(op.running_variance[c]) + op.epsilon);
    op.y[i] = rounded(op.gamma[c] * ((static_cast<double>(op.x[i]) - op.running_mean[c]) * s) + op.beta[c]);
  }
}

void compute(const kernels::batchnorm_backward& op) {
  batchnorm_backward(op, op.x, op.gamma, op.mean, op.rstd, op.dy, op.dx, op.dgamma, op.dbeta);
}

void compute(const kernels::softmax& op) {
  softmax(op.x, op.y, op.rows, op.columns);
}

void compute(const kernels::softmax_backward& op) {
  softmax_backward(op.y, op.dy, op.dx, op.rows, op.columns);
}

} // namespace troupe::kernels::reference
