// SPDX-License-Identifier: BSD-3-Clause
// All operations of a backend, as values: their meaning, the memory that they read and write, and their cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

// Each operation is a struct of its operands. Pointers are addresses in the device's memory; matrices are row-major. `inputs` and
// `outputs` call each(pointer, elements) for every array that it reads and writes, null where one was not asked for. Where
// nothing else is said, a result lies over an operand entirely or not at all.

/// Elementwise functions of two arguments of the same length.
enum class binary_op : std::uint8_t { add, subtract, multiply, divide };

/// Geometry of a 2-d convolution or pooling over images (N, C, H, W); one stride and padding for both axes.
/// Output height is (H + 2 padding - kernel_h) / stride + 1, likewise width; a rest smaller than a stride is ignored.
/// Pooling: padding < kernel_h and kernel_w, since a window of padding alone has no maximum and no mean. In a convolution such
/// a window gives 0 plus the bias.
struct window2d {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t kernel_h = 0, kernel_w = 0, stride = 1, padding = 0;
  std::int64_t out_h() const { return (h + 2 * padding - kernel_h) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * padding - kernel_w) / stride + 1; }
  std::int64_t pixels() const { return n * c * h * w; }
  /// Elements of a result with this many channels.
  std::int64_t outputs(std::int64_t channels) const { return n * channels * out_h() * out_w(); }
};

/// One term of a weighted sum: weight * data[0..count).
struct term {
  const float* data = nullptr;
  double weight = 1;
};

/// One optimizer step reads what changes between steps from device memory, so that a captured program can be replayed:
/// `step_scalars` is an array in the device's memory laid out as `optimizer_scalar`.
enum optimizer_scalar : int {
  scalar_lr = 0,      ///< learning rate of this step
  scalar_correction1, ///< adamw: 1 - beta1^t
  scalar_correction2, ///< adamw: 1 - beta2^t
  optimizer_scalar_count
};

// -- dense algebra

/// c(m,n) = act(alpha * op(a)(m,k) * op(b)(k,n) + beta * c + bias(n)). `bias` may be null. `pre`, when not null, receives what
/// enters the activation (the backward of gelu, say, needs it); it must not overlap c. c is not read when beta is 0.
///
/// For speed on the CPU, store the weight of a linear layer as (outputs, inputs): forward with transpose_b, the weight's
/// gradient dy^T x and the input's gradient dy W are then each the fastest of their kind.
struct gemm {
  static constexpr auto name = "gemm";
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;
  activation act = activation::none;
  float* pre = nullptr;

  void inputs(auto each) const { each(a, m * k), each(b, k * n), each(bias, n), each(beta != 0 ? c : nullptr, m * n); }
  void outputs(auto each) const { each(c, m * n), each(pre, m * n); }
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// y(N, K, OH, OW) = act(conv(x(N, C, H, W), weight(K, C, kh, kw)) + bias(K)). Cross-correlation, as in the field. `bias` may be
/// null.
struct conv2d {
  static constexpr auto name = "conv2d";
  window2d window = {};
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  activation act = activation::none; ///< none or relu

  std::int64_t weights() const { return out_channels * window.c * window.kernel_h * window.kernel_w; }
  void inputs(auto each) const { each(x, window.pixels()), each(weight, weights()), each(bias, out_channels); }
  void outputs(auto each) const { each(y, window.outputs(out_channels)); }
  double flops() const { return 2.0 * static_cast<double>(weights()) * static_cast<double>(window.outputs(1)); }
};

/// Backward of conv2d: dx (may be null: a first layer needs none), dweight and dbias (may be null) are overwritten. `dy` is the
/// gradient of the result *before* the activation. At least one image.
struct conv2d_backward {
  static constexpr auto name = "conv2d_backward";
  window2d window = {};
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;

  std::int64_t weights() const { return out_channels * window.c * window.kernel_h * window.kernel_w; }
  void inputs(auto each) const { each(x, window.pixels()), each(weight, weights()), each(dy, window.outputs(out_channels)); }
  void outputs(auto each) const { each(dx, window.pixels()), each(dweight, weights()), each(dbias, out_channels); }
  /// The gradient of the weights costs what the forward costs, and so does that of the images where it is wanted.
  double flops() const { return (dx ? 4.0 : 2.0) * static_cast<double>(weights()) * static_cast<double>(window.outputs(1)); }
};

// -- elementwise (in place where the result is an operand)

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

// -- reductions (fixed order: the same inputs give the same bits)

/// y(columns) = sum over rows of x(rows, columns). A bias gradient.
struct sum_rows {
  static constexpr auto name = "sum_rows";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns); }
  void outputs(auto each) const { each(y, columns); }
  double flops() const { return static_cast<double>(rows * columns); }
};

