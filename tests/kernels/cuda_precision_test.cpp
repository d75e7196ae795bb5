// SPDX-License-Identifier: BSD-3-Clause
// Products with rounded operands, and the shadows that keep what was rounded. On the emulator.
#include "tests/kernels/harness.hpp"

#include <bit>
#include <cmath>

#include "kernels/reference.hpp"

namespace troupe::kernels::testing {

namespace {

/// The nearest bfloat16, ties to even.
float as_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

std::vector<float> as_bf16(std::vector<float> x) {
  for (float& v : x)
    v = as_bf16(v);
  return x;
}

class CudaPrecision : public ::testing::Test {
protected:
  static constexpr std::int64_t n = 24; // all matrices are n x n
  static constexpr std::size_t bytes = n * n * sizeof(float);
  std::unique_ptr<backend> owner = open_emulated({.device = "cuda:0", .products = precision::bf16});
  backend& queue = *owner;
  random_source random;
  // Blocks of their own, aligned as tensors are; so that the guard zones of others do not count as writes.
  buffer w = queue.allocate(bytes), x = queue.allocate(bytes), y = queue.allocate(bytes);
  buffer host = queue.allocate_host(bytes);

  void set(const buffer& block, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), host.as<float>());
    queue.copy_from_host(block.data(), host.data(), bytes);
    queue.synchronize();
  }

  std::vector<float> get(const buffer& block) {
    queue.copy_to_host(host.data(), block.data(), bytes);
    queue.synchronize();
    return {host.as<float>(), host.as<float>() + n * n};
  }

  void multiply() { queue.enqueue(gemm{.m = n, .n = n, .k = n, .a = x.as<float>(), .b = w.as<float>(), .c = y.as<float>()}); }

  /// y is x w with operands that were rounded from what lies there now.
  ::testing::AssertionResult product_is_fresh() {
    const auto a = as_bf16(get(x)), b = as_bf16(get(w));
    std::vector<float> want(n * n);
    reference::run(gemm{.m = n, .n = n, .k = n, .a = a.data(), .b = b.data(), .c = want.data()});
    return agree(get(y), want, {.absolute = 2e-6, .relative = 2e-6});
  }
};

TEST_F(CudaPrecision, Bf16RoundsOperandsAndSumsInFloat) {
  set(w, random.floats(n * n)), set(x, random.floats(n * n));
  multiply();
  EXPECT_TRUE(product_is_fresh());
}

TEST_F(CudaPrecision, RoundingIsToEvenAndKeepsWhatIsNotFinite) {
  std::vector<float> values(n * n), ones(n * n);
  values[0] = std::bit_cast<float>(0x3f808000); // halfway between 1 and 1 + 2^-7: to the even 1
  values[n] = std::bit_cast<float>(0x3f818000); // halfway from 1 + 2^-7: up to the even 1 + 2^-6
  values[2 * n] = std::bit_cast<float>(0x7f7fffff);
  values[3 * n] = std::bit_cast<float>(0x7f800001); // a NaN that truncation would make infinite
  values[4 * n] = -INFINITY;
  for (std::int64_t i = 0; i < n; ++i)
    ones[static_cast<std::size_t>(i)] = 1;
  set(x, values), set(w, ones);
  multiply();
  const auto got = get(y);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[n], 1 + 0x1p-6F);
  EXPECT_EQ(got[2 * n], INFINITY);
  EXPECT_TRUE(std::isnan(got[3 * n]));
  EXPECT_EQ(got[4 * n], -INFINITY);
}

