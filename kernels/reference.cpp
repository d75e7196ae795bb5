// SPDX-License-Identifier: BSD-3-Clause
// What every operation means, as plain loops.
#include "kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/random.hpp"

namespace troupe::kernels::reference {

namespace {

double gelu_inner(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

double weighted(std::span<const term> terms, std::int64_t i) {
  double result = 0;
  for (const term& t : terms)
    result += static_cast<double>(static_cast<float>(t.weight)) * t.data[i];
  return result;
}

/// Calls visit(plane, oh, ow, h, w) for every element inside the image of every window.
template <class F>
void for_windows(const window2d& w, F visit) {
  for (std::int64_t plane = 0; plane < w.n * w.c; ++plane)
    for (std::int64_t oh = 0; oh < w.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < w.out_w(); ++ow)
        for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
          for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
            const auto h = oh * w.stride - w.padding + kh, column = ow * w.stride - w.padding + kw;
            if (h >= 0 && h < w.h && column >= 0 && column < w.w)
              visit(plane, oh, ow, h, column);
          }
}

/// Calls visit(y_index, x_index, weight_index) for every product of a convolution.
template <class F>
void for_products(const window2d& w, std::int64_t out_channels, F visit) {
  for (std::int64_t n = 0; n < w.n; ++n)
    for (std::int64_t k = 0; k < out_channels; ++k)
      for (std::int64_t oh = 0; oh < w.out_h(); ++oh)
        for (std::int64_t ow = 0; ow < w.out_w(); ++ow)
          for (std::int64_t c = 0; c < w.c; ++c)
            for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
                const auto h = oh * w.stride - w.padding + kh, column = ow * w.stride - w.padding + kw;
                if (h >= 0 && h < w.h && column >= 0 && column < w.w)
                  visit(((n * out_channels + k) * w.out_h() + oh) * w.out_w() + ow, ((n * w.c + c) * w.h + h) * w.w + column,
                        ((k * w.c + c) * w.kernel_h + kh) * w.kernel_w + kw);
              }
}

template <class Real>
void store(const std::vector<double>& from, Real* to) {
  if (to)
    std::transform(from.begin(), from.end(), to, [](double v) { return static_cast<Real>(v); });
}

/// f'(x), where y = f(x). The activations that save their result do not use x.
double slope(unary_op op, double x, double y) {
  switch (op) {
  case unary_op::relu:
    return y > 0 ? 1 : 0;
  case unary_op::tanh:
    return 1 - y * y;
  case unary_op::sigmoid:
    return y * (1 - y);
  case unary_op::gelu: {
    const double t = std::tanh(gelu_inner(x)), inner_slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope;
  }
  case unary_op::exp:
    return y;
  case unary_op::log:
    return 1 / x;
  case unary_op::sqrt:
    return 0.5 / y;
  case unary_op::square:
    return 2 * x;
  case unary_op::negate:
    return -1;
  case unary_op::copy:
    return 1;
  }
  return 0;
}

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

} // namespace

double activate(activation act, double x) {
  return unary(as_unary(act), x);
}

double unary(unary_op op, double x) {
  switch (op) {
  case unary_op::relu:
    return std::max(x, 0.0);
  case unary_op::tanh:
    return std::tanh(x);
  case unary_op::sigmoid:
    return 1 / (1 + std::exp(-x));
  case unary_op::gelu:
    return 0.5 * x * (1 + std::tanh(gelu_inner(x)));
  case unary_op::exp:
    return std::exp(x);
  case unary_op::log:
    return std::log(x);
  case unary_op::sqrt:
    return std::sqrt(x);
  case unary_op::square:
    return x * x;
  case unary_op::negate:
    return -x;
  case unary_op::copy:
    return x;
  }
  return x;
}

double unary_derivative(unary_op op, double x) {
  return slope(op, x, unary(op, x));
}

double binary(binary_op op, double a, double b) {
  switch (op) {
  case binary_op::add:
    return a + b;
  case binary_op::subtract:
    return a - b;
  case binary_op::multiply:
    return a * b;
  case binary_op::divide:
    return a / b;
  }
  return 0;
}

double soft_threshold(double x, double threshold) {
  return std::copysign(std::max(std::abs(x) - threshold, 0.0), x);
}

template <class Real>
void conv2d(const window2d& w, std::int64_t out_channels, const Real* x, const Real* weight, const Real* bias, activation act,
            Real* y) {
  const auto plane = w.out_h() * w.out_w();
  std::vector<double> result(size(w.n * out_channels * plane));
  for_products(w, out_channels, [&](auto yi, auto xi, auto wi) { result[size(yi)] += static_cast<double>(x[xi]) * weight[wi]; });
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = activate(act, result[i] + (bias ? bias[static_cast<std::int64_t>(i) / plane % out_channels] : Real{0}));
  store(result, y);
}

