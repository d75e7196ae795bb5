// SPDX-License-Identifier: BSD-3-Clause
// The closed set of operations that a dataflow graph is made of. Shapes are inferred in inference.cpp, gradients written in
// autodiff.cpp, and execute.cpp maps each op to operations of a backend: a new op breaks all three at compile time.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/shape.hpp"

namespace troupe::ops {

// A line such as (x(rows, n), w(n)) -> y(rows, n) lists inputs and results. An axis is counted without the rows: 0 is the first
// extent of `value::dims`.

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
/// What a slot's gradient is before a step that adds to it. -> g(dims)
struct gradient {
  int slot = 0;
  shape dims;
};

/// The same number everywhere. -> y(dims)
struct constant {
  shape dims;
  bool per_row = true;
  float value = 0;
};

// -- products

/// y = act(op(a) op(b) [+ bias]) over the last axis: (rows, t, n) is a matrix of rows*t by n. The epilogue and the second output
/// are filled in by the plan's fusion alone. (a, b [, bias]) -> y [, pre: what entered the activation]
struct matmul {
  bool transpose_a = false, transpose_b = false;
  kernels::activation act = kernels::activation::none;
};
/// y = scale * op(a) op(b), a product for each matrix of the last two axes. (a(rows, ..., m, k), b(rows, ..., k, n)) -> y(rows,
/// ..., m, n)
struct batched_matmul {
  bool transpose_a = false, transpose_b = false;
  float scale = 1;
};
/// (x(rows, C, H, W), weight(K, C / groups, kh, kw) [, bias(K)]) -> y(rows, K, OH, OW). `act` is filled in by the plan's fusion.
struct conv2d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  kernels::activation act = kernels::activation::none;
};

// -- elementwise

/// (x(rows, ..., n), bias(n)) -> y
struct add_bias {};
/// (x) -> y
struct unary {
  kernels::unary_op op{};
};
/// (a, b) -> y. Of different extents, the last ones are matched, and an extent of 1, or none, is repeated; a parameter is
/// repeated for each row.
struct binary {
  kernels::binary_op op{};
};
/// Its own backward. `stream` tells the layers of one model apart. (x) -> y
struct dropout {
  float rate = 0.5F;
  std::uint32_t stream = 0;
};

// -- other arrangements of the same elements

/// The same elements under other extents; costs nothing. (x) -> y(rows, dims)
struct reshape {
  shape dims;
};
/// Axis i of y is axis `axes[i]` of x. (x) -> y
struct permute {
  std::vector<std::size_t> axes;
};
/// Cuts an axis into parts of these lengths. (x) -> a part each
struct split {
  std::size_t axis = 0;
  std::vector<std::int64_t> lengths;
};
/// Joins parts along an axis. (a part each) -> y
struct concat {
  std::size_t axis = 0;
};
/// scale times the sum over axes that `dims` has not, or with extent 1, and over the rows unless `per_row`; a mean, say. Extents
/// are matched as in `binary`. (x) -> y(dims)
struct sum_to {
  shape dims;
  bool per_row = false;
  float scale = 1;
};
/// The other way round: scale times x, repeated. (x) -> y(dims)
struct expand {
  shape dims;
  bool per_row = true;
  float scale = 1;
};

// -- pooling

/// (x(rows, C, H, W)) -> y, argmax
struct max_pool {
  std::int64_t size = 2, stride = 2, padding = 0;
};
/// (x(rows, C, H, W)) -> y
struct avg_pool {
  std::int64_t size = 2, stride = 2, padding = 0;
};

// -- normalisation

/// Over the last axes, those that gamma and beta have (Ba et al. 2016). (x, gamma, beta) -> y, mean, rstd
struct layernorm {
  float epsilon = 1e-5F;
};
/// Over the last axes, those that gamma has (Zhang & Sennrich 2019). (x, gamma) -> y, rstd
struct rmsnorm {
  float epsilon = 1e-5F;
};
/// Over each group of neighbouring channels (Wu & He 2018). (x(rows, C, ...), gamma(C), beta(C)) -> y, mean(rows, groups), rstd
struct groupnorm {
  std::int64_t groups = 1;
  float epsilon = 1e-5F;
};
/// Over the rows, for each channel (Ioffe & Szegedy 2015). The steps are what the running statistics move by, see
/// slot_kind::statistic. (x(rows, C, ...), gamma(C), beta(C), running_mean(C), running_variance(C))
/// -> y, mean(C), rstd(C), mean_step(C), variance_step(C)
struct batchnorm {
  float epsilon = 1e-5F, momentum = 0.1F;
};
/// The same outside training: by the running statistics. Filled in by the plan. -> y
struct batchnorm_inference {
  float epsilon = 1e-5F;
};
/// Over the last axis. (x) -> y
struct softmax {};

