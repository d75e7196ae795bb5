// SPDX-License-Identifier: BSD-3-Clause
// Elementwise functions and operations, as plain loops.
#include "kernels/reference/compute.hpp"

#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "kernels/random.hpp"

namespace troupe::kernels::reference {

namespace {

double gelu_inner(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

/// Calls visit(index) for every element of arrays of these extents, in order.
template <class F>
void for_indices(const axes& extents, F visit) {
  for (std::int64_t element = 0; element < elements(extents); ++element) {
    axes index;
    std::int64_t rest = element;
    for (std::size_t i = most_axes; i-- > 0; rest /= extents[i])
      index[i] = rest % extents[i];
    visit(index);
  }
}

std::int64_t offset(const axes& index, const axes& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

} // namespace

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
  case unary_op::gelu_erf:
    return normal_cdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  case unary_op::silu: {
    const double s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
  case unary_op::exp:
    return y;
  case unary_op::log:
    return 1 / x;
  case unary_op::erf:
    return 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x);
  case unary_op::sqrt:
    return 0.5 / y;
  case unary_op::rsqrt:
    return -0.5 * y * y * y;
  case unary_op::square:
    return 2 * x;
  case unary_op::abs:
    return x > 0 ? 1 : (x < 0 ? -1 : 0);
  case unary_op::negate:
    return -1;
  case unary_op::copy:
    return 1;
  }
  return 0;
}

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
    return sigmoid(x);
  case unary_op::gelu:
    return 0.5 * x * (1 + std::tanh(gelu_inner(x)));
  case unary_op::gelu_erf:
    return x * normal_cdf(x);
  case unary_op::silu:
    return x * sigmoid(x);
  case unary_op::exp:
    return std::exp(x);
  case unary_op::log:
    return std::log(x);
  case unary_op::erf:
    return std::erf(x);
  case unary_op::sqrt:
    return std::sqrt(x);
  case unary_op::rsqrt:
    return 1 / std::sqrt(x);
  case unary_op::square:
    return x * x;
  case unary_op::abs:
    return std::abs(x);
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

void compute(const kernels::fill& op) {
  std::fill_n(op.y, op.count, op.value);
}

void compute(const kernels::unary& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(unary(op.op, op.x[i]));
}

namespace {

double derivative(const unary_backward& op, std::int64_t i) {
  return saves_result(op.op) ? slope(op.op, NAN, op.y[i]) : unary_derivative(op.op, op.x[i]);
}

} // namespace

void compute(const kernels::unary_backward& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.dx[i] = rounded(op.dy[i] * derivative(op, i));
}

void compute(const kernels::binary& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(binary(op.op, op.a[i], op.b[i]));
}

void compute(const kernels::broadcast_binary& op) {
  for_indices(op.extents, [&](const axes& index) {
    op.y[offset(index, row_major(op.extents))] =
        rounded(binary(op.op, op.a[offset(index, op.a_strides)], op.b[offset(index, op.b_strides)]));
  });
}

void compute(const kernels::axpby& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(static_cast<double>(op.alpha) * op.x[i] + (op.beta == 0 ? 0.0 : static_cast<double>(op.beta) * op.y[i]));
}

void compute(const kernels::copy_strided& op) {
  for_indices(op.extents, [&](const axes& index) {
    const float& x = op.x[offset(index, op.x_strides)];
    float& y = op.y[offset(index, op.y_strides)];
    if (op.alpha == 1 && !op.accumulate)
      std::memcpy(&y, &x, sizeof y);
    else
      y = rounded(static_cast<double>(op.alpha) * x + (op.accumulate ? static_cast<double>(y) : 0.0));
  });
}

void compute(const kernels::bias_activation& op) {
  for (std::int64_t i = 0; i < op.rows * op.columns; ++i)
    op.y[i] = rounded(activate(op.act, static_cast<double>(op.x[i]) + (op.bias ? op.bias[i % op.columns] : 0.0F)));
}

void compute(const kernels::dropout& op) {
  for (std::int64_t i = 0; i < op.rows; ++i)
    for (std::int64_t j = 0; j < op.columns; ++j) {
      const std::int64_t element = i * op.columns + j;
      const auto key = op.key->of_layer(op.layer).of_row(static_cast<std::uint64_t>(i));
      const bool keep = random_uniform(key, static_cast<std::uint64_t>(j)) >= op.rate;
      op.y[element] = keep ? rounded(op.x[element] / (1 - static_cast<double>(op.rate))) : 0;
    }
}

} // namespace troupe::kernels::reference
