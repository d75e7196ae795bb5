// SPDX-License-Identifier: BSD-3-Clause
// gemm and convolutions against the reference.
#include "tests/kernels/harness.hpp"

#include <cmath>

#include "kernels/reference.hpp"

namespace troupe::kernels::testing {

namespace {

class Dense : public backend_test {
protected:
  /// Runs `shape` (pointers empty) on random inputs here and by the reference; c starts as NaN where it must not be read.
  void check_gemm(gemm shape, bool bias, bool pre) {
    SCOPED_TRACE(::testing::Message() << shape.m << "x" << shape.n << "x" << shape.k << " ta " << shape.transpose_a << " tb "
                                      << shape.transpose_b << " alpha " << shape.alpha << " beta " << shape.beta << " bias "
                                      << bias << " act " << static_cast<int>(shape.act) << " pre " << pre);
    const auto a = random.floats(shape.m * shape.k), b = random.floats(shape.k * shape.n), bias_values = random.floats(shape.n);
    const auto count = shape.m * shape.n;
    const auto c = shape.beta != 0 ? random.floats(count) : std::vector<float>(static_cast<std::size_t>(count), NAN);
    auto device_a = upload(a), device_b = upload(b), device_c = upload(c), device_bias = upload(bias_values);
    auto device_pre = output(pre ? count : 0);

    auto expected_c = c, expected_pre = std::vector<float>(pre ? c.size() : 0);
    auto want = shape;
    want.a = a.data(), want.b = b.data(), want.c = expected_c.data();
    want.bias = bias ? bias_values.data() : nullptr;
    want.pre = pre ? expected_pre.data() : nullptr;
    reference::run(want);

    shape.a = device_a, shape.b = device_b, shape.c = device_c;
    shape.bias = bias ? device_bias.data() : nullptr;
    shape.pre = pre ? device_pre.data() : nullptr;
    queue.enqueue(gemm{shape});
    // A sum of k products of numbers up to 1, in any order: a few roundings of the partial sums, which grow as sqrt(k).
    const tolerance allowed{.absolute = 1e-6 * std::sqrt(static_cast<double>(shape.k)) + 1e-6, .relative = 2e-6};
    EXPECT_TRUE(agree(device_c.get(), expected_c, allowed));
    EXPECT_TRUE(agree(device_pre.get(), expected_pre, allowed));
  }

  void check_conv2d(const window2d& w, std::int64_t out_channels, bool bias, activation act) {
    SCOPED_TRACE(::testing::Message() << "(" << w.n << "," << w.c << "," << w.h << "," << w.w << ") -> " << out_channels << " by "
                                      << w.kernel_h << "x" << w.kernel_w << " stride " << w.stride << " padding " << w.padding);
    const auto out = w.n * out_channels * w.out_h() * w.out_w(), products = w.c * w.kernel_h * w.kernel_w;
    const auto x = random.floats(w.n * w.c * w.h * w.w), weight = random.floats(out_channels * products);
    const auto biases = random.floats(out_channels), dy = random.floats(out);
    const auto* host_bias = bias ? biases.data() : nullptr;
    auto device_x = upload(x), device_weight = upload(weight), device_bias = upload(biases), device_dy = upload(dy);
    auto y = output(out), dx = output(std::ssize(x)), dweight = output(std::ssize(weight)), dbias = output(out_channels);
    std::vector<float> want_y(dy.size()), want_dx(x.size()), want_dweight(weight.size()), want_dbias(biases.size());

    queue.enqueue(conv2d{.window = w,
                         .out_channels = out_channels,
                         .x = device_x,
                         .weight = device_weight,
                         .bias = bias ? device_bias.data() : nullptr,
                         .y = y,
                         .act = act});
    reference::conv2d(w, out_channels, x.data(), weight.data(), host_bias, act, want_y.data());
    EXPECT_TRUE(agree(y.get(), want_y, {.absolute = 1e-6 * std::sqrt(static_cast<double>(products)) + 1e-6, .relative = 2e-6}));

    const conv2d_backward backward{.window = w,
                                   .out_channels = out_channels,
                                   .x = device_x,
                                   .weight = device_weight,
                                   .dy = device_dy,
                                   .dx = dx,
                                   .dweight = dweight,
                                   .dbias = bias ? dbias.data() : nullptr};
    queue.enqueue(conv2d_backward{backward});
    reference::conv2d_backward(w, out_channels, x.data(), weight.data(), dy.data(), want_dx.data(), want_dweight.data(),
                               want_dbias.data());
    const double terms = std::sqrt(static_cast<double>(w.n * w.out_h() * w.out_w() + out_channels * products));
    const tolerance allowed{.absolute = 2e-6 * terms, .relative = 2e-6};
    EXPECT_TRUE(agree(dx.get(), want_dx, allowed));
    EXPECT_TRUE(agree(dweight.get(), want_dweight, allowed));
    if (bias) {
      EXPECT_TRUE(agree(dbias.get(), want_dbias, allowed));
    }
    auto without_dx = backward;
    without_dx.dx = nullptr;
    auto again = output(std::ssize(weight));
    without_dx.dweight = again;
    queue.enqueue(conv2d_backward{without_dx});
    EXPECT_TRUE(same_bits(again.get(), dweight.get()));
  }
};
TROUPE_ON_EVERY_BACKEND(Dense);

struct mnk {
  std::int64_t m, n, k;
};

TEST_P(Dense, GemmAgreesInEveryTransposition) {
  for (auto [m, n, k] : {mnk{1, 1, 1}, {3, 5, 7}, {1, 10, 300}, {17, 1, 33}, {64, 10, 129}, {31, 257, 65}, {128, 96, 784}})
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true})
        check_gemm({.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b}, false, false);
}