/// *result = sum of x(count), accumulated in double, stored as float.
struct sum {
  static constexpr auto name = "sum";
  const float* x = nullptr;
  std::int64_t count = 0;
  float* result = nullptr;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(result, 1); }
  double flops() const { return static_cast<double>(count); }
};

/// y(count) = sum_i weight_i * terms_i, in the order given; weights are rounded to float. At least one term; `y` may be the
/// first.
struct weighted_sum {
  static constexpr auto name = "weighted_sum";
  std::span<const term> terms = {};
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
  }
  void outputs(auto each) const { each(y, count); }
};

/// *flag = 1 where every element of x(count) is finite, else 0.
struct all_finite {
  static constexpr auto name = "all_finite";
  const float* x = nullptr;
  std::int64_t count = 0;
  std::int32_t* flag = nullptr;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(flag, 1); }
};

// -- normalisation, pooling, loss

/// Over the last axis of x(rows, columns): y = gamma * (x - mean) * rstd + beta; mean and rstd (rows) are written.
struct layernorm {
  static constexpr auto name = "layernorm";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5F;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns), each(gamma, columns), each(beta, columns); }
  void outputs(auto each) const { each(y, rows * columns), each(mean, rows), each(rstd, rows); }
};

/// dx(rows, columns), dgamma and dbeta (columns) are overwritten; mean and rstd are the forward's. dx may be dy.
struct layernorm_backward {
  static constexpr auto name = "layernorm_backward";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const {
    each(x, rows * columns), each(gamma, columns), each(mean, rows), each(rstd, rows), each(dy, rows * columns);
  }
  void outputs(auto each) const { each(dx, rows * columns), each(dgamma, columns), each(dbeta, columns); }
};

/// y = the maximum of each window of x(N, C, H, W), argmax = its index within the image plane (h*w). The first of equals wins;
/// padding never does, NaN (the last of several) always.
struct max_pool {
  static constexpr auto name = "max_pool";
  window2d window = {};
  const float* x = nullptr;
  float* y = nullptr;
  std::int32_t* argmax = nullptr;

  void inputs(auto each) const { each(x, window.pixels()); }
  void outputs(auto each) const { each(y, window.outputs(window.c)), each(argmax, window.outputs(window.c)); }
};

/// dx(N, C, H, W) is overwritten; argmax is the forward's.
struct max_pool_backward {
  static constexpr auto name = "max_pool_backward";
  window2d window = {};
  const std::int32_t* argmax = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;

  void inputs(auto each) const { each(argmax, window.outputs(window.c)), each(dy, window.outputs(window.c)); }
  void outputs(auto each) const { each(dx, window.pixels()); }
};

/// y = the mean over each window's elements inside the image (padding is not counted).
struct avg_pool {
  static constexpr auto name = "avg_pool";
  window2d window = {};
  const float* x = nullptr;
  float* y = nullptr;

  void inputs(auto each) const { each(x, window.pixels()); }
  void outputs(auto each) const { each(y, window.outputs(window.c)); }
};

/// dx(N, C, H, W) is overwritten.
struct avg_pool_backward {
  static constexpr auto name = "avg_pool_backward";
  window2d window = {};
  const float* dy = nullptr;
  float* dx = nullptr;

  void inputs(auto each) const { each(dy, window.outputs(window.c)); }
  void outputs(auto each) const { each(dx, window.pixels()); }
};

/// loss(rows) = -log softmax(logits(rows, classes))[label]; dlogits (may be null) = scale * (softmax - onehot).
/// `correct` (may be null, rows) = 1 where the largest logit (the first of equals) is the label's. `dlogits` may be `logits`. A
/// label outside [0, classes) gives loss NaN.
struct softmax_cross_entropy {
  static constexpr auto name = "softmax_cross_entropy";
  const float* logits = nullptr;
  const std::int32_t* labels = nullptr;
  float scale = 1;
  float* loss = nullptr;
  float* dlogits = nullptr;
  std::int32_t* correct = nullptr;
  std::int64_t rows = 0, classes = 0;

  void inputs(auto each) const { each(logits, rows * classes), each(labels, rows); }
  void outputs(auto each) const { each(loss, rows), each(dlogits, rows * classes), each(correct, rows); }
};

/// Over the last axis of x(rows, columns).
struct softmax {
  static constexpr auto name = "softmax";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns); }
  void outputs(auto each) const { each(y, rows * columns); }
};

// -- optimizers

