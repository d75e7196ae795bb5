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
        if (sign < 0 && (op == unary_op::log || op == unary_op::sqrt || op == unary_op::rsqrt))
          continue;
        const double at = sign * x, difference = (reference::unary(op, at + step) - reference::unary(op, at - step)) / (2 * step);
        EXPECT_NEAR(reference::unary_derivative(op, at), difference, allowed) << "op " << static_cast<int>(op) << " at " << at;
      }
}

TEST(Gradient, OfConvolution) {
  for (const window2d& w :
       {window2d{.n = 2, .c = 3, .h = 5, .w = 4, .kernel_h = 3, .kernel_w = 2},
        window2d{.n = 1, .c = 2, .h = 4, .w = 3, .kernel_h = 3, .kernel_w = 1, .padding = 2},
        window2d{.n = 1, .c = 2, .h = 6, .w = 5, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 1},
        window2d{.n = 1, .c = 4, .h = 6, .w = 5, .kernel_h = 3, .kernel_w = 2, .padding = 1, .dilation = 2, .groups = 2}}) {
    const std::int64_t channels = 3 * w.groups;
    auto x = draw(w.n * w.c * w.h * w.w), weight = draw(w.weights(channels)), bias = draw(channels);
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
    reference::layernorm({.rows = rows, .columns = columns}, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                         rstd.data());
    return dot(y, dy);
  };
  loss();
  const auto kept_mean = mean, kept_rstd = rstd;
  reference::layernorm_backward({.rows = rows, .columns = columns}, x.data(), gamma.data(), kept_mean.data(), kept_rstd.data(),
                                dy.data(), dx.data(), dgamma.data(), dbeta.data());
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
  const std::vector<std::int32_t> labels{0, 4, ignored_label, 2};
  const float device_scale = 0.5F;
  for (float smoothing : {0.0F, 0.25F}) {
    const softmax_cross_entropy op{.labels = labels.data(),
                                   .scale = 0.5F,
                                   .rows = rows,
                                   .classes = classes,
                                   .device_scale = &device_scale,
                                   .smoothing = smoothing};
    doubles loss(rows), dlogits(logits.size());
    reference::softmax_cross_entropy(op, logits.data(), loss.data(), dlogits.data());
    expect_gradient(logits, dlogits, [&] {
      reference::softmax_cross_entropy(op, logits.data(), loss.data(), static_cast<double*>(nullptr));
      return 0.25 * dot(loss, doubles(rows, 1));
    });
  }
}

TEST(Gradient, OfLossesOfTargets) {
  constexpr std::int64_t rows = 3, columns = 4;
  auto x = draw(rows * columns, -3, 3);
  const auto target = draw(rows * columns, 0, 1);
  doubles loss(rows), dx(x.size());
  const auto total = [&] { return 0.25 * dot(loss, doubles(rows, 1)); };
  const mean_squared_error squares{.scale = 0.25F, .rows = rows, .columns = columns};
  reference::mean_squared_error(squares, x.data(), target.data(), loss.data(), dx.data());
  expect_gradient(x, dx, [&] {
    reference::mean_squared_error(squares, x.data(), target.data(), loss.data(), static_cast<double*>(nullptr));
    return total();
  });
  const sigmoid_cross_entropy logits{.scale = 0.25F, .rows = rows, .columns = columns};
  reference::sigmoid_cross_entropy(logits, x.data(), target.data(), loss.data(), dx.data());
  expect_gradient(x, dx, [&] {
    reference::sigmoid_cross_entropy(logits, x.data(), target.data(), loss.data(), static_cast<double*>(nullptr));
    return total();
  });
}

TEST(Gradient, OfSoftmax) {
  constexpr std::int64_t rows = 3, columns = 5;
  auto x = draw(rows * columns, -2, 2);
  const auto dy = draw(rows * columns);
  doubles y(x.size()), dx(x.size());
  const auto loss = [&] {
    reference::softmax(x.data(), y.data(), rows, columns);
    return dot(y, dy);
  };
  loss();
  reference::softmax_backward(y.data(), dy.data(), dx.data(), rows, columns);
  expect_gradient(x, dx, loss);
}

TEST(Gradient, OfRmsnorm) {
  constexpr std::int64_t rows = 3, columns = 7;
  auto x = draw(rows * columns), gamma = draw(columns, 0.5, 2);
  const auto dy = draw(rows * columns);
  doubles y(x.size()), rstd(rows), dx(x.size()), dgamma(gamma.size());
  const auto loss = [&] {
    reference::rmsnorm({.rows = rows, .columns = columns}, x.data(), gamma.data(), y.data(), rstd.data());
    return dot(y, dy);
  };
  loss();
  const auto kept_rstd = rstd;
  reference::rmsnorm_backward({.rows = rows, .columns = columns}, x.data(), gamma.data(), kept_rstd.data(), dy.data(), dx.data(),
                              dgamma.data());
  expect_gradient(x, dx, loss);
  expect_gradient(gamma, dgamma, loss);
}

TEST(Gradient, OfGroupnorm) {
  for (const std::int64_t groups : {1, 2, 4}) {
    const groupnorm forward{.rows = 2, .channels = 4, .inner = 3, .groups = groups};
    const groupnorm_backward backward{.rows = 2, .channels = 4, .inner = 3, .groups = groups};
    auto x = draw(forward.count()), gamma = draw(forward.channels, 0.5, 2), beta = draw(forward.channels);
    const auto dy = draw(forward.count());
    doubles y(x.size()), mean(8), rstd(8), dx(x.size()), dgamma(gamma.size()), dbeta(beta.size());
    const auto loss = [&] {
      reference::groupnorm(forward, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data());
      return dot(y, dy);
    };
    loss();
    const auto kept_mean = mean, kept_rstd = rstd;
    reference::groupnorm_backward(backward, x.data(), gamma.data(), kept_mean.data(), kept_rstd.data(), dy.data(), dx.data(),
                                  dgamma.data(), dbeta.data());
    expect_gradient(x, dx, loss);
    expect_gradient(gamma, dgamma, loss);
    expect_gradient(beta, dbeta, loss);
  }
}

