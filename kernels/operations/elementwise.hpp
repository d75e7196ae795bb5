// SPDX-License-Identifier: BSD-3-Clause
// Operations on elements: a result lies where its operands lie, or where strides put it.
#pragma once

#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/operations/shapes.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

/// Elementwise functions of two arguments of the same length.
enum class binary_op : std::uint8_t { add, subtract, multiply, divide };

/// y(count) = value.
struct fill {
  static constexpr auto name = "fill";
  float* y = nullptr;
  float value = 0;
  std::int64_t count = 0;

  void inputs(auto) const {}
  void outputs(auto each) const { each(y, count); }
};

/// y = f(x).
struct unary {
  static constexpr auto name = "unary";
  unary_op op{};
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(y, count); }
};

/// dx = dy * f'(x). Reads `y` where saves_result(op) (x may be null), else `x` (y may be null).
struct unary_backward {
  static constexpr auto name = "unary_backward";
  unary_op op{};
  const float* x = nullptr;
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(x, count), each(y, count), each(dy, count); }
  void outputs(auto each) const { each(dx, count); }
};

/// y = f(a, b).
struct binary {
  static constexpr auto name = "binary";
  binary_op op{};
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(a, count), each(b, count); }
  void outputs(auto each) const { each(y, count); }
};

/// y = f(a, b) over arrays of up to six axes. y is row-major; a and b have their own strides, 0 along an axis where they are
/// broadcast. `y` may be an operand that is row-major too.
struct broadcast_binary {
  static constexpr auto name = "broadcast_binary";
  binary_op op{};
  axes extents = {}; ///< of y
  const float* a = nullptr;
  axes a_strides = {};
  const float* b = nullptr;
  axes b_strides = {};
  float* y = nullptr;

  void inputs(auto each) const { each(a, reach(extents, a_strides)), each(b, reach(extents, b_strides)); }
  void outputs(auto each) const { each(y, elements(extents)); }
};

/// y = alpha * x + beta * y (y is not read when beta is 0).
struct axpby {
  static constexpr auto name = "axpby";
  float alpha = 1;
  const float* x = nullptr;
  float beta = 0;
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(x, count), each(beta != 0 ? y : nullptr, count); }
  void outputs(auto each) const { each(y, count); }
};

/// y = alpha * x (+ y where `accumulate`) over strided arrays of up to six axes. One operation for a permutation, a slice, a part
/// of a concatenation, and the gradient of each: both sides have the extents, and y's elements are distinct. A stride of 0 in x
/// repeats it: a broadcast, or the gradient of a mean. What lies between y's elements is left alone. With alpha 1 and without
/// `accumulate` the bits are copied, whatever they stand for. x and y do not overlap.
struct copy_strided {
  static constexpr auto name = "copy_strided";
  axes extents = {};
  const float* x = nullptr;
  axes x_strides = {};
  float* y = nullptr;
  axes y_strides = {};
  float alpha = 1;
  bool accumulate = false;

  void inputs(auto each) const { each(x, reach(extents, x_strides)), each(accumulate ? y : nullptr, reach(extents, y_strides)); }
  void outputs(auto each) const { each(y, reach(extents, y_strides)); }
};

/// y(rows, columns) = act(x + bias(columns)). `bias` may be null.
struct bias_activation {
  static constexpr auto name = "bias_activation";
  const float* x = nullptr;
  const float* bias = nullptr;
  activation act = activation::none;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns), each(bias, columns); }
  void outputs(auto each) const { each(y, rows * columns); }
};

/// Inverted dropout of x(rows, columns): y = keep ? x / (1 - rate) : 0, where element (r, c) is kept if random_uniform(k, c) >=
/// rate (random.hpp), and k is `*key` with `layer` added to its stream and r to its step: a row's mask is its own, whatever
/// other rows are computed with it. The key lies in the device's memory, so that a recorded program can be replayed with that
/// of other rows. Its backward is the same operation on the gradient. 0 <= rate < 1, rows * columns <= 2^32.
struct dropout {
  static constexpr auto name = "dropout";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;
  float rate = 0;
  const random_key* key = nullptr;
  std::uint32_t layer = 0;

  void inputs(auto each) const { each(x, rows * columns), each(key, 1); }
  void outputs(auto each) const { each(y, rows * columns); }
};

} // namespace troupe::kernels
