// SPDX-License-Identifier: BSD-3-Clause
// What bit-identical training rests on: an element's bits depend on its operands alone, and a repeated call repeats them.
#include "tests/kernels/harness.hpp"

#include <cmath>

namespace troupe::kernels::testing {

namespace {

class Determinism : public backend_test {
protected:
  /// One operation over `n` elements: reads a, b (and what it likes of them in pairs), writes y.
  using operation = std::function<void(const float* a, const float* b, float* y, std::int64_t n)>;

  /// Every elementwise operation in one shape.
  std::vector<std::pair<std::string, operation>> elementwise() {
    std::vector<std::pair<std::string, operation>> all;
    for (unary_op op : all_unary) {
      all.emplace_back("unary " + std::to_string(static_cast<int>(op)), [this, op](auto a, auto, auto y, auto n) {
        queue.enqueue(unary{op, a, y, n});
      });
      all.emplace_back("unary_backward " + std::to_string(static_cast<int>(op)), [this, op](auto a, auto b, auto y, auto n) {
        queue.enqueue(unary_backward{op, a, a, b, y, n});
      });
    }
    for (binary_op op : {binary_op::add, binary_op::subtract, binary_op::multiply, binary_op::divide})
      all.emplace_back("binary " + std::to_string(static_cast<int>(op)), [this, op](auto a, auto b, auto y, auto n) {
        queue.enqueue(binary{op, a, b, y, n});
      });
    all.emplace_back("broadcast_binary", [this](auto a, auto b, auto y, auto n) {
      const axes extents = extents_of(std::array{n});
      queue.enqueue(broadcast_binary{binary_op::divide, extents, a, row_major(extents), b, row_major(extents), y});
    });
    all.emplace_back("copy_strided", [this](auto a, auto b, auto y, auto n) {
      queue.copy(y, b, static_cast<std::size_t>(n) * sizeof(float));
      const axes extents = extents_of(std::array{n});
      queue.enqueue(copy_strided{extents, a, row_major(extents), y, row_major(extents), 0.3F, true});
    });
    all.emplace_back("axpby", [this](auto a, auto b, auto y, auto n) {
      queue.copy(y, b, static_cast<std::size_t>(n) * sizeof(float));
      queue.enqueue(axpby{0.3F, a, 0.7F, y, n});
    });
    all.emplace_back("bias_activation", [this](auto a, auto b, auto y, auto n) {
      queue.enqueue(bias_activation{a, b, activation::gelu, y, 1, n});
    });
    all.emplace_back("sum_rows", [this](auto a, auto, auto y, auto n) { queue.enqueue(sum_rows{a, y, 1, n}); });
    all.emplace_back("weighted_sum", [this](auto a, auto b, auto y, auto n) {
      const std::array terms{term{a, 1.0 / 3}, term{b, 2.0 / 3}, term{a, 0.1}};
      queue.enqueue(weighted_sum{terms, y, n});
    });
    all.emplace_back("sgd", [this](auto a, auto b, auto y, auto n) {
      auto velocity = output(n, 5);
      queue.enqueue(fill{velocity, 0.5F, n});
      const std::array terms{term{a, 1.0 / 3}, term{b, 2.0 / 3}};
      queue.enqueue(sgd{.count = n,
                        .terms = terms,
                        .p = b,
                        .p_out = y,
                        .velocity = velocity,
                        .step_scalars = scalars,
                        .momentum = 0.9F,
                        .weight_decay = 0.01F,
                        .nesterov = true});
    });
    all.emplace_back("adamw", [this](auto a, auto b, auto y, auto n) {
      auto m = output(n, 3), v = output(n, 9);
      queue.enqueue(fill{m, 0.1F, n});
      queue.enqueue(fill{v, 0.2F, n});
      const std::array terms{term{a, 1}};
      queue.enqueue(
          adamw{.count = n, .terms = terms, .p = b, .p_out = y, .m = m, .v = v, .step_scalars = scalars, .weight_decay = 0.1F});
    });
    for (bool adaptive : {false, true})
      all.emplace_back(adaptive ? "delay_compensate, adaptive" : "delay_compensate",
                       [this, adaptive](auto a, auto b, auto y, auto n) {
                         auto backup = output(n, 7), mean_square = output(n, 2);
                         queue.enqueue(fill{backup, 0.7F, n});
                         queue.enqueue(fill{mean_square, 0.2F, n});
                         queue.enqueue(delay_compensate{.count = n,
                                                        .g = a,
                                                        .w = b,
                                                        .w_backup = backup,
                                                        .g_out = y,
                                                        .mean_square = adaptive ? mean_square.data() : nullptr,
                                                        .lambda = 0.04F});
                       });
    all.emplace_back("soft_threshold", [this](auto a, auto, auto y, auto n) { queue.enqueue(soft_threshold{a, 0.9F, y, n}); });
    return all;
  }