TEST(Gradient, OfBatchnorm) {
  const batchnorm forward{.rows = 3, .channels = 2, .inner = 4};
  const batchnorm_backward backward{.rows = 3, .channels = 2, .inner = 4};
  auto x = draw(forward.count()), gamma = draw(forward.channels, 0.5, 2), beta = draw(forward.channels);
  const auto dy = draw(forward.count());
  doubles y(x.size()), mean(2), rstd(2), dx(x.size()), dgamma(gamma.size()), dbeta(beta.size());
  const auto loss = [&] {
    reference::batchnorm(forward, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data());
    return dot(y, dy);
  };
  loss();
  const auto kept_mean = mean, kept_rstd = rstd;
  reference::batchnorm_backward(backward, x.data(), gamma.data(), kept_mean.data(), kept_rstd.data(), dy.data(), dx.data(),
                                dgamma.data(), dbeta.data());
  expect_gradient(x, dx, loss);
  expect_gradient(gamma, dgamma, loss);
  expect_gradient(beta, dbeta, loss);
}

TEST(Gradient, OfRotaryPositions) {
  for (const bool interleaved : {false, true}) {
    rotary op{.rows = 2, .length = 3, .width = 14, .heads = 2, .head_size = 6, .rotated = 4, .interleaved = interleaved};
    auto x = draw(op.count());
    const auto dy = draw(op.count());
    doubles y(x.size()), dx(x.size());
    op.inverse = true;
    reference::rotary(op, dy.data(), dx.data());
    op.inverse = false;
    expect_gradient(x, dx, [&] {
      reference::rotary(op, x.data(), y.data());
      return dot(y, dy);
    });
  }
}

TEST(Gradient, OfAttention) {
  const random_key key{.seed = test_seed(), .step = 5};
  for (const bool causal : {false, true})
    for (const float rate : {0.0F, 0.3F}) {
      const attention_shape shape{.rows = 2,
                                  .length = 5,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .head_size = 3,
                                  .q_stride = 24,
                                  .kv_stride = 24,
                                  .causal = causal,
                                  .scale = 0.7F};
      const attention forward{.shape = shape, .rate = rate, .key = &key};
      const attention_backward backward{.shape = shape, .rate = rate, .key = &key};
      auto qkv = draw(shape.tokens() * 24, -2, 2);
      const auto dy = draw(shape.tokens() * 12);
      doubles y(dy.size()), lse(40), dqkv(qkv.size());
      const auto loss = [&] {
        reference::attention(forward, qkv.data(), qkv.data() + 12, qkv.data() + 18, y.data(), lse.data());
        return dot(y, dy);
      };
      loss();
      const auto kept_y = y, kept_lse = lse;
      reference::attention_backward(backward, qkv.data(), qkv.data() + 12, qkv.data() + 18, kept_y.data(), kept_lse.data(),
                                    dy.data(), dqkv.data(), dqkv.data() + 12, dqkv.data() + 18);
      expect_gradient(qkv, dqkv, loss);
    }
}

/// Of a recurrent layer: `forward(saved)` fills y and what it saves, `backward` reads them.
template <class Forward, class Backward>
void expect_recurrent_gradients(std::int64_t gates, Forward forward, Backward backward) {
  constexpr std::int64_t rows = 2, length = 3, width = 4, count = rows * length * width;
  auto projected = draw(gates * count), u = draw(gates * width * width), bias = draw(gates * width);
  const auto dy = draw(count);
  doubles y(count), kept_gates(projected.size()), kept(count), dprojected(projected.size()), du(u.size()), dbias(bias.size());
  const auto loss = [&] {
    forward(projected.data(), u.data(), bias.data(), y.data(), kept_gates.data(), kept.data());
    return dot(y, dy);
  };
  loss();
  backward(u.data(), y.data(), kept_gates.data(), kept.data(), dy.data(), dprojected.data(), du.data(), dbias.data());
  expect_gradient(projected, dprojected, loss);
  expect_gradient(u, du, loss);
  expect_gradient(bias, dbias, loss);
}

TEST(Gradient, OfLstm) {
  expect_recurrent_gradients(
      4,
      [](const double* projected, const double* u, const double* bias, double* y, double* gates, double* cells) {
        reference::lstm({.rows = 2, .length = 3, .width = 4}, projected, u, bias, y, gates, cells);
      },
      [](const double* u, const double* y, const double* gates, const double* cells, const double* dy, double* dprojected,
         double* du, double* dbias) {
        reference::lstm_backward({.rows = 2, .length = 3, .width = 4}, u, y, gates, cells, dy, dprojected, du, dbias);
      });
}

TEST(Gradient, OfGru) {
  expect_recurrent_gradients(
      3,
      [](const double* projected, const double* u, const double* bias, double* y, double* gates, double* candidates) {
        reference::gru({.rows = 2, .length = 3, .width = 4}, projected, u, bias, y, gates, candidates);
      },
      [](const double* u, const double* y, const double* gates, const double* candidates, const double* dy, double* dprojected,
         double* du, double* dbias) {
        reference::gru_backward({.rows = 2, .length = 3, .width = 4}, u, y, gates, candidates, dy, dprojected, du, dbias);
      });
}

} // namespace

} // namespace troupe::kernels::testing
