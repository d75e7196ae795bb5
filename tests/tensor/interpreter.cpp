// SPDX-License-Identifier: BSD-3-Clause
// Loops that can be checked against the definitions by reading.
#include "tests/tensor/interpreter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/random.hpp"
#include "tensor/data_format.hpp"

namespace troupe::testing {

namespace {

using array = std::vector<double>;

double evaluate(kernels::unary_op function, double x) {
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
double derivative(kernels::unary_op function, double saved) {
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

double evaluate(kernels::binary_op function, double a, double b) {
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

class interpreter {
public:
  interpreter(const graph& g, const interpreter_inputs& inputs) : g_(g), given_(inputs), all_(g.values().size()) {}

  std::vector<array> run() {
    for (const auto& n : g_.nodes()) {
      n_ = &n;
      for (auto out : n.outputs)
        all_[static_cast<std::size_t>(out)].assign(static_cast<std::size_t>(g_.at(out).elements(given_.rows)), 0);
      std::visit(*this, n.op);
    }
    return std::move(all_);
  }

  void operator()(const ops::input& op) { y() = op.type == dtype::i32 ? given_.labels : given_.x; }
  void operator()(const ops::parameter& op) { y() = given_.parameters[static_cast<std::size_t>(op.slot)]; }

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
      y()[i] = evaluate(op.op, x(0)[i], x(1)[i]);
  }
  void operator()(const ops::unary_backward& op) {
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = x(1)[i] * derivative(op.op, x(0)[i]);
  }
  void operator()(const ops::reshape&) { y() = x(0); }

  void operator()(const ops::conv2d& op) {
    const auto& w = shape_of(1).dims;
    const auto window = window_over(shape_of(0).dims, given_.rows, w[2], w[3], op.stride, op.padding);
    for_each_tap(window, w[0], [&](auto tap) { at(y(), tap.y) += at(x(0), tap.x) * at(x(1), tap.w); });
    if (n_->inputs.size() > 2)
      for (std::size_t i = 0; i < y().size(); ++i)
        y()[i] += x(2)[i / plane(window) % x(2).size()];
  }
  void operator()(const ops::conv2d_backward& op) {
    const auto& w = shape_of(1).dims;
    const auto window = window_over(shape_of(0).dims, given_.rows, w[2], w[3], op.stride, op.padding);
    for_each_tap(window, w[0], [&](auto tap) {
      at(y(0), tap.x) += at(x(2), tap.y) * at(x(1), tap.w);
      at(y(1), tap.w) += at(x(2), tap.y) * at(x(0), tap.x);
    });
    for (std::size_t i = 0; i < x(2).size(); ++i)
      y(2)[i / plane(window) % y(2).size()] += x(2)[i];
  }

  void operator()(const ops::max_pool& op) {
    std::ranges::fill(y(), -std::numeric_limits<double>::infinity());
    for_each_pixel(pool_window(op, shape_of(0).dims), [&](auto pixel) {
      if (at(x(0), pixel.x) > at(y(), pixel.y)) {
        at(y(), pixel.y) = at(x(0), pixel.x);
        at(y(1), pixel.y) = static_cast<double>(pixel.in_plane);
      }
    });
  }
  void operator()(const ops::max_pool_backward& op) {
    for_each_pixel(pool_window(op, op.image), [&](auto pixel) {
      if (at(x(0), pixel.y) == static_cast<double>(pixel.in_plane))
        at(y(), pixel.x) += at(x(1), pixel.y);
    });
  }
  void operator()(const ops::avg_pool& op) {
    const auto counts = pixels_per_output(op, shape_of(0).dims, y().size());
    for_each_pixel(pool_window(op, shape_of(0).dims),
                   [&](auto pixel) { at(y(), pixel.y) += at(x(0), pixel.x) / at(counts, pixel.y); });
  }
  void operator()(const ops::avg_pool_backward& op) {
    const auto counts = pixels_per_output(op, op.image, x(0).size());
    for_each_pixel(pool_window(op, op.image), [&](auto pixel) { at(y(), pixel.x) += at(x(0), pixel.y) / at(counts, pixel.y); });
  }

  void operator()(const ops::layernorm& op) {
    const auto columns = x(1).size();
    for (std::size_t row = 0; row < y(1).size(); ++row) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < columns; ++i)
        mean += x(0)[row * columns + i] / static_cast<double>(columns);
      for (std::size_t i = 0; i < columns; ++i)
        variance += std::pow(x(0)[row * columns + i] - mean, 2) / static_cast<double>(columns);
      y(1)[row] = mean;
      y(2)[row] = 1 / std::sqrt(variance + static_cast<double>(op.epsilon));
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = x(1)[i] * (x(0)[row * columns + i] - mean) * y(2)[row] + x(2)[i];
    }
  }
  // With h = (x - mean) rstd and g = gamma dy:  dx = rstd (g - mean(g) - h mean(g h)).
  void operator()(const ops::layernorm_backward&) {
    const auto columns = x(1).size();
    const auto n = static_cast<double>(columns);
    for (std::size_t row = 0; row < x(2).size(); ++row) {
      double sum_g = 0, sum_gh = 0;
      auto h = [&](std::size_t i) { return (x(0)[row * columns + i] - x(2)[row]) * x(3)[row]; };
      auto g = [&](std::size_t i) { return x(1)[i] * x(4)[row * columns + i]; };
      for (std::size_t i = 0; i < columns; ++i) {
        sum_g += g(i);
        sum_gh += g(i) * h(i);
        y(1)[i] += x(4)[row * columns + i] * h(i);
        y(2)[i] += x(4)[row * columns + i];
      }
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = x(3)[row] * (g(i) - sum_g / n - h(i) * sum_gh / n);
    }
  }

  void operator()(const ops::dropout& op) {
    const auto key = given_.key.of_layer(op.stream);
    const auto columns = y().size() / static_cast<std::size_t>(given_.rows);
    for (std::size_t i = 0; i < y().size(); ++i) {
      const bool keep = !given_.training || kernels::random_uniform(key.of_row(i / columns), i % columns) >= op.rate;
      y()[i] = keep ? x(0)[i] / (given_.training ? 1 - static_cast<double>(op.rate) : 1) : 0;
    }
  }

  void operator()(const ops::cross_entropy&) {
    const auto classes = x(0).size() / y().size();
    for (std::size_t row = 0; row < y().size(); ++row) {
      if (x(1)[row] == ignored_label)
        continue;
      const auto* z = x(0).data() + row * classes;
      const auto label = static_cast<std::size_t>(x(1)[row]);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c)
        sum += std::exp(z[c]);
      y()[row] = std::log(sum) - z[label];
      for (std::size_t c = 0; c < classes; ++c)
        y(1)[row * classes + c] = (std::exp(z[c]) / sum - (c == label ? 1 : 0)) / counted_labels(given_);
      y(2)[row] = std::max_element(z, z + classes) == z + label ? 1 : 0;
    }
  }