TEST_P(Dense, GemmEpiloguesAgree) {
  for (activation act : all_activations)
    for (bool bias : {false, true})
      for (bool pre : {false, true})
        check_gemm({.m = 13, .n = 37, .k = 19, .transpose_b = true, .act = act}, bias, pre);
}

TEST_P(Dense, GemmScalesAndAccumulates) {
  for (float alpha : {1.0F, -0.5F})
    for (float beta : {0.0F, 1.0F, 0.75F})
      for (bool pre : {false, true})
        check_gemm({.m = 9, .n = 34, .k = 21, .alpha = alpha, .beta = beta, .act = activation::relu}, true, pre);
}

TEST_P(Dense, GemmOfNoRowsDoesNothing) {
  auto c = output(4);
  queue.enqueue(gemm{.m = 0, .n = 4, .k = 4, .a = c, .b = c, .c = c});
  EXPECT_TRUE(std::isnan(c.get()[0]));
}

TEST_P(Dense, ConvolutionsAgree) {
  using enum activation;
  check_conv2d({.n = 2, .c = 1, .h = 9, .w = 9, .kernel_h = 3, .kernel_w = 3}, 32, true, relu);
  check_conv2d({.n = 3, .c = 32, .h = 12, .w = 11, .kernel_h = 3, .kernel_w = 3}, 64, true, relu);
  check_conv2d({.n = 1, .c = 3, .h = 7, .w = 10, .kernel_h = 1, .kernel_w = 5, .stride = 2}, 5, false, none);
  check_conv2d({.n = 2, .c = 5, .h = 8, .w = 8, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 1}, 7, true, none);
  check_conv2d({.n = 2, .c = 16, .h = 6, .w = 6, .kernel_h = 5, .kernel_w = 5, .padding = 2}, 17, true, none);
  check_conv2d({.n = 4, .c = 2, .h = 5, .w = 4, .kernel_h = 5, .kernel_w = 4}, 3, true, relu);
  check_conv2d({.n = 1, .c = 1, .h = 1, .w = 1, .kernel_h = 1, .kernel_w = 1}, 1, true, none);
}

// As PyTorch has it: such a window is the bias. Channels choose among the library's kernels.
TEST_P(Dense, ConvolutionsWithWindowsInThePaddingAloneAgree) {
  using enum activation;
  for (const std::int64_t c : {1, 3, 16})
    for (const std::int64_t out : {6, 32}) {
      check_conv2d({.n = 2, .c = c, .h = 8, .w = 7, .kernel_h = 3, .kernel_w = 1, .padding = 1}, out, true, relu);
      check_conv2d({.n = 2, .c = c, .h = 7, .w = 9, .kernel_h = 1, .kernel_w = 3, .stride = 2, .padding = 1}, out, true, none);
      check_conv2d({.n = 1, .c = c, .h = 5, .w = 6, .kernel_h = 1, .kernel_w = 1, .padding = 2}, out, true, none);
      check_conv2d({.n = 1, .c = c, .h = 4, .w = 5, .kernel_h = 3, .kernel_w = 2, .padding = 5}, out, false, none);
      check_conv2d({.n = 1, .c = c, .h = 20, .w = 24, .kernel_h = 3, .kernel_w = 3, .stride = 2, .padding = 4}, out, true, none);
    }
}

TEST_P(Dense, AConvolutionOfAnotherSizeDoesNotDisturbTheFirst) {
  const window2d small{.n = 1, .c = 2, .h = 6, .w = 6, .kernel_h = 3, .kernel_w = 3};
  const window2d large{.n = 4, .c = 16, .h = 20, .w = 20, .kernel_h = 3, .kernel_w = 3};
  for (int round = 0; round < 2; ++round) {
    check_conv2d(small, 16, true, activation::none);
    check_conv2d(large, 16, true, activation::none);
  }
}

} // namespace

} // namespace troupe::kernels::testing
