// SPDX-License-Identifier: BSD-3-Clause
// Normalisation, pooling, softmax, the loss and attention against the reference.
#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference.hpp"

namespace troupe::kernels::testing {

namespace {

class Network : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Network);

struct matrix {
  std::int64_t rows, columns;
};
constexpr std::array matrices{matrix{1, 1}, matrix{3, 10}, matrix{5, 16}, matrix{2, 37}, matrix{4, 1000}, matrix{2, 2500}};

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

TEST_P(Network, SoftmaxAgrees) {
  for (auto [rows, columns] : matrices) {
    const auto x = random.floats(rows * columns, -20, 20);
    std::vector<float> want(x.size());
    reference::softmax(x.data(), want.data(), rows, columns);
    auto device_x = upload(x), y = output(rows * columns);
    queue.enqueue(softmax{device_x, y, rows, columns});
    EXPECT_TRUE(agree(y.get(), want, {.absolute = 1e-37, .relative = 3e-6})) << rows << "x" << columns;
    queue.enqueue(softmax{device_x, device_x, rows, columns});
    EXPECT_TRUE(same_bits(device_x.get(), y.get())) << "in place";
  }
}

TEST_P(Network, SoftmaxCrossEntropyAgrees) {
  for (auto [rows, classes] : matrices) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << classes);
    const auto x = random.floats(rows * classes, -10, 10);
    const auto labels = random.integers(rows, static_cast<std::int32_t>(classes));
    std::vector<float> want_loss(size(rows)), want_dx(x.size());
    std::vector<std::int32_t> want_correct(size(rows));
    reference::softmax_cross_entropy(
        {.labels = labels.data(), .scale = 0.125F, .correct = want_correct.data(), .rows = rows, .classes = classes}, x.data(),
        want_loss.data(), want_dx.data());
    auto device_x = upload(x), loss = output(rows), dx = output(rows * classes);
    auto device_labels = upload(labels);
    device_array<std::int32_t> correct(queue, rows);
    queue.enqueue(softmax_cross_entropy{device_x, device_labels, 0.125F, loss, dx, correct, rows, classes});
    EXPECT_TRUE(agree(loss.get(), want_loss, {.absolute = 2e-6, .relative = 1e-6}));
    EXPECT_TRUE(agree(dx.get(), want_dx, {.absolute = 5e-7, .relative = 3e-6}));
    EXPECT_EQ(correct.get(), want_correct);
    auto loss_alone = output(rows);
    queue.enqueue(softmax_cross_entropy{device_x, device_labels, 0.125F, loss_alone, nullptr, nullptr, rows, classes});
    EXPECT_TRUE(same_bits(loss_alone.get(), loss.get()));
    queue.enqueue(softmax_cross_entropy{device_x, device_labels, 0.125F, loss, device_x, nullptr, rows, classes});
    EXPECT_TRUE(same_bits(device_x.get(), dx.get())) << "the gradient over the logits";
  }
}