template <class Real>
void conv2d_backward(const window2d& w, std::int64_t out_channels, const Real* x, const Real* weight, const Real* dy, Real* dx,
                     Real* dweight, Real* dbias) {
  const auto plane = w.out_h() * w.out_w();
  std::vector<double> images(size(w.n * w.c * w.h * w.w)), weights(size(out_channels * w.c * w.kernel_h * w.kernel_w));
  std::vector<double> biases(size(out_channels));
  for_products(w, out_channels, [&](auto yi, auto xi, auto wi) {
    images[size(xi)] += static_cast<double>(dy[yi]) * weight[wi];
    weights[size(wi)] += static_cast<double>(dy[yi]) * x[xi];
  });
  for (std::int64_t i = 0; i < w.n * out_channels * plane; ++i)
    biases[size(i / plane % out_channels)] += dy[i];
  store(images, dx);
  store(weights, dweight);
  store(biases, dbias);
}

template <class Real>
void layernorm(const Real* x, const Real* gamma, const Real* beta, double epsilon, Real* y, Real* mean, Real* rstd,
               std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Real* row = x + r * columns;
    double m = 0, variance = 0;
    for (std::int64_t i = 0; i < columns; ++i)
      m += row[i] / static_cast<double>(columns);
    for (std::int64_t i = 0; i < columns; ++i)
      variance += (row[i] - m) * (row[i] - m) / static_cast<double>(columns);
    const double s = 1 / std::sqrt(variance + epsilon);
    mean[r] = static_cast<Real>(m);
    rstd[r] = static_cast<Real>(s);
    for (std::int64_t i = 0; i < columns; ++i)
      y[r * columns + i] = static_cast<Real>(gamma[i] * ((row[i] - m) * s) + beta[i]);
  }
}

template <class Real>
void layernorm_backward(const Real* x, const Real* gamma, const Real* mean, const Real* rstd, const Real* dy, Real* dx,
                        Real* dgamma, Real* dbeta, std::int64_t rows, std::int64_t columns) {
  std::vector<double> gammas(size(columns)), betas(size(columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto xhat = [&](std::int64_t i) { return (static_cast<double>(x[r * columns + i]) - mean[r]) * rstd[r]; };
    const auto g = [&](std::int64_t i) { return static_cast<double>(dy[r * columns + i]) * gamma[i]; };
    double mean_g = 0, mean_g_xhat = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      mean_g += g(i) / static_cast<double>(columns);
      mean_g_xhat += g(i) * xhat(i) / static_cast<double>(columns);
      gammas[size(i)] += dy[r * columns + i] * xhat(i);
      betas[size(i)] += dy[r * columns + i];
    }
    for (std::int64_t i = 0; i < columns; ++i)
      dx[r * columns + i] = static_cast<Real>(rstd[r] * (g(i) - mean_g - xhat(i) * mean_g_xhat));
  }
  store(gammas, dgamma);
  store(betas, dbeta);
}

template <class Real>
void max_pool(const window2d& w, const Real* x, Real* y, std::int32_t* argmax) {
  std::fill_n(argmax, w.n * w.c * w.out_h() * w.out_w(), -1);
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    const auto out = (plane * w.out_h() + oh) * w.out_w() + ow;
    const Real value = x[(plane * w.h + h) * w.w + column];
    if (argmax[out] < 0 || value > y[out] || std::isnan(value)) {
      y[out] = value;
      argmax[out] = static_cast<std::int32_t>(h * w.w + column);
    }
  });
}

template <class Real>
void max_pool_backward(const window2d& w, const std::int32_t* argmax, const Real* dy, Real* dx) {
  std::vector<double> result(size(w.n * w.c * w.h * w.w));
  const auto out = w.out_h() * w.out_w();
  for (std::int64_t i = 0; i < w.n * w.c * out; ++i)
    result[size(i / out * w.h * w.w + argmax[i])] += dy[i];
  store(result, dx);
}

template <class Real>
void avg_pool(const window2d& w, const Real* x, Real* y) {
  const auto out = [&](auto plane, auto oh, auto ow) { return size((plane * w.out_h() + oh) * w.out_w() + ow); };
  std::vector<double> total(size(w.n * w.c * w.out_h() * w.out_w())), count(total.size());
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    total[out(plane, oh, ow)] += x[(plane * w.h + h) * w.w + column];
    count[out(plane, oh, ow)] += 1;
  });
  for (std::size_t i = 0; i < total.size(); ++i)
    y[i] = static_cast<Real>(total[i] / count[i]);
}