  void operator()(const ops::sum_rows&) {
    for (std::size_t i = 0; i < x(0).size(); ++i)
      y()[i % y().size()] += x(0)[i];
  }

private:
  struct tap {
    std::int64_t x, w, y;
  };
  struct pixel {
    std::int64_t x, y, in_plane;
  };

  /// Calls f(input pixel, weight, output pixel) for every product of a convolution.
  template <class F>
  static void for_each_tap(const kernels::window2d& v, std::int64_t channels, F&& f) {
    for (std::int64_t n = 0; n < v.n; ++n)
      for (std::int64_t k = 0; k < channels; ++k)
        for (std::int64_t c = 0; c < v.c; ++c)
          for_each_position(v, [&](auto oh, auto ow, auto kh, auto kw, auto h, auto w) {
            f(tap{((n * v.c + c) * v.h + h) * v.w + w, ((k * v.c + c) * v.kernel_h + kh) * v.kernel_w + kw,
                  ((n * channels + k) * v.out_h() + oh) * v.out_w() + ow});
          });
  }
  template <class F>
  static void for_each_pixel(const kernels::window2d& v, F&& f) {
    for (std::int64_t image = 0; image < v.n * v.c; ++image)
      for_each_position(v, [&](auto oh, auto ow, auto, auto, auto h, auto w) {
        f(pixel{image * v.h * v.w + h * v.w + w, (image * v.out_h() + oh) * v.out_w() + ow, h * v.w + w});
      });
  }
  template <class F>
  static void for_each_position(const kernels::window2d& v, F&& f) {
    for (std::int64_t oh = 0; oh < v.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < v.out_w(); ++ow)
        for (std::int64_t kh = 0; kh < v.kernel_h; ++kh)
          for (std::int64_t kw = 0; kw < v.kernel_w; ++kw) {
            const auto h = oh * v.stride - v.padding + kh, w = ow * v.stride - v.padding + kw;
            if (h >= 0 && h < v.h && w >= 0 && w < v.w)
              f(oh, ow, kh, kw, h, w);
          }
  }

  template <class Op>
  kernels::window2d pool_window(const Op& op, const shape& image) const {
    return window_over(image, given_.rows, op.size, op.size, op.stride, op.padding);
  }
  template <class Op>
  array pixels_per_output(const Op& op, const shape& image, std::size_t outputs) const {
    array counts(outputs, 0);
    for_each_pixel(pool_window(op, image), [&](auto p) { at(counts, p.y) += 1; });
    return counts;
  }

  static std::size_t plane(const kernels::window2d& v) { return static_cast<std::size_t>(v.out_h() * v.out_w()); }
  static double& at(array& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }
  static const double& at(const array& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }
  const value& shape_of(std::size_t input) const { return g_.at(n_->inputs[input]); }
  const array& x(std::size_t input) const { return all_[static_cast<std::size_t>(n_->inputs[input])]; }
  array& y(std::size_t output = 0) { return all_[static_cast<std::size_t>(n_->outputs[output])]; }

  const graph& g_;
  const interpreter_inputs& given_;
  std::vector<array> all_;
  const node* n_ = nullptr;
};

} // namespace

double counted_labels(const interpreter_inputs& inputs) {
  return static_cast<double>(std::ranges::count_if(inputs.labels, [](double label) { return label != ignored_label; }));
}

std::vector<std::vector<double>> interpret(const graph& g, const interpreter_inputs& inputs) {
  return interpreter{g, inputs}.run();
}

std::vector<std::vector<double>> slots_of(const parameter_layout& layout, const float* flat) {
  std::vector<array> slots;
  for (const auto& slot : layout.slots)
    slots.emplace_back(flat + slot.offset, flat + slot.offset + slot.elements());
  return slots;
}

} // namespace troupe::testing
