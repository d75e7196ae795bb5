// SPDX-License-Identifier: BSD-3-Clause
// Elementwise operations, reductions and optimizers against the reference.
#include "tests/kernels/harness.hpp"

#include <cmath>
#include <limits>

#include "kernels/reference.hpp"

namespace troupe::kernels::testing {

namespace {

using enum unary_op;
constexpr std::array all_binary{binary_op::add, binary_op::subtract, binary_op::multiply, binary_op::divide};
// Below, at and above the width of a vector, a block and several blocks.
constexpr std::array<std::int64_t, 9> lengths{1, 3, 15, 16, 17, 64, 1000, 1025, 4099};

// Own polynomials: 4 units in the last place, and what denormals flushed to zero may lack.
constexpr tolerance few_ulps{.absolute = 1e-7, .relative = 5e-7};

constexpr float infinity = std::numeric_limits<float>::infinity();

class Elementwise : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Elementwise);

std::vector<float> map(const std::vector<float>& x, auto f) {
  std::vector<float> y;
  for (float v : x)
    y.push_back(static_cast<float>(f(static_cast<double>(v))));
  return y;
}

TEST_P(Elementwise, UnaryAgrees) {
  for (unary_op op : all_unary)
    for (auto n : lengths) {
      SCOPED_TRACE(::testing::Message() << "op " << static_cast<int>(op) << ", n " << n);
      const bool positive = op == log || op == sqrt;
      const auto x = random.floats(n, positive ? 0.001F : -9, 9);
      auto device_x = upload(x), y = output(n);
      queue.enqueue(unary{op, device_x, y, n});
      const auto want = map(x, [op](double v) { return reference::unary(op, v); });
      EXPECT_TRUE(agree(y.get(), want, few_ulps));
      queue.enqueue(unary{op, device_x, device_x, n});
      EXPECT_TRUE(same_bits(device_x.get(), y.get())) << "in place";
    }
}

TEST_P(Elementwise, UnaryBackwardAgrees) {
  for (unary_op op : all_unary)
    for (auto n : lengths) {
      SCOPED_TRACE(::testing::Message() << "op " << static_cast<int>(op) << ", n " << n);
      const bool positive = op == log || op == sqrt, from_y = saves_result(op);
      const auto x = random.floats(n, positive ? 0.01F : -4, 4), dy = random.floats(n);
      const auto y = map(x, [op](double v) { return reference::unary(op, v); });
      std::vector<float> want(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        want[i] = static_cast<float>(dy[i] * reference::unary_derivative(op, x[i]));
      auto device_x = upload(x), device_y = upload(y), device_dy = upload(dy), dx = output(n);
      // What the contract says is not needed is not there.
      const float* use_x = from_y ? nullptr : device_x.data();
      const float* use_y = from_y ? device_y.data() : nullptr;
      queue.enqueue(unary_backward{op, use_x, use_y, device_dy, dx, n});
      // 1 - y^2 near |y| = 1 has the rounding of y itself.
      EXPECT_TRUE(agree(dx.get(), want, {.absolute = 3e-7, .relative = 1e-6}));
      queue.enqueue(unary_backward{op, use_x, use_y, device_dy, device_dy, n});
      EXPECT_TRUE(same_bits(device_dy.get(), dx.get())) << "in place";
    }
}

TEST_P(Elementwise, FunctionsKeepTheirLimits) {
  const auto at = [&](unary_op op, float x) {
    auto device = upload(std::vector<float>{x});
    queue.enqueue(unary{op, device, device, 1});
    return device.get()[0];
  };
  EXPECT_EQ(at(exp, 100), infinity);
  EXPECT_EQ(at(exp, -infinity), 0);
  EXPECT_EQ(at(exp, 0), 1);
  EXPECT_NEAR(at(exp, 88.5F) / std::exp(88.5), 1, 1e-6);
  EXPECT_EQ(at(log, 0), -infinity);
  EXPECT_EQ(at(log, infinity), infinity);
  EXPECT_EQ(at(log, 1), 0);
  EXPECT_TRUE(std::isnan(at(log, -1)));
  EXPECT_EQ(at(tanh, 20), 1);
  EXPECT_EQ(at(tanh, -infinity), -1);
  EXPECT_EQ(at(sigmoid, -200), 0);
  EXPECT_EQ(at(sigmoid, 200), 1);
  for (unary_op op : all_unary)
    EXPECT_TRUE(std::isnan(at(op, NAN))) << static_cast<int>(op); // a diverged model must not look healthy
}

TEST_P(Elementwise, OwnFunctionsStayWithinAFewUlpsOfTheTruth) {
  std::vector<float> x;
  for (float v = -87; v < 88; v += 0.0137F)
    x.push_back(v);
  for (float v = 1e-6F; v < 1; v *= 1.01F)
    x.push_back(v);
  for (unary_op op : {exp, tanh, sigmoid}) {
    auto device = upload(x);
    queue.enqueue(unary{op, device, device, std::ssize(x)});
    EXPECT_TRUE(
        agree(device.get(), map(x, [op](double v) { return reference::unary(op, v); }), {.absolute = 2e-38, .relative = 4e-7}))
        << static_cast<int>(op);
  }
  for (float& v : x)
    v = std::exp(v);
  auto device = upload(x);
  queue.enqueue(unary{log, device, device, std::ssize(x)});
  EXPECT_TRUE(agree(device.get(), map(x, [](double v) { return std::log(v); }), {.absolute = 1e-9, .relative = 4e-7}));
}

TEST_P(Elementwise, BinaryAgrees) {
  for (binary_op op : all_binary)
    for (auto n : lengths) {
      const auto a = random.floats(n), b = random.floats(n, 0.5F, 2);
      std::vector<float> want(a.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        want[i] = static_cast<float>(reference::binary(op, a[i], b[i]));
      auto device_a = upload(a), device_b = upload(b), y = output(n);
      queue.enqueue(binary{op, device_a, device_b, y, n});
      EXPECT_TRUE(same_bits(y.get(), want)) << "one rounding, so exact; op " << static_cast<int>(op) << ", n " << n;
      queue.enqueue(binary{op, device_a, device_b, device_a, n});
      EXPECT_TRUE(same_bits(device_a.get(), want)) << "in place";
    }
}

TEST_P(Elementwise, FillCopyAndAxpbyAgree) {
  for (auto n : lengths) {
    const auto x = random.floats(n), y = random.floats(n);
    auto device_x = upload(x), device_y = upload(y), poisoned = output(n), filled = output(n), copied = output(n);
    std::vector<float> want(x.size()), scaled(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      want[i] = 0.5F * x[i] - 3 * y[i];
      scaled[i] = 0.3F * x[i];
    }
    queue.enqueue(axpby{0.5F, device_x, -3, device_y, n});
    EXPECT_TRUE(agree(device_y.get(), want, few_ulps));
    queue.enqueue(axpby{0.3F, device_x, 0, poisoned, n});
    EXPECT_TRUE(same_bits(poisoned.get(), scaled)) << "y must not be read when beta is 0";
    queue.enqueue(fill{filled, 2.5F, n});
    EXPECT_EQ(filled.get(), std::vector<float>(x.size(), 2.5F));
    queue.copy(copied, device_x, x.size() * sizeof(float));
    EXPECT_EQ(copied.get(), x);
  }
}

TEST_P(Elementwise, SoftThresholdIsExact) {
  for (auto n : lengths)
    for (float threshold : {0.0F, 0.3F, 5.0F}) {
      const auto x = random.floats(n);
      const auto want = map(x, [threshold](double v) { return reference::soft_threshold(v, threshold); });
      auto device_x = upload(x), y = output(n);
      queue.enqueue(soft_threshold{device_x, threshold, y, n});
      EXPECT_TRUE(agree(y.get(), want, {})) << "one rounding; threshold " << threshold << ", n " << n;
      queue.enqueue(soft_threshold{device_x, threshold, device_x, n});
      EXPECT_TRUE(same_bits(device_x.get(), y.get())) << "in place";
    }
}

TEST_P(Elementwise, SoftThresholdByHand) {
  auto x = upload(std::vector<float>{3, -3, 1, -1, 0.5F, -0.5F, 0, infinity, -infinity, NAN});
  queue.enqueue(soft_threshold{x, 1, x, 10});
  EXPECT_TRUE(agree(x.get(), std::vector<float>{2, -2, 0, 0, 0, 0, 0, infinity, -infinity, NAN}, {}));
}

TEST_P(Elementwise, BiasActivationAgrees) {
  for (activation act : all_activations)
    for (auto [rows, columns] : {std::pair{1, 1}, {3, 10}, {5, 33}, {2, 1500}})
      for (bool bias : {false, true}) {
        const auto x = random.floats(rows * columns, -3, 3), b = random.floats(columns);
        std::vector<float> want(x.size());
        reference::run(bias_activation{x.data(), bias ? b.data() : nullptr, act, want.data(), rows, columns});
        auto device_x = upload(x), device_b = upload(b), y = output(rows * columns);
        queue.enqueue(bias_activation{device_x, bias ? device_b.data() : nullptr, act, y, rows, columns});
        EXPECT_TRUE(agree(y.get(), want, {.absolute = 3e-7, .relative = 1e-6})) << static_cast<int>(act);
      }
}

TEST_P(Elementwise, DropoutIsPhiloxByDefinition) {
  for (auto columns : lengths)
    for (std::int64_t rows : {1, 5})
      for (float rate : {0.0F, 0.3F, 0.9F}) {
        const random_key key{.seed = 0x123456789abcdef0, .stream = 5, .step = (std::uint64_t{1} << 33) - 2};
        auto before = key;
        before.stream = 2;
        const auto x = random.floats(rows * columns, 1, 2);
        std::vector<float> want(x.size());
        reference::run(dropout{x.data(), want.data(), rows, columns, rate, &key, 0});
        auto device_x = upload(x), y = output(rows * columns);
        auto device_key = upload(before);
        queue.enqueue(dropout{device_x, y, rows, columns, rate, device_key, 3});
        EXPECT_TRUE(agree(y.get(), want, {.relative = 3e-7})) << rows << " rows of " << columns << ", rate " << rate;
      }
}

TEST_P(Elementwise, DropoutKeepsTheRightShare) {
  constexpr std::int64_t n = 100'000;
  auto y = upload(std::vector<float>(n, 1));
  auto key = upload(random_key{.seed = 3});
  queue.enqueue(dropout{y, y, 100, n / 100, 0.3F, key, 0});
  double kept = 0;
  for (float v : y.get())
    kept += v != 0;
  EXPECT_NEAR(kept / n, 0.7, 5 * std::sqrt(0.21 / n)); // five sigma
}

class Reductions : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Reductions);

TEST_P(Reductions, SumRowsAgrees) {
  for (auto [rows, columns] : {std::pair{1, 1}, {3, 7}, {128, 10}, {127, 1025}, {5, 2100}, {1000, 3}}) {
    const auto x = random.floats(rows * columns);
    std::vector<float> want(static_cast<std::size_t>(columns));
    reference::run(sum_rows{x.data(), want.data(), rows, columns});
    auto device_x = upload(x), y = output(columns);
    queue.enqueue(sum_rows{device_x, y, rows, columns});
    EXPECT_TRUE(agree(y.get(), want, {.absolute = 1e-6 * std::sqrt(rows) + 1e-7, .relative = 1e-6})) << rows << "x" << columns;
  }
}

TEST_P(Reductions, SumAccumulatesInDouble) {
  for (auto n : lengths) {
    const auto x = random.floats(n, 0, 1);
    auto device_x = upload(x), result = output(1);
    queue.enqueue(sum{device_x, n, result});
    float want = 0;
    reference::run(sum{x.data(), n, &want});
    EXPECT_TRUE(agree(result.get(), std::vector{want}, {.relative = 1.2e-7})) << n;
  }
  std::vector<float> x(20'001, 1); // in float, 2^24 + 1 + 1 + ... would stay 2^24
  x[0] = 0x1p24F;
  auto device_x = upload(x), result = output(1);
  queue.enqueue(sum{device_x, std::ssize(x), result});
  EXPECT_EQ(result.get()[0], 0x1p24F + 20'000);
}

TEST_P(Reductions, WeightedSumAgrees) {
  for (auto n : lengths)
    for (std::size_t k : {1, 2, 3, 8}) {
      std::vector<std::vector<float>> data;
      std::vector<device_array<float>> device;
      std::vector<term> host_terms, terms;
      for (std::size_t t = 0; t < k; ++t) {
        data.push_back(random.floats(n));
        device.push_back(upload(data.back()));
      }
      for (std::size_t t = 0; t < k; ++t) {
        const double weight = 1.0 / static_cast<double>(3 + t);
        host_terms.push_back({data[t].data(), weight});
        terms.push_back({device[t].data(), weight});
      }
      std::vector<float> want(data[0].size());
      reference::run(weighted_sum{host_terms, want.data(), n});
      auto y = output(n);
      queue.enqueue(weighted_sum{terms, y, n});
      EXPECT_TRUE(agree(y.get(), want, few_ulps)) << "n " << n << ", " << k << " terms";
      queue.enqueue(weighted_sum{terms, device[0], n});
      EXPECT_TRUE(same_bits(device[0].get(), y.get())) << "over the first term";
    }
}

TEST_P(Reductions, WeightedSumAddsInTheOrderGiven) {
  // (2^25 + 1) - 2^25 is 0 in float, (2^25 - 2^25) + 1 is 1.
  auto large = upload(std::vector<float>{0x1p25F}), one = upload(std::vector<float>{1}), y = output(1);
  queue.enqueue(weighted_sum{std::array{term{large, 1}, term{one, 1}, term{large, -1}}, y, 1});
  EXPECT_EQ(y.get()[0], 0);
  queue.enqueue(weighted_sum{std::array{term{large, 1}, term{large, -1}, term{one, 1}}, y, 1});
  EXPECT_EQ(y.get()[0], 1);
}

TEST_P(Reductions, AllFiniteFindsOneBadElementAnywhere) {
  device_array<std::int32_t> flag(queue, 1);
  for (auto n : lengths) {
    const auto healthy = random.floats(n);
    auto device = upload(healthy);
    queue.enqueue(all_finite{device, n, flag});
    EXPECT_EQ(flag.get()[0], 1);
    for (std::int64_t where : {std::int64_t{0}, n / 2, n - 1})
      for (float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
        auto x = healthy;
        x[static_cast<std::size_t>(where)] = bad;
        auto sick = upload(x);
        queue.enqueue(all_finite{sick, n, flag});
        EXPECT_EQ(flag.get()[0], 0) << bad << " at " << where << " of " << n;
      }
  }
}

class Optimizers : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Optimizers);

TEST_P(Optimizers, SgdAgreesOverThreeSteps) {
  for (auto n : lengths)
    for (float momentum : {0.0F, 0.9F})
      for (bool nesterov : {false, true})
        for (bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << "n " << n << ", momentum " << momentum << ", nesterov " << nesterov << in_place);
          auto p = random.floats(n), v = std::vector<float>(p.size());
          const auto g1 = random.floats(n), g2 = random.floats(n), scalars = std::vector<float>{0.1F, 0, 0};
          auto device_p = upload(p), device_v = upload(v), next = output(n), device_g1 = upload(g1), device_g2 = upload(g2);
          auto device_scalars = upload(scalars);
          for (int step = 0; step < 3; ++step) {
            const std::array host_terms{term{g1.data(), 0.25}, term{g2.data(), 0.75}};
            const std::array terms{term{device_g1, 0.25}, term{device_g2, 0.75}};
            auto want = p;
            sgd args{.count = n,
                     .terms = host_terms,
                     .p = p.data(),
                     .p_out = want.data(),
                     .velocity = momentum != 0 ? v.data() : nullptr,
                     .step_scalars = scalars.data(),
                     .momentum = momentum,
                     .weight_decay = 0.01F,
                     .nesterov = nesterov};
            reference::run(args);
            args.terms = terms, args.p = device_p, args.p_out = in_place ? device_p : next;
            args.velocity = momentum != 0 ? device_v.data() : nullptr;
            args.step_scalars = device_scalars;
            queue.enqueue(args);
            EXPECT_TRUE(agree((in_place ? device_p : next).get(), want, {.absolute = 5e-7, .relative = 1e-6}));
            if (!in_place) {
              EXPECT_TRUE(same_bits(device_p.get(), p)) << "the old parameters are left alone";
            }
            p = (in_place ? device_p : next).get();
            device_p = upload(p);
            v = device_v.get();
          }
        }
}

TEST_P(Optimizers, AdamwAgreesOverThreeSteps) {
  for (auto n : lengths)
    for (bool in_place : {false, true}) {
      auto p = random.floats(n), m = std::vector<float>(p.size()), v = std::vector<float>(p.size());
      const auto g = random.floats(n);
      auto device_p = upload(p), next = output(n), device_m = upload(m), device_v = upload(v), device_g = upload(g);
      for (int step = 1; step <= 3; ++step) {
        const std::vector<float> scalars{0.01F, static_cast<float>(1 - std::pow(0.9, step)),
                                         static_cast<float>(1 - std::pow(0.999, step))};
        auto device_scalars = upload(scalars);
        const std::array host_terms{term{g.data(), 0.5}}, terms{term{device_g, 0.5}};
        auto want = p;
        adamw args{.count = n,
                   .terms = host_terms,
                   .p = p.data(),
                   .p_out = want.data(),
                   .m = m.data(),
                   .v = v.data(),
                   .step_scalars = scalars.data(),
                   .weight_decay = 0.1F};
        reference::run(args);
        args.terms = terms, args.p = device_p, args.p_out = in_place ? device_p : next, args.m = device_m, args.v = device_v;
        args.step_scalars = device_scalars;
        queue.enqueue(args);
        EXPECT_TRUE(agree((in_place ? device_p : next).get(), want, {.absolute = 1e-7, .relative = 1e-6})) << n;
        EXPECT_TRUE(agree(device_m.get(), m, few_ulps));
        EXPECT_TRUE(agree(device_v.get(), v, few_ulps));
        p = want;
        device_p = upload(p), device_m = upload(m), device_v = upload(v);
      }
    }
}

TEST_P(Optimizers, DelayCompensationAgreesOverThreeSteps) {
  for (auto n : lengths)
    for (bool adaptive : {false, true})
      for (bool in_place : {false, true}) {
        const auto w = random.floats(n), backup = random.floats(n);
        auto mean_square = std::vector<float>(w.size());
        auto device_w = upload(w), device_backup = upload(backup), device_mean_square = upload(mean_square);
        for (int step = 0; step < 3; ++step) {
          const auto g = random.floats(n);
          auto device_g = upload(g), out = output(n);
          std::vector<float> want(g.size());
          delay_compensate args{.count = n,
                                .g = g.data(),
                                .w = w.data(),
                                .w_backup = backup.data(),
                                .g_out = want.data(),
                                .mean_square = adaptive ? mean_square.data() : nullptr,
                                .lambda = 2};
          reference::run(args);
          args.g = device_g, args.w = device_w, args.w_backup = device_backup, args.g_out = in_place ? device_g : out;
          args.mean_square = adaptive ? device_mean_square.data() : nullptr;
          queue.enqueue(args);
          // The sum may cancel: 2 * g^2 * (w - backup) is at most 4, each factor rounded once.
          EXPECT_TRUE(agree((in_place ? device_g : out).get(), want, {.absolute = 2e-6, .relative = 1e-6}))
              << "n " << n << (adaptive ? ", adaptive" : ", constant") << (in_place ? ", in place" : "");
          EXPECT_TRUE(agree(device_mean_square.get(), mean_square, few_ulps));
          if (!in_place) {
            EXPECT_TRUE(same_bits(device_g.get(), g)) << "the gradient is left alone";
          }
        }
      }
}

TEST_P(Optimizers, DelayCompensationByHand) {
  // Constant: 3 + 0.5 * 9 * (4 - 2) = 12; -2 + 0.5 * 4 * (1 - 2) = -4; the third has not moved.
  auto g = upload(std::vector<float>{3, -2, 5}), w = upload(std::vector<float>{4, 1, 7}),
       backup = upload(std::vector<float>{2, 2, 7});
  auto out = output(3), mean_square = upload(std::vector<float>{7, 12, 0});
  delay_compensate args{.count = 3, .g = g, .w = w, .w_backup = backup, .g_out = out, .lambda = 0.5F};
  queue.enqueue(args);
  EXPECT_EQ(out.get(), (std::vector<float>{12, -4, 5}));
  EXPECT_EQ(mean_square.get()[0], 7);
  // Adaptive, decay 0.5: the mean squares become 8, 8 and 12.5; with epsilon 1 lambda is 0.5 / 3 for the first two:
  // 3 + 9 * 2 / 6 = 6 and -2 - 4 / 6.
  args.mean_square = mean_square, args.decay = 0.5F, args.epsilon = 1;
  queue.enqueue(args);
  EXPECT_EQ(mean_square.get(), (std::vector<float>{8, 8, 12.5F}));
  EXPECT_TRUE(agree(out.get(), std::vector<float>{6, -2 - 4 / 6.0F, 5}, few_ulps));
}

TEST_P(Optimizers, SgdByHand) {
  // p = 1, g = 0.5 * 4 - 0.5 * 2 = 1, v = 2: g' = 1 + 0.5 * 1 = 1.5, v' = 0.5 * 2 + 1.5 = 2.5, p' = 1 - 0.1 * 2.5 = 0.75.
  auto p = upload(std::vector<float>{1}), v = upload(std::vector<float>{2}), a = upload(std::vector<float>{4}),
       b = upload(std::vector<float>{2}), scalars = upload(std::vector<float>{0.1F, 0, 0});
  const std::array terms{term{a, 0.5}, term{b, -0.5}};
  sgd args{.count = 1,
           .terms = terms,
           .p = p,
           .p_out = p,
           .velocity = v,
           .step_scalars = scalars,
           .momentum = 0.5F,
           .weight_decay = 0.5F};
  queue.enqueue(args);
  EXPECT_EQ(v.get()[0], 2.5F);
  EXPECT_FLOAT_EQ(p.get()[0], 0.75F);
  // Nesterov from there: g' = 1 + 0.5 * 0.75 = 1.375, v' = 1.25 + 1.375 = 2.625, p' = 0.75 - 0.1 * (1.375 + 1.3125) = 0.48125.
  args.nesterov = true;
  queue.enqueue(args);
  EXPECT_FLOAT_EQ(p.get()[0], 0.48125F);
}

} // namespace

} // namespace troupe::kernels::testing