// Whatever writes an operand must be noticed; one operation that forgets to say so trains on old weights.
TEST_F(CudaPrecision, EveryWriteToAnOperandIsNoticed) {
  const auto spare = queue.allocate(bytes), more = queue.allocate(bytes), other = queue.allocate(bytes),
             index = queue.allocate(bytes);
  const auto labels = queue.allocate(n * sizeof(std::int32_t)), scalars = queue.allocate(64),
             key = queue.allocate(sizeof(random_key));
  float* to = x.as<float>();
  const float* from = spare.as<float>();
  constexpr std::int64_t count = n * n;
  const std::array terms{term{from, 0.5}, term{more.as<float>(), 0.25}};
  const window2d pool{.n = 1, .c = 1, .h = n, .w = n, .kernel_h = 1, .kernel_w = 1};
  const window2d conv = pool;
  const std::vector<std::pair<std::string, std::function<void()>>> writers{
      {"fill",
       [&] {
         queue.enqueue(fill{to, 0.3F, count});
       }},
      {"copy", [&] { queue.copy(to, from, bytes); }},
      {"copy_from_host", [&] { queue.copy_from_host(to, host.data(), bytes); }},
      {"upload", [&] { queue.upload(to, host.data(), bytes); }},
      {"part",
       [&] {
         queue.enqueue(fill{to + count - 1, 5, 1});
       }},
      {"gemm", [&] { queue.enqueue(gemm{.m = n, .n = n, .k = n, .a = from, .b = from, .c = to}); }},
      {"gemm's pre",
       [&] {
         queue.enqueue(
             gemm{.m = n, .n = n, .k = n, .a = from, .b = from, .c = other.as<float>(), .act = activation::gelu, .pre = to});
       }},
      {"conv2d", [&] { queue.enqueue(conv2d{.window = conv, .out_channels = 1, .x = from, .weight = from, .y = to}); }},
      {"conv2d_backward's dx",
       [&] {
         queue.enqueue(conv2d_backward{
             .window = conv, .out_channels = 1, .x = from, .weight = from, .dy = from, .dx = to, .dweight = other.as<float>()});
       }},
      {"conv2d_backward's dweight",
       [&] {
         queue.enqueue(conv2d_backward{.window = conv, .out_channels = 1, .x = from, .weight = from, .dy = from, .dweight = to});
       }},
      {"conv2d_backward's dbias",
       [&] {
         queue.enqueue(conv2d_backward{.window = conv,
                                       .out_channels = 1,
                                       .x = from,
                                       .weight = from,
                                       .dy = from,
                                       .dweight = other.as<float>(),
                                       .dbias = to});
       }},
      {"unary",
       [&] {
         queue.enqueue(unary{unary_op::tanh, from, to, count});
       }},
      {"unary_backward",
       [&] {
         queue.enqueue(unary_backward{unary_op::tanh, nullptr, from, from, to, count});
       }},
      {"binary",
       [&] {
         queue.enqueue(binary{binary_op::add, from, from, to, count});
       }},
      {"axpby",
       [&] {
         queue.enqueue(axpby{0.5F, from, 0.5F, to, count});
       }},
      {"bias_activation",
       [&] {
         queue.enqueue(bias_activation{from, from, activation::none, to, n, n});
       }},
      {"dropout",
       [&] {
         queue.enqueue(dropout{from, to, n, n, 0.5F, key.as<random_key>(), 0});
       }},
      {"sum_rows",
       [&] {
         queue.enqueue(sum_rows{from, to, n, n});
       }},
      {"sum",
       [&] {
         queue.enqueue(sum{from, count, to});
       }},
      {"weighted_sum",
       [&] {
         queue.enqueue(weighted_sum{terms, to, count});
       }},
      {"layernorm",
       [&] {
         queue.enqueue(layernorm{from, from, from, 1e-5F, to, other.as<float>(), index.as<float>(), n, n});
       }},
      {"layernorm's mean",
       [&] {
         queue.enqueue(layernorm{from, from, from, 1e-5F, other.as<float>(), to, index.as<float>(), n, n});
       }},
      {"layernorm's rstd",
       [&] {
         queue.enqueue(layernorm{from, from, from, 1e-5F, other.as<float>(), index.as<float>(), to, n, n});
       }},
      {"layernorm_backward's dbeta",
       [&] {
         queue.enqueue(layernorm_backward{from, from, from, from, from, other.as<float>(), index.as<float>(), to, n, n});
       }},
      {"layernorm_backward's dx",
       [&] {
         queue.enqueue(layernorm_backward{from, from, from, from, from, to, other.as<float>(), index.as<float>(), n, n});
       }},
      {"layernorm_backward's dgamma",
       [&] {
         queue.enqueue(layernorm_backward{from, from, from, from, from, other.as<float>(), to, index.as<float>(), n, n});
       }},
      {"max_pool",
       [&] {
         queue.enqueue(max_pool{pool, from, to, index.as<std::int32_t>()});
       }},
      {"max_pool_backward",
       [&] {
         queue.enqueue(max_pool{pool, from, other.as<float>(), index.as<std::int32_t>()});
         queue.enqueue(max_pool_backward{pool, index.as<std::int32_t>(), from, to});
       }},
      {"avg_pool",
       [&] {
         queue.enqueue(avg_pool{pool, from, to});
       }},
      {"avg_pool_backward",
       [&] {
         queue.enqueue(avg_pool_backward{pool, from, to});
       }},
      {"softmax",
       [&] {
         queue.enqueue(softmax{from, to, n, n});
       }},
      {"softmax_cross_entropy's gradient",
       [&] {
         queue.enqueue(softmax_cross_entropy{from, labels.as<std::int32_t>(), 1, other.as<float>(), to, nullptr, n, n});
       }},
      {"softmax_cross_entropy's loss",
       [&] {
         queue.enqueue(softmax_cross_entropy{from, labels.as<std::int32_t>(), 1, to, nullptr, nullptr, n, n});
       }},
      {"sgd",
       [&] { queue.enqueue(sgd{.count = count, .terms = terms, .p = from, .p_out = to, .step_scalars = scalars.as<float>()}); }},
      {"sgd's velocity",
       [&] {
         queue.enqueue(sgd{.count = count,
                           .terms = terms,
                           .p = from,
                           .p_out = other.as<float>(),
                           .velocity = to,
                           .step_scalars = scalars.as<float>(),
                           .momentum = 0.5F});
       }},
      {"adamw",
       [&] {
         queue.enqueue(adamw{.count = count,
                             .terms = terms,
                             .p = from,
                             .p_out = to,
                             .m = other.as<float>(),
                             .v = index.as<float>(),
                             .step_scalars = scalars.as<float>()});
       }},
      {"adamw's m",
       [&] {
         queue.enqueue(adamw{.count = count,
                             .terms = terms,
                             .p = from,
                             .p_out = other.as<float>(),
                             .m = to,
                             .v = index.as<float>(),
                             .step_scalars = scalars.as<float>()});
       }},
      {"adamw's v",
       [&] {
         queue.enqueue(adamw{.count = count,
                             .terms = terms,
                             .p = from,
                             .p_out = other.as<float>(),
                             .m = index.as<float>(),
                             .v = to,
                             .step_scalars = scalars.as<float>()});
       }},
      {"delay_compensate",
       [&] {
         queue.enqueue(delay_compensate{.count = count, .g = from, .w = from, .w_backup = from, .g_out = to, .lambda = 0.5F});
       }},
      {"soft_threshold",
       [&] {
         queue.enqueue(soft_threshold{from, 0.1F, to, count});
       }},
  };
  queue.enqueue(fill{labels.as<float>(), 0, n});
  queue.enqueue(fill{scalars.as<float>(), 0.5F, 16});
  set(w, random.floats(count)), set(more, random.floats(count, 0.1F, 1));
  for (const auto& [name, write] : writers) {
    set(spare, random.floats(count, 0.1F, 1)), set(other, random.floats(count, 0.1F, 1)),
        set(index, random.floats(count, 0.1F, 1));
    set(x, random.floats(count));
    multiply(); // x has a shadow now
    write();
    multiply();
    EXPECT_TRUE(product_is_fresh()) << name;
  }
}

