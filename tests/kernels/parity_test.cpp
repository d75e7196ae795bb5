// SPDX-License-Identifier: BSD-3-Clause
// Every operation on every backend: as the reference computes it, at once, recorded and deferred; and nothing but its outputs is
// written. An operation without a sample here does not compile.
#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/random.hpp"
#include "kernels/reference.hpp"
#include "tests/kernels/deferred_backend.hpp"

namespace troupe::kernels::testing {

namespace {

/// The arrays of one operation in a backend's memory. Two with the same seed draw the same shapes and numbers.
class operands {
public:
  operands(backend& queue, std::uint64_t seed) : queue_(queue), seed_(seed) {}

  /// One of them, drawn.
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[draw() % choices.size()];
  }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[draw() % choices.size()];
  }
  bool coin() { return draw() % 2 == 0; }

  float* floats(std::int64_t count, float low = -1, float high = 1) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(low + (high - low) * static_cast<float>(draw() % 4096) / 4096);
    return upload(values);
  }
  std::int32_t* integers(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(below)));
    return upload(values);
  }
  /// What an operation is to write: NaN until then.
  float* result(std::int64_t count) {
    return upload(std::vector<float>(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN()));
  }
  std::int32_t* integer_result(std::int64_t count) {
    return upload(std::vector<std::int32_t>(static_cast<std::size_t>(count), -7));
  }
  random_key* key() { return upload(std::vector{random_key{.seed = draw(), .stream = 3, .step = draw()}}); }
  /// Learning rate and corrections, see optimizer_scalar.
  float* step_scalars() { return upload(std::vector<float>{0.01F, 0.1F, 0.02F}); }
  std::span<const term> terms(std::int64_t count) {
    for (auto n = one_of({1, 3, 20}); n > 0; --n)
      terms_.push_back({floats(count), one_of({0.25, 1.0, -0.5})});
    return terms_;
  }

  struct array {
    const void* begin;
    std::vector<std::byte> before;
  };
  const std::vector<array>& arrays() const { return arrays_; }
  std::vector<std::byte> now(const void* begin, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    queue_.copy_to_host(out.data(), begin, bytes);
    queue_.synchronize();
    return out;
  }

private:
  std::uint64_t draw() { return random_block({.seed = seed_, .stream = 77}, drawn_++)[0]; }

  template <class T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = values.size() * sizeof(T);
    auto& block = blocks_.emplace_back(queue_.allocate(bytes));
    std::vector<std::byte> raw(bytes);
    std::memcpy(raw.data(), values.data(), bytes);
    queue_.copy_from_host(block.data(), raw.data(), bytes);
    queue_.synchronize();
    arrays_.push_back({block.data(), std::move(raw)});
    return block.template as<T>();
  }

  backend& queue_;
  std::uint64_t seed_;
  std::uint32_t drawn_ = 0;
  std::vector<buffer> blocks_;
  std::vector<array> arrays_;
  std::vector<term> terms_;
};

window2d window(operands& m, bool pooled) {
  const auto kernel = m.one_of<std::int64_t>({1, 2, 3});
  return {.n = m.one_of<std::int64_t>({1, 3}),
          .c = m.one_of<std::int64_t>({1, 4}),
          .h = m.one_of<std::int64_t>({5, 8}),
          .w = m.one_of<std::int64_t>({4, 9}),
          .kernel_h = kernel,
          .kernel_w = m.one_of<std::int64_t>({1, kernel}),
          .stride = m.one_of<std::int64_t>({1, 2}),
          .padding = pooled && kernel == 1 ? 0 : m.one_of<std::int64_t>({0, 0, 1})};
}

/// As window, with every place of the kernel over the image at least in part.
window2d pooling(operands& m) {
  auto w = window(m, true);
  w.kernel_w = w.kernel_h;
  return w;
}

std::int64_t length(operands& m) {
  return m.one_of<std::int64_t>({1, 17, 1025});
}

gemm sample(operands& m, const gemm*) {
  const auto rows = m.one_of<std::int64_t>({1, 5, 33}), columns = m.one_of<std::int64_t>({1, 10, 64}),
             inner = m.one_of<std::int64_t>({1, 7, 40});
  gemm op{.m = rows, .n = columns, .k = inner, .a = m.floats(rows * inner), .b = m.floats(inner * columns)};
  op.beta = m.one_of({0.0F, 0.5F});
  op.c = op.beta == 0 ? m.result(rows * columns) : m.floats(rows * columns);
  op.transpose_a = m.coin();
  op.transpose_b = m.coin();
  op.alpha = m.one_of({1.0F, 0.7F});
  op.bias = m.coin() ? m.floats(columns) : nullptr;
  op.act = m.one_of(all_activations);
  op.pre = m.coin() ? m.result(rows * columns) : nullptr;
  return op;
}

