// SPDX-License-Identifier: BSD-3-Clause
// Operations with drawn shapes and operands, one of each kind: what the parity tests run.
#pragma once

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/random.hpp"

namespace troupe::kernels::testing {

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
  double* doubles(std::int64_t count, double high) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(high * static_cast<double>(draw() % 4096) / 4096);
    return upload(values);
  }
  /// In [0, below), except that one in eight is `other`.
  std::int32_t* integers(std::int64_t count, std::int64_t below, std::int64_t other = 0) {
    std::vector<std::int32_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto drawn = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(below));
      values.push_back(static_cast<std::int32_t>(draw() % 8 == 0 ? other : drawn));
    }
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
  /// A factor in the device's memory, or none.
  float* device_scale() { return coin() ? upload(std::vector<float>{0.5F}) : nullptr; }
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

  double* double_result(std::int64_t count) {
    return upload(std::vector<double>(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN()));
  }
  /// What is to be written, or added to.
  float* sums(bool accumulate, std::int64_t count) { return accumulate ? floats(count) : result(count); }

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

/// Elements of a vector: one, a few, more than a block of the loops.
inline std::int64_t length(operands& m) {
  return m.one_of<std::int64_t>({1, 17, 1025});
}

// An operation of each kind; the pointer, which is null, says which.

gemm sample(operands& m, const gemm*);
batched_gemm sample(operands& m, const batched_gemm*);
conv2d sample(operands& m, const conv2d*);
conv2d_backward sample(operands& m, const conv2d_backward*);
fill sample(operands& m, const fill*);
unary sample(operands& m, const unary*);
unary_backward sample(operands& m, const unary_backward*);
binary sample(operands& m, const binary*);
broadcast_binary sample(operands& m, const broadcast_binary*);
axpby sample(operands& m, const axpby*);
copy_strided sample(operands& m, const copy_strided*);
bias_activation sample(operands& m, const bias_activation*);
dropout sample(operands& m, const dropout*);
sum_rows sample(operands& m, const sum_rows*);
sum sample(operands& m, const sum*);
sum_axes sample(operands& m, const sum_axes*);
sum_squares sample(operands& m, const sum_squares*);
weighted_sum sample(operands& m, const weighted_sum*);
all_finite sample(operands& m, const all_finite*);
layernorm sample(operands& m, const layernorm*);
layernorm_backward sample(operands& m, const layernorm_backward*);
rmsnorm sample(operands& m, const rmsnorm*);
rmsnorm_backward sample(operands& m, const rmsnorm_backward*);
groupnorm sample(operands& m, const groupnorm*);
groupnorm_backward sample(operands& m, const groupnorm_backward*);
batchnorm sample(operands& m, const batchnorm*);
batchnorm_inference sample(operands& m, const batchnorm_inference*);
batchnorm_backward sample(operands& m, const batchnorm_backward*);
softmax sample(operands& m, const softmax*);
softmax_backward sample(operands& m, const softmax_backward*);
max_pool sample(operands& m, const max_pool*);
max_pool_backward sample(operands& m, const max_pool_backward*);
avg_pool sample(operands& m, const avg_pool*);
avg_pool_backward sample(operands& m, const avg_pool_backward*);
softmax_cross_entropy sample(operands& m, const softmax_cross_entropy*);
mean_squared_error sample(operands& m, const mean_squared_error*);
sigmoid_cross_entropy sample(operands& m, const sigmoid_cross_entropy*);
embedding sample(operands& m, const embedding*);
embedding_backward sample(operands& m, const embedding_backward*);
attention sample(operands& m, const attention*);
attention_backward sample(operands& m, const attention_backward*);
rotary sample(operands& m, const rotary*);
lstm sample(operands& m, const lstm*);
lstm_backward sample(operands& m, const lstm_backward*);
gru sample(operands& m, const gru*);
gru_backward sample(operands& m, const gru_backward*);
sgd sample(operands& m, const sgd*);
lars_rate sample(operands& m, const lars_rate*);
adamw sample(operands& m, const adamw*);
delay_compensate sample(operands& m, const delay_compensate*);
soft_threshold sample(operands& m, const soft_threshold*);

} // namespace troupe::kernels::testing