TEST_F(CudaPrecision, AProgramRoundsAnewAtEachReplay) {
  set(w, random.floats(n * n)), set(x, random.floats(n * n));
  multiply(); // both have shadows
  auto program = queue.capture([&] { multiply(); });
  set(w, random.floats(n * n));
  queue.replay(*program);
  EXPECT_TRUE(product_is_fresh());
  set(x, random.floats(n * n));
  queue.replay(*program);
  EXPECT_TRUE(product_is_fresh());
}

TEST_F(CudaPrecision, AProgramThatHasNotRunHasRoundedNothing) {
  set(w, random.floats(n * n)), set(x, random.floats(n * n));
  const auto program = queue.capture([&] { multiply(); });
  multiply();
  EXPECT_TRUE(product_is_fresh());
}

TEST_F(CudaPrecision, WhatAProgramWroteIsNoticedAfterIt) {
  set(w, random.floats(n * n)), set(x, random.floats(n * n));
  auto program = queue.capture([&] { queue.enqueue(fill{x.as<float>(), 0.7F, n * n}); });
  multiply();
  queue.replay(*program);
  multiply();
  EXPECT_TRUE(product_is_fresh());
}

TEST_F(CudaPrecision, AnOperandOfAnotherQueueIsNeverRemembered) {
  const auto foreign = open_emulated({.device = "cuda:0", .products = precision::bf16});
  x = foreign->allocate(bytes); // which its owner writes without a word to us
  set(w, random.floats(n * n));
  for (float value : {0.25F, 3.0F}) {
    foreign->enqueue(fill{x.as<float>(), value, n * n});
    foreign->synchronize();
    multiply();
    EXPECT_TRUE(product_is_fresh());
  }
}