TEST_P(Network, SoftmaxCrossEntropyAtItsEdges) {
  // Equal largest logits: the first counts. A label outside: NaN, never a read outside. A hopeless logit: finite. One that is
  // ignored: zeros, even where the logits are not finite.
  auto logits = upload(std::vector<float>{2, 2, 0, /**/ 1, 2, 3, /**/ 1, 2, 3, /**/ -1000, 1000, 0, /**/ NAN, INFINITY, 0});
  auto labels = upload(std::vector<std::int32_t>{1, 3, -2, 0, -1});
  auto loss = output(5), dlogits = output(15);
  device_array<std::int32_t> correct(queue, 5);
  queue.enqueue(softmax_cross_entropy{logits, labels, 1, loss, dlogits, correct, 5, 3});
  const auto got = loss.get(), gradients = dlogits.get();
  EXPECT_NEAR(got[0], std::log(2 + std::exp(-2.0)), 1e-6);
  EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
  EXPECT_FLOAT_EQ(got[3], 2000);
  EXPECT_EQ(got[4], 0);
  EXPECT_EQ(correct.get(), (std::vector<std::int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(gradients[9], -1);
  EXPECT_EQ(std::vector(gradients.end() - 3, gradients.end()), (std::vector<float>{0, 0, 0}));
}

TEST_P(Network, LayernormAgrees) {
  for (auto [rows, columns] : matrices) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << columns);
    const auto x = random.floats(rows * columns, 4, 6), gamma = random.floats(columns, 0.5F, 2), beta = random.floats(columns);
    const auto dy = random.floats(rows * columns);
    std::vector<float> want_y(x.size()), want_mean(size(rows)), want_rstd(size(rows)), want_dx(x.size());
    std::vector<float> want_dgamma(gamma.size()), want_dbeta(gamma.size());
    reference::layernorm({.rows = rows, .columns = columns}, x.data(), gamma.data(), beta.data(), want_y.data(), want_mean.data(),
                         want_rstd.data());
    reference::layernorm_backward({.rows = rows, .columns = columns}, x.data(), gamma.data(), want_mean.data(), want_rstd.data(),
                                  dy.data(), want_dx.data(), want_dgamma.data(), want_dbeta.data());
    auto device_x = upload(x), device_gamma = upload(gamma), device_beta = upload(beta), device_dy = upload(dy);
    auto y = output(rows * columns), mean = output(rows), rstd = output(rows), dx = output(rows * columns);
    auto dgamma = output(columns), dbeta = output(columns);
    queue.enqueue(layernorm{device_x, device_gamma, device_beta, 1e-5F, y, mean, rstd, rows, columns});
    EXPECT_TRUE(agree(mean.get(), want_mean, {.relative = 1e-6}));
    EXPECT_TRUE(agree(rstd.get(), want_rstd, {.relative = 2e-6}));
    EXPECT_TRUE(agree(y.get(), want_y, {.absolute = 1e-5, .relative = 1e-5})); // x is far from 0: x - mean loses three bits
    queue.enqueue(layernorm_backward{device_x, device_gamma, upload(want_mean), upload(want_rstd), device_dy, dx, dgamma, dbeta,
                                     rows, columns});
    // A mean of dy gamma, which is below 2, is rounded by at most 2^-24; rstd multiplies that. It is 316 where a row has one
    // column.
    EXPECT_TRUE(agree(dx.get(), want_dx, {.absolute = 2e-6 + std::ldexp(std::ranges::max(want_rstd), -24), .relative = 1e-6}));
    EXPECT_TRUE(agree(dgamma.get(), want_dgamma, {.absolute = 5e-6, .relative = 2e-6}));
    EXPECT_TRUE(agree(dbeta.get(), want_dbeta, {.absolute = 1e-6, .relative = 1e-6}));
  }
}

const std::vector<window2d>& pools() {
  static const std::vector<window2d> all{
      {.n = 2, .c = 3, .h = 8, .w = 8, .kernel_h = 2, .kernel_w = 2, .stride = 2},
      {.n = 1, .c = 3, .h = 7, .w = 39, .kernel_h = 2, .kernel_w = 2, .stride = 2},
      {.n = 1, .c = 2, .h = 24, .w = 50, .kernel_h = 2, .kernel_w = 2, .stride = 2},
      {.n = 1, .c = 2, .h = 7, .w = 9, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 1},
      {.n = 2, .c = 1, .h = 5, .w = 5, .kernel_h = 3, .kernel_w = 2, .stride = 1},
      {.n = 1, .c = 1, .h = 10, .w = 7, .kernel_h = 2, .kernel_w = 3, .stride = 3, .padding = 1},
      {.n = 3, .c = 5, .h = 3, .w = 3, .kernel_h = 3, .kernel_w = 3},
      {.n = 1, .c = 1, .h = 1, .w = 1, .kernel_h = 1, .kernel_w = 1},
  };
  return all;
}

