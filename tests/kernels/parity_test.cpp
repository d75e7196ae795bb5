// SPDX-License-Identifier: BSD-3-Clause
// Every operation on every backend: as the reference computes it, at once, recorded and deferred; and nothing but its outputs is
// written. An operation without a sample (operands.hpp) does not compile.
#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/reference.hpp"
#include "tests/kernels/deferred_backend.hpp"
#include "tests/kernels/operands.hpp"

namespace troupe::kernels::testing {

namespace {

/// An alternative of `operation`, and how to draw one.
struct kind {
  const char* name;
  operation (*draw)(operands&);
};

template <class... Ops>
std::vector<kind> kinds_of(const std::variant<Ops...>*) {
  return {{Ops::name, [](operands& m) -> operation { return sample(m, static_cast<const Ops*>(nullptr)); }}...};
}

const std::vector<kind>& every_kind() {
  static const auto all = kinds_of(static_cast<const operation*>(nullptr));
  return all;
}

struct output_array {
  const void* begin;
  std::vector<std::byte> bytes;
  enum class type { f32, f64, other } of;
};

/// Waits, and reads what the operation has written.
std::vector<output_array> outputs_of(const operation& op, operands& m) {
  std::vector<output_array> out;
  each_output(op, [&]<class T>(const T* begin, std::int64_t elements) {
    const auto of = std::is_same_v<T, float>    ? output_array::type::f32
                    : std::is_same_v<T, double> ? output_array::type::f64
                                                : output_array::type::other;
    out.push_back({begin, m.now(begin, static_cast<std::size_t>(elements) * sizeof(T)), of});
  });
  return out;
}

template <class T>
std::vector<T> numbers_of(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// Sums in double differ by the order of additions alone.
void expect_close(const std::vector<double>& got, const std::vector<double>& want) {
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-12 * want[i]) << "element " << i;
}

constexpr std::uint64_t samples = 12;

void expect_agreement(const output_array& got, const output_array& want) {
  if (got.of == output_array::type::other) {
    EXPECT_EQ(got.bytes, want.bytes);
  } else if (got.of == output_array::type::f64) {
    expect_close(numbers_of<double>(got.bytes), numbers_of<double>(want.bytes));
  } else {
    const auto numbers = numbers_of<float>(got.bytes);
    EXPECT_TRUE(agree(numbers, numbers_of<float>(want.bytes), {.absolute = 2e-5, .relative = 2e-5}));
    EXPECT_FALSE(std::ranges::any_of(numbers, [](float v) { return std::isnan(v); }));
  }
}

/// Compares what `run(op, its arrays)` writes in the device's memory with what the reference writes, and looks for writes
/// elsewhere.
void compare_with_reference(backend& device, const std::function<void(const operation&, operands&)>& run) {
  const auto host = open_backend({});
  for (const kind& each : every_kind())
    for (std::uint64_t seed = test_seed(); seed < test_seed() + samples; ++seed) {
      SCOPED_TRACE(::testing::Message() << each.name << ", seed " << seed);
      operands here(*host, seed), there(device, seed);
      const operation want = each.draw(here), got = each.draw(there);
      reference::run(want);
      run(got, there);
      const auto expected = outputs_of(want, here), found = outputs_of(got, there);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        SCOPED_TRACE(::testing::Message() << "output " << i);
        expect_agreement(found[i], expected[i]);
      }
      for (const auto& array : there.arrays())
        if (std::ranges::none_of(found, [&](const auto& out) { return out.begin == array.begin; })) {
          EXPECT_EQ(there.now(array.begin, array.before.size()), array.before) << "an operand has changed";
        }
    }
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
  for (const kind& each : every_kind())
    for (std::uint64_t seed = 1; seed <= samples; ++seed) {
      SCOPED_TRACE(::testing::Message() << each.name << ", seed " << seed);
      operands m(*host, seed);
      const operation op = each.draw(m);
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
