// SPDX-License-Identifier: BSD-3-Clause
// The closed set of operations that a dataflow graph is made of. Shapes are inferred in graph.cpp, gradients written in
// autodiff.cpp, and execute.cpp maps each op to an operation of a backend: a new op breaks all three at compile time.
#pragma once

#include <cstdint>
#include <variant>

#include "kernels/backend.hpp"
#include "tensor/shape.hpp"

namespace troupe::ops {

// -- sources

/// Samples or labels, one per row; copied in by the plan. -> x(rows, sample)
struct input {
  shape sample;
  dtype type = dtype::f32;
};
/// A slot of the parameter layout. -> w(dims)
struct parameter {
  int slot = 0;
  shape dims;
};

// -- forward

/// y = act(op(a) op(b) [+ bias]) over the last axis: (rows, t, n) is a matrix of rows*t by n. The epilogue and the second output
/// are filled in by the plan's fusion alone. (a, b [, bias]) -> y [, pre: what entered the activation]
struct matmul {
  bool transpose_a = false, transpose_b = false;
  kernels::activation act = kernels::activation::none;
};
/// (x(rows, ..., n), bias(n)) -> y
struct add_bias {};
/// (x) -> y
struct unary {
  kernels::unary_op op{};
};
/// (a, b) of one shape -> y
struct binary {
  kernels::binary_op op{};
};
/// (x(rows, C, H, W), weight(K, C, kh, kw) [, bias(K)]) -> y(rows, K, OH, OW). `act` is filled in by the plan's fusion.
struct conv2d {
  std::int64_t stride = 1, padding = 0;
  kernels::activation act = kernels::activation::none;
};
/// (x(rows, C, H, W)) -> y, argmax
struct max_pool {
  std::int64_t size = 2, stride = 2, padding = 0;
};
/// (x(rows, C, H, W)) -> y
struct avg_pool {
  std::int64_t size = 2, stride = 2, padding = 0;
};
/// The same elements under other extents; costs nothing. (x) -> y(rows, dims)
struct reshape {
  shape dims;
};
/// Over the last axes, those that gamma and beta have (Ba et al. 2016). (x, gamma, beta) -> y, mean, rstd
struct layernorm {
  float epsilon = 1e-5F;
};
/// Its own backward. `stream` tells the layers of one model apart. (x) -> y
struct dropout {
  float rate = 0.5F;
  std::uint32_t stream = 0;
};
/// (logits(rows, ..., classes), labels(rows, ...)) -> loss(rows, ...), dlogits of the mean loss, correct(rows, ...)
struct cross_entropy {};

// -- backward

/// (saved, dy) -> dx; `saved` is y or x, see saves_result.
struct unary_backward {
  kernels::unary_op op{};
};
/// The sum over all axes but the last ones. (x(rows, ..., kept)) -> y(kept)
struct sum_rows {
  shape kept;
};
/// (x, weight, dy) -> dx, dweight, dbias
struct conv2d_backward {
  std::int64_t stride = 1, padding = 0;
};
/// (argmax, dy) -> dx(rows, image)
struct max_pool_backward {
  std::int64_t size = 2, stride = 2, padding = 0;
  shape image;
};
/// (dy) -> dx(rows, image)
struct avg_pool_backward {
  std::int64_t size = 2, stride = 2, padding = 0;
  shape image;
};
/// (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta
struct layernorm_backward {};

using any = std::variant<input, parameter, matmul, add_bias, unary, binary, conv2d, max_pool, avg_pool, reshape, layernorm,
                         dropout, cross_entropy, unary_backward, sum_rows, conv2d_backward, max_pool_backward, avg_pool_backward,
                         layernorm_backward>;

} // namespace troupe::ops