/// A convolution and its backward on `queue`, twice (what lies in scratch memory must have no shadow), against the reference on
/// what `as_multiplied` makes of the operands.
void check_convolution(backend& queue, random_source& random, const window2d& window, double allowed, auto as_multiplied) {
  constexpr std::int64_t channels = 4;
  const std::int64_t in = window.n * window.c * window.h * window.w, out = window.n * channels * window.out_h() * window.out_w();
  const std::int64_t weights = channels * window.c * window.kernel_h * window.kernel_w;
  const auto image = random.floats(in), weight = random.floats(weights), dy = random.floats(out);
  device_array<float> device_image(queue, image), device_weight(queue, weight), device_dy(queue, dy), result(queue, out),
      dx(queue, in), dweight(queue, weights);
  const auto a = as_multiplied(image), b = as_multiplied(weight), g = as_multiplied(dy);
  std::vector<float> want(dy.size()), want_dx(image.size()), want_dweight(weight.size());
  reference::conv2d(window, channels, a.data(), b.data(), static_cast<const float*>(nullptr), activation::none, want.data());
  reference::conv2d_backward(window, channels, a.data(), b.data(), g.data(), want_dx.data(), want_dweight.data(),
                             static_cast<float*>(nullptr));
  queue.enqueue(conv2d{.window = window, .out_channels = channels, .x = device_image, .weight = device_weight, .y = result});
  EXPECT_TRUE(agree(result.get(), want, {.absolute = allowed, .relative = 2e-6}));
  queue.enqueue(conv2d_backward{.window = window,
                                .out_channels = channels,
                                .x = device_image,
                                .weight = device_weight,
                                .dy = device_dy,
                                .dx = dx,
                                .dweight = dweight});
  EXPECT_TRUE(agree(dx.get(), want_dx, {.absolute = allowed, .relative = 2e-6}));
  EXPECT_TRUE(agree(dweight.get(), want_dweight, {.absolute = allowed, .relative = 2e-6}));
}

TEST_F(CudaPrecision, ConvolutionsRoundTheirOperandsToo) {
  const window2d window{.n = 3, .c = 2, .h = 6, .w = 5, .kernel_h = 3, .kernel_w = 3, .padding = 1};
  for (int round = 0; round < 2; ++round) // with other images: what lies in scratch memory must have no shadow
    check_convolution(queue, random, window, 1e-5, [](const auto& x) { return as_bf16(x); });
}

// Its products read what its own kernels have just written, where an operand of the step before may have been rounded.
TEST_F(CudaPrecision, ARecurrentLayersGradientIsThatOfItsStep) {
  constexpr std::int64_t rows = 2, length = 3, width = 8, count = rows * length * width;
  const auto weight = random.floats(4 * width * width), h = random.floats(count), cell = random.floats(count),
             gate = random.floats(4 * count, 0, 1);
  const std::array steps{random.floats(count), random.floats(count)};
  const auto weight_gradient = [&](std::span<const std::vector<float>> gradients) {
    device_array<float> u(queue, weight), result(queue, h), cells(queue, cell), gates(queue, gate), dprojected(queue, 4 * count),
        du(queue, 4 * width * width), dw(queue, 4 * width * width);
    for (const auto& each : gradients) {
      device_array<float> dy(queue, each);
      queue.enqueue(lstm_backward{.u = u,
                                  .y = result,
                                  .gates = gates,
                                  .cells = cells,
                                  .dy = dy,
                                  .dprojected = dprojected,
                                  .du = du,
                                  .rows = rows,
                                  .length = length,
                                  .width = width});
      queue.enqueue(gemm{.m = 4 * width, // as the caller does for the other weight
                         .n = width,
                         .k = rows * length,
                         .a = dprojected,
                         .b = result,
                         .c = dw,
                         .transpose_a = true});
    }
    return du.get();
  };
  EXPECT_TRUE(same_bits(weight_gradient(steps), weight_gradient(std::span(steps).last(1))));
}

// Columns for all of these images would be larger than what is kept for them.
TEST_F(CudaPrecision, ConvolutionsTakeImagesInPieces) {
  const window2d window{.n = 8, .c = 16, .h = 40, .w = 40, .kernel_h = 5, .kernel_w = 5, .padding = 2};
  check_convolution(*open_emulated({.device = "cuda:0"}), random, window, 1e-3, [](const auto& x) { return x; });
}

TEST_F(CudaPrecision, Tf32KeepsTenBits) {
  const auto tf32 = open_emulated({.device = "cuda:0", .products = precision::tf32});
  device_array<float> a(*tf32, std::vector<float>{1 + 0x1p-9F + 0x1p-13F}), b(*tf32, std::vector<float>{1}), c(*tf32, 1);
  tf32->enqueue(gemm{.m = 1, .n = 1, .k = 1, .a = a, .b = b, .c = c});
  EXPECT_EQ(c.get()[0], 1 + 0x1p-9F);
}

} // namespace

} // namespace troupe::kernels::testing