// -- sequences: (rows, length, width)

/// (ids(rows, ...), table(vocabulary, width)) -> y(rows, ..., width)
struct embedding {};
/// Heads of softmax(q k' / sqrt(head)) v (Vaswani et al. 2017), probabilities dropped at `rate`. Keys and values may have fewer
/// heads, each for a group of neighbouring queries. All in one tensor, or apart. (qkv(rows, T, (heads + 2 key_heads) head) or
/// q(rows, T, heads head), k, v(rows, T, key_heads head))
/// -> y(rows, T, heads head), lse(rows, heads, T)
struct attention {
  std::int64_t heads = 1, key_heads = 1;
  bool causal = false;
  float rate = 0;
  std::uint32_t stream = 0;
};
/// Turns pairs of each head's elements by angles that grow with the place (Su et al. 2021). A token's first `heads` heads of
/// `head_size` are turned, the rest is kept. (x(rows, T, width)) -> y
struct rotary {
  std::int64_t heads = 1, head_size = 2;
  double base = 10000;
  bool interleaved = false, inverse = false;
};
/// Long short-term memory from a state of 0, gates in the order i, f, g, o. `projected` is x W' + b of all steps.
/// (projected(rows, T, 4 width), u(4 width, width), bias(4 width)) -> y(rows, T, width), gates(rows, T, 4 width), cells(rows, T,
/// width)
struct lstm {};
/// Gated recurrent units from a state of 0, gates in the order r, z, n; n = tanh(projected + r (u h + bias)).
/// (projected(rows, T, 3 width), u(3 width, width), bias(3 width)) -> y(rows, T, width), gates(rows, T, 3 width),
/// candidates(rows, T, width)
struct gru {};

// -- losses: one for each prediction, and the gradient of their mean

/// (logits(rows, ..., classes), labels(rows, ...)) -> loss(rows, ...), dlogits, correct(rows, ...)
struct cross_entropy {
  float smoothing = 0;
};
/// The mean over the last axis of (x - target)^2. (x(rows, ..., n), target(rows, ..., n)) -> loss(rows, ...), dx. A target of one
/// number may lack the last axis.
struct mean_squared_error {};
/// The same of binary cross-entropies of logits. (x, target) -> loss(rows, ...), dx, correct(rows, ...)
struct sigmoid_cross_entropy {};

// -- backward

/// (saved, dy) -> dx; `saved` is y or x, see saves_result.
struct unary_backward {
  kernels::unary_op op{};
};
/// (x, weight, dy) -> dx, dweight, dbias
struct conv2d_backward {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
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
/// (x, gamma, rstd, dy) -> dx, dgamma
struct rmsnorm_backward {};
/// (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta
struct groupnorm_backward {
  std::int64_t groups = 1;
};
/// (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta
struct batchnorm_backward {};
/// (y, dy) -> dx
struct softmax_backward {};
/// (ids, dy) -> dtable(table)
struct embedding_backward {
  shape table;
};
/// (qkv, y, lse, dy) -> dqkv, or (q, k, v, y, lse, dy) -> dq, dk, dv
struct attention_backward {
  attention forward;
};
/// (u, y, gates, cells, dy) -> dprojected, du, dbias
struct lstm_backward {};
/// (u, y, gates, candidates, dy) -> dprojected, du, dbias
struct gru_backward {};

using any = std::variant<input, parameter, gradient, constant, matmul, batched_matmul, conv2d, add_bias, unary, binary, dropout,
                         reshape, permute, split, concat, sum_to, expand, max_pool, avg_pool, layernorm, rmsnorm, groupnorm,
                         batchnorm, batchnorm_inference, softmax, embedding, attention, rotary, lstm, gru, cross_entropy,
                         mean_squared_error, sigmoid_cross_entropy, unary_backward, conv2d_backward, max_pool_backward,
                         avg_pool_backward, layernorm_backward, rmsnorm_backward, groupnorm_backward, batchnorm_backward,
                         softmax_backward, embedding_backward, attention_backward, lstm_backward, gru_backward>;

} // namespace troupe::ops