TEST_P(Network, PoolsAgree) {
  for (const auto& w : pools()) {
    SCOPED_TRACE(::testing::Message() << w.h << "x" << w.w << " by " << w.kernel_h << "x" << w.kernel_w << " stride "
                                      << w.stride);
    const auto in = w.n * w.c * w.h * w.w, out = w.n * w.c * w.out_h() * w.out_w();
    auto x = random.floats(in);
    for (std::size_t i = 1; i < x.size(); i += 2) // ties: the first wins
      x[i] = std::round(x[i] * 2) / 2;
    const auto dy = random.floats(out);
    std::vector<float> want_y(size(out)), want_dx(size(in));
    std::vector<std::int32_t> want_argmax(size(out));
    auto device_x = upload(x), device_dy = upload(dy), y = output(out), dx = output(in), mean = output(out), mean_dx = output(in);
    device_array<std::int32_t> argmax(queue, out);

    reference::max_pool(w, x.data(), want_y.data(), want_argmax.data());
    queue.enqueue(max_pool{w, device_x, y, argmax});
    EXPECT_TRUE(same_bits(y.get(), want_y));
    EXPECT_EQ(argmax.get(), want_argmax);
    reference::max_pool_backward(w, want_argmax.data(), dy.data(), want_dx.data());
    queue.enqueue(max_pool_backward{w, argmax, device_dy, dx});
    EXPECT_TRUE(agree(dx.get(), want_dx, {.absolute = 1e-6}));

    reference::avg_pool(w, x.data(), want_y.data());
    queue.enqueue(avg_pool{w, device_x, mean});
    EXPECT_TRUE(agree(mean.get(), want_y, {.absolute = 5e-7}));
    reference::avg_pool_backward(w, dy.data(), want_dx.data());
    queue.enqueue(avg_pool_backward{w, device_dy, mean_dx});
    EXPECT_TRUE(agree(mean_dx.get(), want_dx, {.absolute = 1e-6}));
  }
}

// The size of a head decides how a device cuts its tiles.
TEST_P(Network, AttentionOfEveryHeadSizeAgrees) {
  for (const std::int64_t head_size : {3, 64, 65, 128, 129, 256}) {
    SCOPED_TRACE(head_size);
    attention_shape s{.rows = 2, .length = 37, .heads = 2, .key_heads = 1, .head_size = head_size, .causal = head_size % 2 == 1};
    s.q_stride = s.width(), s.kv_stride = s.key_width();
    s.scale = 1 / std::sqrt(static_cast<float>(head_size));
    const std::int64_t results = s.tokens() * s.width(), keys = s.tokens() * s.key_width(), sums = s.tokens() * s.heads;
    const auto q = random.floats(results), k = random.floats(keys), v = random.floats(keys), dy = random.floats(results);
    std::vector<float> want_y(size(results)), want_lse(size(sums)), want_dq(size(results)), want_dk(size(keys)),
        want_dv(size(keys));
    reference::attention({.shape = s}, q.data(), k.data(), v.data(), want_y.data(), want_lse.data());
    reference::attention_backward({.shape = s}, q.data(), k.data(), v.data(), want_y.data(), want_lse.data(), dy.data(),
                                  want_dq.data(), want_dk.data(), want_dv.data());
    auto device_q = upload(q), device_k = upload(k), device_v = upload(v), device_dy = upload(dy);
    auto y = output(results), lse = output(sums), dq = output(results), dk = output(keys), dv = output(keys);
    queue.enqueue(attention{.shape = s, .q = device_q, .k = device_k, .v = device_v, .y = y, .lse = lse});
    queue.enqueue(attention_backward{.shape = s,
                                     .q = device_q,
                                     .k = device_k,
                                     .v = device_v,
                                     .y = y,
                                     .lse = lse,
                                     .dy = device_dy,
                                     .dq = dq,
                                     .dk = dk,
                                     .dv = dv});
    const tolerance allowed{.absolute = 5e-6, .relative = 5e-6};
    EXPECT_TRUE(agree(y.get(), want_y, allowed));
    EXPECT_TRUE(agree(lse.get(), want_lse, allowed));
    EXPECT_TRUE(agree(dq.get(), want_dq, allowed));
    EXPECT_TRUE(agree(dk.get(), want_dk, allowed));
    EXPECT_TRUE(agree(dv.get(), want_dv, allowed));
  }
}

TEST_P(Network, MaxPoolShowsNaN) {
  const window2d w{.n = 1, .c = 1, .h = 2, .w = 2, .kernel_h = 2, .kernel_w = 2, .stride = 2};
  auto x = upload(std::vector<float>{1, NAN, 3, 2}), y = output(1);
  device_array<std::int32_t> argmax(queue, 1);
  queue.enqueue(max_pool{w, x, y, argmax});
  EXPECT_TRUE(std::isnan(y.get()[0])); // a diverged model must not look healthy
  EXPECT_EQ(argmax.get()[0], 1);
}

} // namespace

} // namespace troupe::kernels::testing