conv2d sample(operands& m, const conv2d*) {
  conv2d op{.window = window(m, false), .out_channels = m.one_of<std::int64_t>({1, 3})};
  op.x = m.floats(op.window.pixels());
  op.weight = m.floats(op.weights());
  op.bias = m.coin() ? m.floats(op.out_channels) : nullptr;
  op.y = m.result(op.window.outputs(op.out_channels));
  op.act = m.one_of({activation::none, activation::relu});
  return op;
}

conv2d_backward sample(operands& m, const conv2d_backward*) {
  conv2d_backward op{.window = window(m, false), .out_channels = m.one_of<std::int64_t>({1, 3})};
  op.dx = m.coin() ? m.result(op.window.pixels()) : nullptr;
  op.x = m.floats(op.window.pixels());
  op.weight = m.floats(op.weights());
  op.dy = m.floats(op.window.outputs(op.out_channels));
  op.dweight = m.result(op.weights());
  op.dbias = m.coin() ? m.result(op.out_channels) : nullptr;
  return op;
}

fill sample(operands& m, const fill*) {
  const auto n = length(m);
  return {.y = m.result(n), .value = 0.75F, .count = n};
}

unary sample(operands& m, const unary*) {
  const auto n = length(m);
  return {.op = m.one_of(all_unary), .x = m.floats(n, 0.01F, 4), .y = m.result(n), .count = n};
}

unary_backward sample(operands& m, const unary_backward*) {
  const auto n = length(m);
  unary_backward op{.op = m.one_of(all_unary), .dy = m.floats(n), .dx = m.result(n), .count = n};
  (saves_result(op.op) ? op.y : op.x) = m.floats(n, 0.01F, 0.9F);
  return op;
}

binary sample(operands& m, const binary*) {
  using enum binary_op;
  const auto n = length(m);
  return {.op = m.one_of({add, subtract, multiply, divide}),
          .a = m.floats(n),
          .b = m.floats(n, 0.5F, 2),
          .y = m.result(n),
          .count = n};
}

axpby sample(operands& m, const axpby*) {
  const auto n = length(m);
  const auto beta = m.one_of({0.0F, 0.7F});
  return {.alpha = 0.3F, .x = m.floats(n), .beta = beta, .y = beta == 0 ? m.result(n) : m.floats(n), .count = n};
}

bias_activation sample(operands& m, const bias_activation*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = length(m);
  return {.x = m.floats(rows * columns),
          .bias = m.coin() ? m.floats(columns) : nullptr,
          .act = m.one_of(all_activations),
          .y = m.result(rows * columns),
          .rows = rows,
          .columns = columns};
}

dropout sample(operands& m, const dropout*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = length(m);
  return {.x = m.floats(rows * columns),
          .y = m.result(rows * columns),
          .rows = rows,
          .columns = columns,
          .rate = 0.4F,
          .key = m.key(),
          .layer = 2};
}

sum_rows sample(operands& m, const sum_rows*) {
  const auto rows = m.one_of<std::int64_t>({1, 30}), columns = length(m);
  return {.x = m.floats(rows * columns), .y = m.result(columns), .rows = rows, .columns = columns};
}

sum sample(operands& m, const sum*) {
  const auto n = length(m);
  return {.x = m.floats(n, 0, 1), .count = n, .result = m.result(1)};
}

weighted_sum sample(operands& m, const weighted_sum*) {
  const auto n = length(m);
  return {.terms = m.terms(n), .y = m.result(n), .count = n};
}

all_finite sample(operands& m, const all_finite*) {
  const auto n = length(m);
  return {.x = m.coin() ? m.floats(n) : m.result(n), .count = n, .flag = m.integer_result(1)};
}

layernorm sample(operands& m, const layernorm*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .beta = m.floats(columns),
          .epsilon = 1e-3F,
          .y = m.result(rows * columns),
          .mean = m.result(rows),
          .rstd = m.result(rows),
          .rows = rows,
          .columns = columns};
}

layernorm_backward sample(operands& m, const layernorm_backward*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .mean = m.floats(rows, -0.1F, 0.1F),
          .rstd = m.floats(rows, 0.5F, 2),
          .dy = m.floats(rows * columns),
          .dx = m.result(rows * columns),
          .dgamma = m.result(columns),
          .dbeta = m.result(columns),
          .rows = rows,
          .columns = columns};
}

max_pool sample(operands& m, const max_pool*) {
  const auto w = pooling(m);
  return {.window = w, .x = m.floats(w.pixels()), .y = m.result(w.outputs(w.c)), .argmax = m.integer_result(w.outputs(w.c))};
}

max_pool_backward sample(operands& m, const max_pool_backward*) {
  auto w = pooling(m);
  w.stride = w.kernel_h; // any index inside the image's first window lies under every window there is
  w.padding = 0;
  w.h = w.w = w.kernel_h;
  return {
      .window = w, .argmax = m.integers(w.outputs(w.c), w.h * w.w), .dy = m.floats(w.outputs(w.c)), .dx = m.result(w.pixels())};
}

