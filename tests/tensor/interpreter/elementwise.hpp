// SPDX-License-Identifier: BSD-3-Clause
// Sources, products, elementwise ops, and other arrangements of elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/random.hpp"
#include "tests/tensor/interpreter/state.hpp"

namespace troupe::testing::interpreting {

inline double evaluate(kernels::unary_op function, double x) {
  using enum kernels::unary_op;
  switch (function) {
  case relu:
    return x > 0 ? x : 0;
  case tanh:
    return std::tanh(x);
  case sigmoid:
    return 1 / (1 + std::exp(-x));
  case gelu:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  case gelu_erf:
    return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  case silu:
    return x / (1 + std::exp(-x));
  case exp:
    return std::exp(x);
  case log:
    return std::log(x);
  case erf:
    return std::erf(x);
  case sqrt:
    return std::sqrt(x);
  case rsqrt:
    return 1 / std::sqrt(x);
  case square:
    return x * x;
  case abs:
    return std::abs(x);
  case negate:
    return -x;
  case copy:
    return x;
  }
  return 0;
}

/// f'(x), from y = f(x) where the contract says so and from x elsewhere.
inline double derivative(kernels::unary_op function, double saved) {
  using enum kernels::unary_op;
  switch (function) {
  case relu:
    return saved > 0 ? 1 : 0;
  case tanh:
    return 1 - saved * saved;
  case sigmoid:
    return saved * (1 - saved);
  case gelu: {
    const double x = saved, c = std::sqrt(2 / std::numbers::pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
  }
  case gelu_erf: {
    const double x = saved;
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  case silu: {
    const double s = 1 / (1 + std::exp(-saved));
    return s + saved * s * (1 - s);
  }
  case exp:
    return std::exp(saved);
  case log:
    return 1 / saved;
  case erf:
    return 2 / std::sqrt(std::numbers::pi) * std::exp(-saved * saved);
  case sqrt:
    return 0.5 / std::sqrt(saved);
  case rsqrt:
    return -0.5 / (saved * std::sqrt(saved));
  case square:
    return 2 * saved;
  case abs:
    return saved > 0 ? 1 : (saved < 0 ? -1 : 0);
  case negate:
    return -1;
  case copy:
    return 1;
  }
  return 0;
}

inline double evaluate(kernels::binary_op function, double a, double b) {
  using enum kernels::binary_op;
  switch (function) {
  case add:
    return a + b;
  case subtract:
    return a - b;
  case multiply:
    return a * b;
  case divide:
    return a / b;
  }
  return 0;
}

class elementwise : public state {
public:
  using state::state;

  void operator()(const ops::input&) { y() = inputs_++ == 0 ? given_.x : given_.labels; }
  void operator()(const ops::parameter& op) { y() = given_.parameters[static_cast<std::size_t>(op.slot)]; }
  void operator()(const ops::gradient&) {} // of no parts before
  void operator()(const ops::constant& op) { std::ranges::fill(y(), static_cast<double>(op.value)); }

  void operator()(const ops::matmul& op) {
    const auto a = as_matrix(shape_of(0), given_.rows), b = as_matrix(shape_of(1), given_.rows);
    const auto m = op.transpose_a ? a.columns : a.rows, k = op.transpose_a ? a.rows : a.columns,
               n = op.transpose_b ? b.rows : b.columns;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t l = 0; l < k; ++l)
          at(y(), i * n + j) += at(x(0), op.transpose_a ? l * a.columns + i : i * a.columns + l)
                                * at(x(1), op.transpose_b ? j * b.columns + l : l * b.columns + j);
  }

  void operator()(const ops::add_bias&) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = x(0)[i] + x(1)[i % x(1).size()];
  }
  void operator()(const ops::unary& op) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = evaluate(op.op, x(0)[i]);
  }
  void operator()(const ops::binary& op) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = evaluate(op.op, x(0)[part_of(shape_of(0), i)], x(1)[part_of(shape_of(1), i)]);
  }
  void operator()(const ops::sum_to& op) {
    const auto& whole = shape_of(0);
    for (std::size_t i = 0; i < x(0).size(); ++i)
      y()[part_of(result(0), whole, i)] += static_cast<double>(op.scale) * x(0)[i];
  }
  void operator()(const ops::expand& op) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = static_cast<double>(op.scale) * x(0)[part_of(shape_of(0), i)];
  }
  void operator()(const ops::permute& op) {
    const auto& from = shape_of(0).dims;
    for (std::size_t i = 0; i < y().size(); ++i) {
      const auto at_y = place(result(0).dims, i);
      std::vector<std::int64_t> at_x(at_y.size());
      for (std::size_t axis = 0; axis < at_y.size(); ++axis)
        at_x[op.axes[axis]] = at_y[axis];
      y()[i] = x(0)[i / elements(from) * elements(from) + flat(from, at_x)];
    }
  }
  void operator()(const ops::split& op) {
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < n_->outputs.size(); ++part) {
      for (std::size_t i = 0; i < y(part).size(); ++i)
        y(part)[i] = x(0)[within(shape_of(0).dims, result(part).dims, op.axis, begin, i)];
      begin += op.lengths[part];
    }
  }
  void operator()(const ops::concat& op) {
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < n_->inputs.size(); ++part) {
      for (std::size_t i = 0; i < x(part).size(); ++i)
        y()[within(result(0).dims, shape_of(part).dims, op.axis, begin, i)] = x(part)[i];
      begin += shape_of(part).dims[op.axis];
    }
  }
  void operator()(const ops::batched_matmul& op) {
    const auto rank = shape_of(0).dims.rank();
    const auto m = result(0).dims[rank - 2], n = result(0).dims[rank - 1],
               k = shape_of(0).dims[op.transpose_a ? rank - 2 : rank - 1];
    for (std::int64_t batch = 0; batch < std::ssize(y()) / (m * n); ++batch)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          for (std::int64_t l = 0; l < k; ++l)
            at(y(), (batch * m + i) * n + j) += static_cast<double>(op.scale)
                                                * at(x(0), batch * m * k + (op.transpose_a ? l * m + i : i * k + l))
                                                * at(x(1), batch * k * n + (op.transpose_b ? j * k + l : l * n + j));
  }
  void operator()(const ops::unary_backward& op) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = x(1)[i] * derivative(op.op, x(0)[i]);
  }
  void operator()(const ops::reshape&) { y() = x(0); }
  void operator()(const ops::dropout& op) {
    const auto key = given_.key.of_layer(op.stream);
    const auto columns = y().size() / static_cast<std::size_t>(given_.rows);
    for (std::size_t i = 0; i < y().size(); ++i) {
      const bool keep = !given_.training || kernels::random_uniform(key.of_row(i / columns), i % columns) >= op.rate;
      y()[i] = keep ? x(0)[i] / (given_.training ? 1 - static_cast<double>(op.rate) : 1) : 0;
    }
  }

private:
  int inputs_ = 0; ///< so far
};

} // namespace troupe::testing::interpreting
