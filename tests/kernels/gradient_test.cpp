// SPDX-License-Identifier: BSD-3-Clause
// Every backward operation against central differences of its forward, in float64.
//
// The reference's backward is compared with the differences here; the parity tests compare each backend with the reference.
#include <cmath>
#include <functional>

#include "kernels/random.hpp"
#include "kernels/reference.hpp"
#include "tests/kernels/harness.hpp"

namespace troupe::kernels::testing {

namespace {

using doubles = std::vector<double>;

constexpr double step = 1e-5;
// The differences' own error: step^2 times a third derivative, and 1e-16 / step of rounding.
constexpr double allowed = 1e-8;

doubles draw(std::int64_t count, double low = -1, double high = 1) {
  static std::uint32_t stream = 0;
  const random_key key{.seed = test_seed(), .stream = stream++};
  doubles out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = low + (high - low) * random_uniform(key, i);
  return out;
}

double dot(const doubles& a, const doubles& b) {
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    result += a[i] * b[i];
  return result;
}

/// Checks `gradient` of `loss` with respect to every element of `x`, which `loss` reads.
void expect_gradient(doubles& x, const doubles& gradient, const std::function<double()>& loss) {
  ASSERT_EQ(x.size(), gradient.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double above = loss();
    x[i] = kept - step;
    const double below = loss();
    x[i] = kept;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), allowed * std::max(1.0, std::abs(gradient[i]))) << "element " << i;
  }
}

TEST(Gradient, OfUnary) {
  for (unary_op op : all_unary)
    for (double x : draw(50, 0.2, 2))
      for (double sign : {1.0, -1.0}) {
        if (sign < 0 && (op == unary_op::log || op == unary_op::sqrt))
          continue;
        const double at = sign * x, difference = (reference::unary(op, at + step) - reference::unary(op, at - step)) / (2 * step);
        EXPECT_NEAR(reference::unary_derivative(op, at), difference, allowed) << "op " << static_cast<int>(op) << " at " << at;
      }
}

TEST(Gradient, OfConvolution) {
  for (const window2d& w : {window2d{.n = 2, .c = 3, .h = 5, .w = 4, .kernel_h = 3, .kernel_w = 2},
                            window2d{.n = 1, .c = 2, .h = 4, .w = 3, .kernel_h = 3, .kernel_w = 1, .padding = 2},
                            window2d{.n = 1, .c = 2, .h = 6, .w = 5, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 1}}) {
    constexpr std::int64_t channels = 3;
    auto x = draw(w.n * w.c * w.h * w.w), weight = draw(channels * w.c * w.kernel_h * w.kernel_w), bias = draw(channels);
    const auto dy = draw(w.n * channels * w.out_h() * w.out_w());
    doubles y(dy.size()), dx(x.size()), dweight(weight.size()), dbias(bias.size());
    reference::conv2d_backward(w, channels, x.data(), weight.data(), dy.data(), dx.data(), dweight.data(), dbias.data());
    const auto loss = [&] {
      reference::conv2d(w, channels, x.data(), weight.data(), bias.data(), activation::none, y.data());
      return dot(y, dy);
    };
    expect_gradient(x, dx, loss);
    expect_gradient(weight, dweight, loss);
    expect_gradient(bias, dbias, loss);
  }
}

TEST(Gradient, OfLayernorm) {
  constexpr std::int64_t rows = 3, columns = 7;
  auto x = draw(rows * columns), gamma = draw(columns, 0.5, 2), beta = draw(columns);
  const auto dy = draw(rows * columns);
  doubles y(x.size()), mean(rows), rstd(rows), dx(x.size()), dgamma(gamma.size()), dbeta(beta.size());
  const auto loss = [&] {
    reference::layernorm(x.data(), gamma.data(), beta.data(), 1e-5, y.data(), mean.data(), rstd.data(), rows, columns);
    return dot(y, dy);
  };
  loss();
  const auto kept_mean = mean, kept_rstd = rstd;
  reference::layernorm_backward(x.data(), gamma.data(), kept_mean.data(), kept_rstd.data(), dy.data(), dx.data(), dgamma.data(),
                                dbeta.data(), rows, columns);
  expect_gradient(x, dx, loss);
  expect_gradient(gamma, dgamma, loss);
  expect_gradient(beta, dbeta, loss);
}

TEST(Gradient, OfPools) {
  for (const window2d& w : {window2d{.n = 2, .c = 2, .h = 6, .w = 4, .kernel_h = 2, .kernel_w = 2, .stride = 2},
                            window2d{.n = 1, .c = 2, .h = 5, .w = 6, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 1}}) {
    auto x = draw(w.n * w.c * w.h * w.w);
    const auto dy = draw(w.n * w.c * w.out_h() * w.out_w());
    doubles y(dy.size()), dx(x.size());
    std::vector<std::int32_t> argmax(dy.size());
    const auto max_loss = [&] {
      reference::max_pool(w, x.data(), y.data(), argmax.data());
      return dot(y, dy);
    };
    max_loss();
    reference::max_pool_backward(w, argmax.data(), dy.data(), dx.data());
    expect_gradient(x, dx, max_loss);

    reference::avg_pool_backward(w, dy.data(), dx.data());
    expect_gradient(x, dx, [&] {
      reference::avg_pool(w, x.data(), y.data());
      return dot(y, dy);
    });
  }
}

TEST(Gradient, OfSoftmaxCrossEntropy) {
  constexpr std::int64_t rows = 4, classes = 5;
  auto logits = draw(rows * classes, -3, 3);
  const std::vector<std::int32_t> labels{0, 4, 2, 2};
  constexpr double scale = 0.25;
  doubles loss(rows), dlogits(logits.size());
  reference::softmax_cross_entropy(logits.data(), labels.data(), scale, loss.data(), dlogits.data(), nullptr, rows, classes);
  expect_gradient(logits, dlogits, [&] {
    reference::softmax_cross_entropy(logits.data(), labels.data(), scale, loss.data(), static_cast<double*>(nullptr), nullptr,
                                     rows, classes);
    return scale * dot(loss, doubles(rows, 1));
  });
}

} // namespace

} // namespace troupe::kernels::testing