avg_pool sample(operands& m, const avg_pool*) {
  const auto w = pooling(m);
  return {.window = w, .x = m.floats(w.pixels()), .y = m.result(w.outputs(w.c))};
}

avg_pool_backward sample(operands& m, const avg_pool_backward*) {
  const auto w = pooling(m);
  return {.window = w, .dy = m.floats(w.outputs(w.c)), .dx = m.result(w.pixels())};
}

softmax_cross_entropy sample(operands& m, const softmax_cross_entropy*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), classes = m.one_of<std::int64_t>({2, 10, 1025});
  return {.logits = m.floats(rows * classes, -4, 4),
          .labels = m.integers(rows, classes),
          .scale = 0.125F,
          .loss = m.result(rows),
          .dlogits = m.coin() ? m.result(rows * classes) : nullptr,
          .correct = m.coin() ? m.integer_result(rows) : nullptr,
          .rows = rows,
          .classes = classes};
}

softmax sample(operands& m, const softmax*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({2, 10, 1025});
  return {.x = m.floats(rows * columns, -4, 4), .y = m.result(rows * columns), .rows = rows, .columns = columns};
}

sgd sample(operands& m, const sgd*) {
  const auto n = length(m);
  sgd op{.count = n, .terms = m.terms(n), .p = m.floats(n), .p_out = m.result(n), .step_scalars = m.step_scalars()};
  op.velocity = m.coin() ? m.floats(n) : nullptr;
  op.momentum = op.velocity ? 0.9F : 0;
  op.weight_decay = 0.1F;
  op.nesterov = op.velocity && m.coin();
  return op;
}

adamw sample(operands& m, const adamw*) {
  const auto n = length(m);
  return {.count = n,
          .terms = m.terms(n),
          .p = m.floats(n),
          .p_out = m.result(n),
          .m = m.floats(n),
          .v = m.floats(n, 0.1F, 1),
          .step_scalars = m.step_scalars(),
          .weight_decay = 0.1F};
}

delay_compensate sample(operands& m, const delay_compensate*) {
  const auto n = length(m);
  return {.count = n,
          .g = m.floats(n),
          .w = m.floats(n),
          .w_backup = m.floats(n),
          .g_out = m.result(n),
          .mean_square = m.coin() ? m.floats(n, 0.1F, 1) : nullptr,
          .lambda = 0.4F};
}

soft_threshold sample(operands& m, const soft_threshold*) {
  const auto n = length(m);
  return {.x = m.floats(n), .threshold = 0.3F, .y = m.result(n), .count = n};
}

/// Calls f(pointer to a null Op) for every alternative.
template <class... Ops, class F>
void for_each_operation(const std::variant<Ops...>*, F f) {
  (f(static_cast<const Ops*>(nullptr)), ...);
}
template <class F>
void for_each_operation(F f) {
  for_each_operation(static_cast<const operation*>(nullptr), f);
}

struct output_array {
  const void* begin;
  std::vector<std::byte> bytes;
  bool is_float;
};

/// Waits, and reads what the operation has written.
std::vector<output_array> outputs_of(const operation& op, operands& m) {
  std::vector<output_array> out;
  each_output(op, [&]<class T>(const T* begin, std::int64_t elements) {
    out.push_back({begin, m.now(begin, static_cast<std::size_t>(elements) * sizeof(T)), std::is_same_v<T, float>});
  });
  return out;
}

std::vector<float> as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

constexpr std::uint64_t samples = 12;

/// Compares what `run(op, its arrays)` writes in the device's memory with what the reference writes, and looks for writes
/// elsewhere.
template <class Run>
void compare_with_reference(backend& device, Run run) {
  const auto host = open_backend({});
  for_each_operation([&]<class Op>(const Op* kind) {
    for (std::uint64_t seed = test_seed(); seed < test_seed() + samples; ++seed) {
      SCOPED_TRACE(::testing::Message() << Op::name << ", seed " << seed);
      operands here(*host, seed), there(device, seed);
      const operation want = sample(here, kind), got = sample(there, kind);
      reference::run(want);
      run(got, there);
      const auto expected = outputs_of(want, here), found = outputs_of(got, there);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!found[i].is_float) {
          EXPECT_EQ(found[i].bytes, expected[i].bytes) << "output " << i;
          continue;
        }
        const auto numbers = as_floats(found[i].bytes);
        EXPECT_TRUE(agree(numbers, as_floats(expected[i].bytes), {.absolute = 2e-5, .relative = 2e-5})) << "output " << i;
        EXPECT_FALSE(std::ranges::any_of(numbers, [](float v) { return std::isnan(v); })) << "output " << i;
      }
      for (const auto& array : there.arrays())
        if (std::ranges::none_of(found, [&](const auto& out) { return out.begin == array.begin; })) {
          EXPECT_EQ(there.now(array.begin, array.before.size()), array.before) << "an operand has changed";
        }
    }
  });
}