template <class Real>
void avg_pool_backward(const window2d& w, const Real* dy, Real* dx) {
  const auto out = [&](auto plane, auto oh, auto ow) { return size((plane * w.out_h() + oh) * w.out_w() + ow); };
  std::vector<double> count(size(w.n * w.c * w.out_h() * w.out_w())), result(size(w.n * w.c * w.h * w.w));
  for_windows(w, [&](auto plane, auto oh, auto ow, auto, auto) { count[out(plane, oh, ow)] += 1; });
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    result[size((plane * w.h + h) * w.w + column)] += dy[out(plane, oh, ow)] / count[out(plane, oh, ow)];
  });
  store(result, dx);
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
void softmax_cross_entropy(const Real* logits, const std::int32_t* labels, double scale, Real* loss, Real* dlogits,
                           std::int32_t* correct, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Real* x = logits + r * classes;
    const auto best = std::max_element(x, x + classes); // the first of equals
    const bool known = labels[r] >= 0 && labels[r] < classes;
    double total = 0;
    for (std::int64_t i = 0; i < classes; ++i)
      total += std::exp(static_cast<double>(x[i]) - *best);
    loss[r] = known ? static_cast<Real>(std::log(total) + *best - x[labels[r]]) : std::numeric_limits<Real>::quiet_NaN();
    if (correct)
      correct[r] = known && best - x == labels[r];
    for (std::int64_t i = 0; dlogits && i < classes; ++i)
      dlogits[r * classes + i] =
          static_cast<Real>(scale * (std::exp(static_cast<double>(x[i]) - *best) / total - (i == labels[r])));
  }
}

namespace {

float rounded(double x) {
  return static_cast<float>(x);
}

void compute(const gemm& g) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      double product = 0;
      for (std::int64_t l = 0; l < g.k; ++l)
        product += static_cast<double>(g.transpose_a ? g.a[l * g.m + i] : g.a[i * g.k + l])
                   * (g.transpose_b ? g.b[j * g.k + l] : g.b[l * g.n + j]);
      float& c = g.c[i * g.n + j];
      const double pre = g.alpha * product + (g.beta == 0 ? 0.0 : static_cast<double>(g.beta) * c) + (g.bias ? g.bias[j] : 0.0F);
      if (g.pre)
        g.pre[i * g.n + j] = rounded(pre);
      c = rounded(activate(g.act, pre));
    }
}

void compute(const bias_activation& op) {
  for (std::int64_t i = 0; i < op.rows * op.columns; ++i)
    op.y[i] = rounded(activate(op.act, static_cast<double>(op.x[i]) + (op.bias ? op.bias[i % op.columns] : 0.0F)));
}

void compute(const dropout& op) {
  for (std::int64_t i = 0; i < op.rows; ++i)
    for (std::int64_t j = 0; j < op.columns; ++j) {
      const std::int64_t element = i * op.columns + j;
      const auto key = op.key->of_layer(op.layer).of_row(static_cast<std::uint64_t>(i));
      const bool keep = random_uniform(key, static_cast<std::uint64_t>(j)) >= op.rate;
      op.y[element] = keep ? rounded(op.x[element] / (1 - static_cast<double>(op.rate))) : 0;
    }
}

void compute(const sum_rows& op) {
  for (std::int64_t j = 0; j < op.columns; ++j) {
    double result = 0;
    for (std::int64_t i = 0; i < op.rows; ++i)
      result += op.x[i * op.columns + j];
    op.y[j] = rounded(result);
  }
}

void compute(const sum& op) {
  *op.result = rounded(std::accumulate(op.x, op.x + op.count, 0.0));
}

void compute(const weighted_sum& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(weighted(op.terms, i));
}

void compute(const sgd& args) {
  const double lr = args.step_scalars[scalar_lr];
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double p = args.p[i], g = weighted(args.terms, i) + static_cast<double>(args.weight_decay) * p;
    double step = g;
    if (args.velocity) {
      const double v = static_cast<double>(args.momentum) * args.velocity[i] + g;
      args.velocity[i] = rounded(v);
      step = args.nesterov ? g + static_cast<double>(args.momentum) * v : v;
    }
    args.p_out[i] = rounded(p - lr * step);
  }
}

void compute(const adamw& args) {
  const double lr = args.step_scalars[scalar_lr], b1 = args.beta1, b2 = args.beta2;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double p = args.p[i], g = weighted(args.terms, i);
    const double m = b1 * args.m[i] + (1 - b1) * g, v = b2 * args.v[i] + (1 - b2) * g * g;
    args.m[i] = rounded(m);
    args.v[i] = rounded(v);
    const double m_hat = m / args.step_scalars[scalar_correction1], v_hat = v / args.step_scalars[scalar_correction2];
    args.p_out[i] = rounded(p - lr * (m_hat / (std::sqrt(v_hat) + args.epsilon) + args.weight_decay * p));
  }
}