  device_array<float> scalars = upload(std::vector<float>{0.01F, 0.1F, 0.001F});
};
TROUPE_ON_EVERY_BACKEND(Determinism);

TEST_P(Determinism, AnElementsBitsDoNotDependOnItsPlace) {
  constexpr std::int64_t n = 1100; // longer than a block of the loops
  const auto a = random.floats(n, 0.1F, 3), b = random.floats(n, 0.5F, 2);
  auto device_a = upload(a), device_b = upload(b);
  for (auto& [name, run] : elementwise()) {
    auto whole = output(n);
    run(device_a, device_b, whole, n);
    const auto want = whole.get();
    for (std::int64_t shift : {0, 1, 7, 13})
      for (auto [begin, end] :
           {std::pair<std::int64_t, std::int64_t>{0, 1}, {0, 15}, {3, 20}, {17, 34}, {1, 65}, {5, 1099}, {1000, n}}) {
        auto part_a = upload({a.begin() + begin, a.begin() + end}, shift),
             part_b = upload({b.begin() + begin, b.begin() + end}, shift + 2);
        auto part = output(end - begin, shift + 1);
        run(part_a, part_b, part, end - begin);
        EXPECT_TRUE(same_bits(part.get(),
                              std::span(want).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))))
            << name << " [" << begin << ", " << end << ") shifted by " << shift;
      }
  }
}

// Results of tens of megabytes take another way to memory.
TEST_P(Determinism, ALargeResultHasTheBitsOfItsPieces) {
  constexpr std::int64_t n = (std::int64_t{5} << 20) + 3, piece = 1 << 20;
  const auto a = random.floats(n, 0.1F, 3), b = random.floats(n, 0.5F, 2);
  auto device_a = upload(a), device_b = upload(b);
  for (auto& [name, run] : elementwise()) {
    if (name != "unary 1" && name != "binary 3" && name != "weighted_sum" && name != "sgd" && name != "adamw"
        && name != "delay_compensate, adaptive" && name != "soft_threshold")
      continue;
    auto whole = output(n, 3), pieces = output(n);
    run(device_a, device_b, whole, n);
    for (std::int64_t begin = 0; begin < n; begin += piece)
      run(device_a + begin, device_b + begin, pieces + begin, std::min(piece, n - begin));
    EXPECT_TRUE(same_bits(whole.get(), pieces.get())) << name;
  }
}