/// SGD with momentum over `count` elements, fused with the weighted sum of its gradients:
///   g = sum_i terms[i].weight * terms[i].data + weight_decay * p;  v' = momentum * v + g;
///   p' = p - lr * (nesterov ? g + momentum * v' : v').
/// `p_out` may equal `p` (in place); nothing else may overlap. `velocity` (updated in place) may be null when momentum is 0.
/// Terms are added in the order given: the same bits as weighted_sum and then a step with its result.
struct sgd {
  static constexpr auto name = "sgd";
  std::int64_t count = 0;
  std::span<const term> terms = {};
  const float* p = nullptr;
  float* p_out = nullptr;
  float* velocity = nullptr;
  const float* step_scalars = nullptr;
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
    each(p, count), each(static_cast<const float*>(velocity), count), each(step_scalars, optimizer_scalar_count);
  }
  void outputs(auto each) const { each(p_out, count), each(velocity, count); }
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), decoupled weight decay:
///   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p' = p - lr * (m/c1 / (sqrt(v/c2) + eps) + weight_decay * p).
/// g and aliasing are as in sgd, without the decay in g.
struct adamw {
  static constexpr auto name = "adamw";
  std::int64_t count = 0;
  std::span<const term> terms = {};
  const float* p = nullptr;
  float* p_out = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* step_scalars = nullptr;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
    each(p, count), each(m, count), each(v, count), each(step_scalars, optimizer_scalar_count);
  }
  void outputs(auto each) const { each(p_out, count), each(m, count), each(v, count); }
};

/// What a gradient lacks for being late, by its diagonal second-order term (DC-ASGD: Zheng et al. 2017, "Asynchronous
/// stochastic gradient descent with delay compensation", eq. 10):
///   g_out = g + lambda * g * g * (w - w_backup)
/// where g was computed at `w_backup` and the step will be taken from `w`, all elementwise. With `mean_square` (updated in place)
/// the adaptive form:
///   mean_square = decay * mean_square + (1 - decay) * g * g, and lambda / sqrt(mean_square + epsilon) instead of lambda.
/// `g_out` may equal `g`; nothing else may overlap. Where w equals w_backup, g_out is g.
struct delay_compensate {
  static constexpr auto name = "delay_compensate";
  std::int64_t count = 0;
  const float* g = nullptr;
  const float* w = nullptr;
  const float* w_backup = nullptr;
  float* g_out = nullptr;
  float* mean_square = nullptr; ///< null: the constant form
  float lambda = 0;
  float decay = 0.95F, epsilon = 1e-7F; ///< of the adaptive form

  void inputs(auto each) const { each(g, count), each(w, count), each(w_backup, count), each(mean_square, count); }
  void outputs(auto each) const { each(g_out, count), each(mean_square, count); }
};

/// y = sign(x) * max(|x| - threshold, 0), the proximal map of threshold * ||x||_1; NaN stays NaN. threshold >= 0.
struct soft_threshold {
  static constexpr auto name = "soft_threshold";
  const float* x = nullptr;
  float threshold = 0;
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(y, count); }
};

/// The closed set. Every implementation visits it, so a missing operation does not compile.
using operation =
    std::variant<gemm, conv2d, conv2d_backward, fill, unary, unary_backward, binary, axpby, bias_activation, dropout, sum_rows,
                 sum, weighted_sum, all_finite, layernorm, layernorm_backward, max_pool, max_pool_backward, avg_pool,
                 avg_pool_backward, softmax_cross_entropy, softmax, sgd, adamw, delay_compensate, soft_threshold>;

/// Calls each(pointer, elements) for every array that the operation reads.
template <class F>
void each_input(const operation& op, F each) {
  const auto present = [&](const auto* begin, std::int64_t elements) {
    if (begin)
      each(begin, elements);
  };
  std::visit([&](const auto& own) { own.inputs(present); }, op);
}

/// Calls each(pointer, elements) for every array that the operation writes.
template <class F>
void each_output(const operation& op, F each) {
  const auto present = [&](auto* begin, std::int64_t elements) {
    if (begin)
      each(begin, elements);
  };
  std::visit([&](const auto& own) { own.outputs(present); }, op);
}

/// "gemm": a literal.
const char* name_of(const operation& op);
/// Floating-point operations. A multiply-add of a product counts two. Everything else counts one for each element of its first
/// result: small beside the products, and there is no agreed count for an exponential.
double flops(const operation& op);
/// Bytes that it reads and writes, each array once.
double bytes_moved(const operation& op);
/// Asserts the caller's promises about shapes and pointers (TROUPE_ASSERT).
void validate(const operation& op);

class backend;

/// An operation that is enqueued later, with its own copy of the terms that it refers to.
class kept_operation {
public:
  explicit kept_operation(const operation& op);
  void enqueue_on(backend& queue) const;

private:
  operation op_;
  std::vector<term> terms_;
};

} // namespace troupe::kernels