void compute(const delay_compensate& args) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double g = args.g[i], decay = args.decay;
    double lambda = args.lambda;
    if (args.mean_square) {
      const double mean_square = decay * args.mean_square[i] + (1 - decay) * g * g;
      args.mean_square[i] = rounded(mean_square);
      lambda /= std::sqrt(mean_square + args.epsilon);
    }
    args.g_out[i] = rounded(g + lambda * g * g * (static_cast<double>(args.w[i]) - args.w_backup[i]));
  }
}

void compute(const fill& op) {
  std::fill_n(op.y, op.count, op.value);
}

void compute(const kernels::unary& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(unary(op.op, op.x[i]));
}

double derivative(const unary_backward& op, std::int64_t i) {
  return saves_result(op.op) ? slope(op.op, NAN, op.y[i]) : unary_derivative(op.op, op.x[i]);
}

void compute(const unary_backward& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.dx[i] = rounded(op.dy[i] * derivative(op, i));
}

void compute(const kernels::binary& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(binary(op.op, op.a[i], op.b[i]));
}

void compute(const axpby& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(static_cast<double>(op.alpha) * op.x[i] + (op.beta == 0 ? 0.0 : static_cast<double>(op.beta) * op.y[i]));
}

void compute(const all_finite& op) {
  *op.flag = std::all_of(op.x, op.x + op.count, [](float v) { return std::isfinite(v); }) ? 1 : 0;
}

void compute(const kernels::soft_threshold& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(soft_threshold(op.x[i], op.threshold));
}

void compute(const kernels::conv2d& op) {
  conv2d(op.window, op.out_channels, op.x, op.weight, op.bias, op.act, op.y);
}

void compute(const kernels::conv2d_backward& op) {
  conv2d_backward(op.window, op.out_channels, op.x, op.weight, op.dy, op.dx, op.dweight, op.dbias);
}

void compute(const kernels::layernorm& op) {
  layernorm(op.x, op.gamma, op.beta, op.epsilon, op.y, op.mean, op.rstd, op.rows, op.columns);
}

void compute(const kernels::layernorm_backward& op) {
  layernorm_backward(op.x, op.gamma, op.mean, op.rstd, op.dy, op.dx, op.dgamma, op.dbeta, op.rows, op.columns);
}

void compute(const kernels::max_pool& op) {
  max_pool(op.window, op.x, op.y, op.argmax);
}

void compute(const kernels::max_pool_backward& op) {
  max_pool_backward(op.window, op.argmax, op.dy, op.dx);
}

void compute(const kernels::avg_pool& op) {
  avg_pool(op.window, op.x, op.y);
}

void compute(const kernels::avg_pool_backward& op) {
  avg_pool_backward(op.window, op.dy, op.dx);
}

void compute(const kernels::softmax& op) {
  softmax(op.x, op.y, op.rows, op.columns);
}

void compute(const kernels::softmax_cross_entropy& op) {
  softmax_cross_entropy(op.logits, op.labels, op.scale, op.loss, op.dlogits, op.correct, op.rows, op.classes);
}

} // namespace

void run(const operation& op) {
  validate(op);
  std::visit([](const auto& own) { compute(own); }, op);
}

#define TROUPE_INSTANTIATE(Real)                                                                                                 \
  template void conv2d(const window2d&, std::int64_t, const Real*, const Real*, const Real*, activation, Real*);                 \
  template void conv2d_backward(const window2d&, std::int64_t, const Real*, const Real*, const Real*, Real*, Real*, Real*);      \
  template void layernorm(const Real*, const Real*, const Real*, double, Real*, Real*, Real*, std::int64_t, std::int64_t);       \
  template void layernorm_backward(const Real*, const Real*, const Real*, const Real*, const Real*, Real*, Real*, Real*,         \
                                   std::int64_t, std::int64_t);                                                                  \
  template void max_pool(const window2d&, const Real*, Real*, std::int32_t*);                                                    \
  template void max_pool_backward(const window2d&, const std::int32_t*, const Real*, Real*);                                     \
  template void avg_pool(const window2d&, const Real*, Real*);                                                                   \
  template void avg_pool_backward(const window2d&, const Real*, Real*);                                                          \
  template void softmax(const Real*, Real*, std::int64_t, std::int64_t);                                                         \
  template void softmax_cross_entropy(const Real*, const std::int32_t*, double, Real*, Real*, std::int32_t*, std::int64_t,       \
                                      std::int64_t);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels::reference