/// Enqueues it, and spoils what the caller may spoil once the call has returned: the operation and its terms.
void enqueue_and_spoil(backend& queue, operation op) {
  std::vector<term> terms;
  std::visit(
      [&]<class Op>(Op& own) {
        if constexpr (requires { own.terms; }) {
          terms.assign(own.terms.begin(), own.terms.end());
          own.terms = terms;
        }
      },
      op);
  queue.enqueue(op);
  std::ranges::fill(terms, term{});
  op = fill{};
}

class Parity : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Parity);

TEST_P(Parity, EveryOperationIsWhatTheReferenceSays) {
  compare_with_reference(queue, [this](const operation& op, operands&) { enqueue_and_spoil(queue, op); });
}

TEST_P(Parity, EveryOperationCanBeRecorded) {
  compare_with_reference(queue, [this](const operation& op, operands& m) {
    // A backend may keep the function and call it at each replay: what it refers to stays.
    const auto program = queue.capture([&] { queue.enqueue(op); });
    queue.synchronize();
    for (const auto& array : m.arrays())
      EXPECT_EQ(m.now(array.begin, array.before.size()), array.before) << "it ran when it was recorded";
    queue.replay(*program);
    queue.synchronize();
  });
}

TEST(Operations, AreTheSameWhenTheyAreDeferred) {
  tests::deferred_backend deferred;
  compare_with_reference(deferred, [&](const operation& op, operands&) { enqueue_and_spoil(deferred, op); });
}

TEST(Operations, NameEveryArrayThatTheyAreGiven) {
  const auto host = open_backend({});
  for_each_operation([&]<class Op>(const Op* kind) {
    for (std::uint64_t seed = 1; seed <= samples; ++seed) {
      SCOPED_TRACE(::testing::Message() << Op::name << ", seed " << seed);
      operands m(*host, seed);
      const operation op = sample(m, kind);
      std::vector<std::pair<const void*, std::size_t>> named;
      const auto add = [&](const auto* begin, std::int64_t elements) {
        named.emplace_back(begin, static_cast<std::size_t>(elements) * sizeof *begin);
      };
      each_input(op, add);
      each_output(op, add);
      for (const auto& array : m.arrays())
        EXPECT_TRUE(std::ranges::count(named, std::pair{array.begin, array.before.size()}) > 0)
            << "an array of " << array.before.size() << " bytes";
    }
  });
}

TEST(Operations, CountWhatTheyCost) {
  EXPECT_EQ(flops(gemm{.m = 2, .n = 3, .k = 5}), 60);
  EXPECT_EQ(flops(softmax{.rows = 4, .columns = 5}), 20);
  EXPECT_EQ(flops(sum{.count = 7}), 7);
  float some = 0;
  const window2d w{.n = 2, .c = 3, .h = 4, .w = 4, .kernel_h = 3, .kernel_w = 3};
  EXPECT_EQ(flops(conv2d{.window = w, .out_channels = 5}), 2.0 * 5 * 3 * 9 * 2 * 2 * 2);
  EXPECT_EQ(flops(conv2d_backward{.window = w, .out_channels = 5}), flops(conv2d{.window = w, .out_channels = 5}));
  EXPECT_EQ(flops(conv2d_backward{.window = w, .out_channels = 5, .dx = &some}),
            2 * flops(conv2d{.window = w, .out_channels = 5}));
  EXPECT_EQ(bytes_moved(axpby{.x = &some, .y = &some, .count = 10}), 80);
  EXPECT_EQ(bytes_moved(axpby{.x = &some, .beta = 1, .y = &some, .count = 10}), 120);
  EXPECT_STREQ(name_of(layernorm_backward{}), "layernorm_backward");
}

TEST(OperationsDeathTest, BrokenPromisesAreNamed) {
  const auto host = open_backend({});
  EXPECT_DEATH(host->enqueue(dropout{.rate = 1}), "op.rate < 1");
  EXPECT_DEATH(host->enqueue(weighted_sum{}), "terms.empty");
  EXPECT_DEATH(host->enqueue(sgd{.terms = {}, .momentum = 0.9F}), "velocity");
  EXPECT_DEATH(host->enqueue(conv2d{.act = activation::gelu}), "relu");
  const window2d padding_alone{.n = 1, .c = 1, .h = 2, .w = 2, .kernel_h = 1, .kernel_w = 1, .padding = 1};
  EXPECT_DEATH(host->enqueue(max_pool{.window = padding_alone}), "padding < op.window.kernel_h");
}

} // namespace

} // namespace troupe::kernels::testing