// Whichever rows are computed together, and wherever they lie.
TEST_P(Determinism, ARowsDropoutIsItsOwn) {
  for (const std::int64_t columns : {1, 6, 64, 1030}) {
    constexpr std::int64_t rows = 7, first = 2, count = 4;
    const random_key of_first{.seed = 9, .step = 0xffff'ffff - first}; // the third row's has a carry
    const auto x = random.floats(rows * columns, 1, 2);
    auto device_x = upload(x), whole = output(rows * columns), part = output(count * columns, 5);
    auto key = upload(of_first), later = upload(of_first.of_row(first));
    queue.enqueue(dropout{device_x, whole, rows, columns, 0.4F, key, 0});
    queue.enqueue(dropout{upload({x.begin() + first * columns, x.begin() + (first + count) * columns}, 3), part, count, columns,
                          0.4F, later, 0});
    const auto all = whole.get();
    EXPECT_TRUE(same_bits(part.get(), {all.begin() + first * columns, all.begin() + (first + count) * columns})) << columns;
  }
}

TEST_P(Determinism, TheFusedStepIsTheWeightedSumAndTheStep) {
  constexpr std::int64_t n = 2500;
  auto a = upload(random.floats(n)), b = upload(random.floats(n)), p = upload(random.floats(n)), sum = output(n);
  const auto velocity = random.floats(n);
  auto v1 = upload(velocity), v2 = upload(velocity), fused = output(n), two_steps = output(n);
  const std::array terms{term{a, 0.3}, term{b, 0.7}};
  queue.enqueue(weighted_sum{terms, sum, n});
  const std::array one{term{sum, 1}};
  sgd args{.count = n,
           .terms = terms,
           .p = p,
           .p_out = fused,
           .velocity = v1,
           .step_scalars = scalars,
           .momentum = 0.9F,
           .weight_decay = 0.01F};
  queue.enqueue(args);
  args.terms = one, args.p_out = two_steps, args.velocity = v2;
  queue.enqueue(args);
  EXPECT_TRUE(same_bits(fused.get(), two_steps.get()));
  EXPECT_TRUE(same_bits(v1.get(), v2.get()));
}

// More terms than a kernel takes at once.
TEST_P(Determinism, ManyTermsHaveTheBitsOfOneSumAfterAnother) {
  constexpr std::int64_t n = 1003;
  std::vector<device_array<float>> data;
  std::vector<term> terms;
  for (int t = 0; t < 37; ++t)
    data.push_back(upload(random.floats(n), t % 3 == 2 ? 1 : 0));
  for (auto& each : data)
    terms.push_back({each, 1.0 / static_cast<double>(3 + terms.size())});
  auto sum = output(n), step_by_step = output(n), p = upload(random.floats(n)), fused = output(n), two_steps = output(n);
  queue.enqueue(weighted_sum{terms, sum, n});
  queue.enqueue(weighted_sum{std::span(terms).first(1), step_by_step, n});
  for (std::size_t t = 1; t < terms.size(); ++t)
    queue.enqueue(weighted_sum{std::array{term{step_by_step, 1}, terms[t]}, step_by_step, n});
  EXPECT_TRUE(same_bits(sum.get(), step_by_step.get()));
  const std::array one{term{sum, 1}};
  sgd args{.count = n, .terms = terms, .p = p, .p_out = fused, .step_scalars = scalars, .weight_decay = 0.01F};
  queue.enqueue(args);
  args.terms = one, args.p_out = two_steps;
  queue.enqueue(args);
  EXPECT_TRUE(same_bits(fused.get(), two_steps.get()));
  const std::vector<float> zeros(n);
  auto m1 = upload(zeros), v1 = upload(zeros), m2 = upload(zeros), v2 = upload(zeros);
  adamw adam{.count = n, .terms = terms, .p = p, .p_out = fused, .m = m1, .v = v1, .step_scalars = scalars};
  queue.enqueue(adamw{adam});
  adam.terms = one, adam.p_out = two_steps, adam.m = m2, adam.v = v2;
  queue.enqueue(adamw{adam});
  EXPECT_TRUE(same_bits(fused.get(), two_steps.get()));
}

TEST_P(Determinism, GemmRepeatsItselfWhereverItsOperandsLie) {
  for (bool transpose_b : {false, true}) {
    constexpr std::int64_t m = 65, n = 131, k = 257;
    const auto a = random.floats(m * k), b = random.floats(k * n);
    std::vector<float> first;
    for (std::int64_t shift : {0, 0, 4, 9}) {
      auto device_a = upload(a, shift), device_b = upload(b, shift), c = output(m * n, shift);
      queue.enqueue(gemm{
          .m = m, .n = n, .k = k, .a = device_a, .b = device_b, .c = c, .transpose_b = transpose_b, .act = activation::gelu});
      if (first.empty())
        first = c.get();
      EXPECT_TRUE(same_bits(c.get(), first)) << "shift " << shift;
    }
  }
}

TEST_P(Determinism, BatchedProductsRepeatThemselvesWhereverTheirOperandsLie) {
  constexpr std::int64_t batch = 3, m = 6, n = 10, k = 8, gap = 4;
  const auto a = random.floats(batch * m * k), b = random.floats(batch * k * n), before = random.floats(batch * (m * n + gap));
  for (float beta : {0.0F, 0.5F}) {
    std::vector<float> first;
    for (std::int64_t shift : {0, 0, 4, 9}) {
      auto device_a = upload(a, shift), device_b = upload(b, shift), c = upload(before, shift);
      queue.enqueue(batched_gemm{.batch = batch,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .a = device_a,
                                 .b = device_b,
                                 .c = c,
                                 .stride_a = m * k,
                                 .stride_b = k * n,
                                 .stride_c = m * n + gap,
                                 .beta = beta});
      const auto got = c.get();
      if (first.empty())
        first = got;
      EXPECT_TRUE(same_bits(got, first)) << "shift " << shift;
      for (std::size_t i = m * n; i < before.size(); i += m * n + gap)
        EXPECT_TRUE(same_bits(std::span(got).subspan(i, gap), std::span(before).subspan(i, gap))) << "behind a matrix";
    }
  }
}

TEST_P(Determinism, ConvolutionsAndReductionsRepeatThemselves) {
  const window2d w{.n = 5, .c = 7, .h = 13, .w = 11, .kernel_h = 3, .kernel_w = 3, .padding = 1};
  const std::int64_t channels = 33, in = w.n * w.c * w.h * w.w, out = w.n * channels * w.out_h() * w.out_w();
  const auto x = random.floats(in), weight = random.floats(channels * w.c * 9), dy = random.floats(out);
  std::vector<std::vector<float>> first;
  for (std::int64_t shift : {0, 0, 4, 9}) {
    auto device_x = upload(x, shift), device_weight = upload(weight, shift), device_dy = upload(dy, shift);
    auto y = output(out, shift), dx = output(in, shift), dweight = output(std::ssize(weight), shift),
         dbias = output(channels, shift);
    auto total = output(1), columns = output(33), probabilities = output(out, shift);
    queue.enqueue(conv2d{.window = w, .out_channels = channels, .x = device_x, .weight = device_weight, .y = y});
    queue.enqueue(conv2d_backward{.window = w,
                                  .out_channels = channels,
                                  .x = device_x,
                                  .weight = device_weight,
                                  .dy = device_dy,
                                  .dx = dx,
                                  .dweight = dweight,
                                  .dbias = dbias});
    queue.enqueue(sum{device_x, in, total});
    queue.enqueue(sum_rows{device_dy, columns, out / 33, 33});
    queue.enqueue(softmax{device_dy, probabilities, out / 143, 143});
    const std::vector<std::vector<float>> now{y.get(),     dx.get(),      dweight.get(),      dbias.get(),
                                              total.get(), columns.get(), probabilities.get()};
    if (first.empty())
      first = now;
    for (std::size_t i = 0; i < now.size(); ++i)
      EXPECT_TRUE(same_bits(now[i], first[i])) << "result " << i << ", shift " << shift;
  }
}

} // namespace

} // namespace troupe::kernels::testing
