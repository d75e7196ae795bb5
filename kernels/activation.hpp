// SPDX-License-Identifier: BSD-3-Clause
// Elementwise functions of one argument, those of them that are activations, and what to know of each beside its formula.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::kernels {

/// Elementwise functions of one argument. gelu is the tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks &
/// Gimpel 2016, eq. 2), gelu_erf the exact one: x Phi(x), Phi(x) = 0.5 (1 + erf(x / sqrt(2))). silu is x sigmoid(x), rsqrt
/// 1 / sqrt(x). The slope of abs is 0 at 0. copy is the last.
enum class unary_op : std::uint8_t {
  relu,
  tanh,
  sigmoid,
  gelu,
  gelu_erf,
  silu,
  exp,
  log,
  erf,
  sqrt,
  rsqrt,
  square,
  abs,
  negate,
  copy
};
/// Activation functions that gemm and conv2d can apply to their result in the same pass.
enum class activation : std::uint8_t { none, relu, tanh, sigmoid, gelu, gelu_erf, silu };

struct activation_facts {
  activation act{};
  unary_op function{};
  std::string_view name{};   ///< in a layer list
  bool saves_result = false; ///< its backward reads its result instead of its argument
  bool rectifier = false;    ///< as far as initial weights go
};

/// Every activation but none.
inline constexpr activation_facts activations[]{
    {.act = activation::relu, .function = unary_op::relu, .name = "relu", .saves_result = true, .rectifier = true},
    {.act = activation::tanh, .function = unary_op::tanh, .name = "tanh", .saves_result = true},
    {.act = activation::sigmoid, .function = unary_op::sigmoid, .name = "sigmoid", .saves_result = true},
    {.act = activation::gelu, .function = unary_op::gelu, .name = "gelu", .rectifier = true},
    {.act = activation::gelu_erf, .function = unary_op::gelu_erf, .name = "gelu-erf", .rectifier = true},
    {.act = activation::silu, .function = unary_op::silu, .name = "silu", .rectifier = true}};

/// copy for none.
constexpr unary_op as_unary(activation act) {
  for (const activation_facts& each : activations)
    if (each.act == act)
      return each.function;
  return unary_op::copy;
}

constexpr std::optional<activation> as_activation(unary_op function) {
  for (const activation_facts& each : activations)
    if (each.function == function)
      return each.act;
  return std::nullopt;
}

/// Whether unary_backward reads the function's result (`y`) instead of its argument (`x`).
constexpr bool saves_result(unary_op function) {
  for (const activation_facts& each : activations)
    if (each.function == function)
      return each.saves_result;
  return false;
}

/// A function as a type, for code that is compiled for each.
template <unary_op Op>
struct constant {};

/// Calls f(constant<op>{}).
template <class F>
void with_constant(unary_op op, F f) {
  using enum unary_op;
  switch (op) {
  case relu:
    return f(constant<relu>{});
  case tanh:
    return f(constant<tanh>{});
  case sigmoid:
    return f(constant<sigmoid>{});
  case gelu:
    return f(constant<gelu>{});
  case gelu_erf:
    return f(constant<gelu_erf>{});
  case silu:
    return f(constant<silu>{});
  case exp:
    return f(constant<exp>{});
  case log:
    return f(constant<log>{});
  case erf:
    return f(constant<erf>{});
  case sqrt:
    return f(constant<sqrt>{});
  case rsqrt:
    return f(constant<rsqrt>{});
  case square:
    return f(constant<square>{});
  case abs:
    return f(constant<abs>{});
  case negate:
    return f(constant<negate>{});
  case copy:
    return f(constant<copy>{});
  }
}

/// The same for the function of an activation: fewer copies of f.
template <class F>
void with_constant(activation act, F f) {
  using enum activation;
  switch (act) {
  case none:
    return f(constant<unary_op::copy>{});
  case relu:
    return f(constant<unary_op::relu>{});
  case tanh:
    return f(constant<unary_op::tanh>{});
  case sigmoid:
    return f(constant<unary_op::sigmoid>{});
  case gelu:
    return f(constant<unary_op::gelu>{});
  case gelu_erf:
    return f(constant<unary_op::gelu_erf>{});
  case silu:
    return f(constant<unary_op::silu>{});
  }
}

} // namespace troupe::kernels
