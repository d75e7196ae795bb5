// SPDX-License-Identifier: BSD-3-Clause
// The one interface between Troupe and a device: memory, copies, maths on memory, completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

/// A device failed (out of memory, lost, refused a launch). The compute actor that owns the backend dies with the reason.
struct device_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// It has no memory left. Whoever asked adds the sizes of what it wanted to keep there.
struct out_of_memory : device_error {
  using device_error::device_error;
};

/// Activation functions that gemm and conv2d can apply to their result in the same pass.
/// gelu is the tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016, eq. 2).
enum class activation : std::uint8_t { none, relu, tanh, sigmoid, gelu };

/// c(m,n) = act(alpha * op(a)(m,k) * op(b)(k,n) + beta * c + bias(n)); row-major. `bias` may be null. `pre`, when not null,
/// receives what enters the activation (the backward of gelu needs it); it must not overlap c. c is not read when beta is 0.
///
/// For speed on the CPU, store the weight of a linear layer as (outputs, inputs): forward with transpose_b, the weight's
/// gradient dy^T x and the input's gradient dy W are then each the fastest of their kind.
struct gemm_args {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;
  activation act = activation::none;
  float* pre = nullptr;
};

/// Geometry of a 2-d convolution or pooling over images (N, C, H, W); one stride and padding for both axes.
/// Output height is (H + 2 padding - kernel_h) / stride + 1, likewise width; what a stride leaves over is not looked at.
/// Pooling: padding < kernel_h and kernel_w, for a window of padding alone has no maximum and no mean. Of a convolution such a
/// window is 0 and the bias.
struct window2d {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t kernel_h = 0, kernel_w = 0, stride = 1, padding = 0;
  std::int64_t out_h() const { return (h + 2 * padding - kernel_h) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * padding - kernel_w) / stride + 1; }
};

/// y(N, K, OH, OW) = act(conv(x(N, C, H, W), weight(K, C, kh, kw)) + bias(K)). Cross-correlation, as in the field. `bias` may be
/// null.
struct conv2d_args {
  window2d window;
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  activation act = activation::none; ///< none or relu
};

/// Backward of conv2d: dx (may be null: a first layer needs none), dweight and dbias (may be null) are overwritten. `dy` is the
/// gradient of the result *before* the activation. At least one image.
struct conv2d_backward_args {
  window2d window;
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
};

/// Elementwise functions of one argument.
enum class unary_op : std::uint8_t { relu, tanh, sigmoid, gelu, exp, log, sqrt, square, negate, copy };
/// Elementwise functions of two arguments of the same length.
enum class binary_op : std::uint8_t { add, subtract, multiply, divide };

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

/// SGD with momentum over `count` elements, fused with the weighted sum of its gradients:
///   g = sum_i terms[i].weight * terms[i].data + weight_decay * p;  v' = momentum * v + g;
///   p' = p - lr * (nesterov ? g + momentum * v' : v').
/// `p_out` may equal `p` (in place); nothing else may overlap. `velocity` (updated in place) may be null when momentum is 0.
/// Terms are added in the order given: the same bits as weighted_sum and then a step with its result.
struct sgd_args {
  std::int64_t count = 0;
  std::span<const term> terms;
  const float* p = nullptr;
  float* p_out = nullptr;
  float* velocity = nullptr;
  const float* step_scalars = nullptr;
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), decoupled weight decay:
///   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p' = p - lr * (m/c1 / (sqrt(v/c2) + eps) + weight_decay * p).
/// g and aliasing are as in sgd_args, without the decay in g.
struct adamw_args {
  std::int64_t count = 0;
  std::span<const term> terms;
  const float* p = nullptr;
  float* p_out = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* step_scalars = nullptr;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;
};

/// What a gradient lacks for being late, by its diagonal second-order term (DC-ASGD: Zheng et al. 2017, "Asynchronous
/// stochastic gradient descent with delay compensation", eq. 10):
///   g_out = g + lambda * g * g * (w - w_backup)
/// where g was computed at `w_backup` and the step will be taken from `w`, all elementwise. With `mean_square` (updated in place)
/// the adaptive form:
///   mean_square = decay * mean_square + (1 - decay) * g * g, and lambda / sqrt(mean_square + epsilon) instead of lambda.
/// `g_out` may equal `g`; nothing else may overlap. Where w equals w_backup, g_out is g.
struct delay_compensate_args {
  std::int64_t count = 0;
  const float* g = nullptr;
  const float* w = nullptr;
  const float* w_backup = nullptr;
  float* g_out = nullptr;
  float* mean_square = nullptr; ///< null: the constant form
  float lambda = 0;
  float decay = 0.95F, epsilon = 1e-7F; ///< of the adaptive form
};

/// A recorded sequence of operations that can be enqueued again as one.
class program {
public:
  virtual ~program() = default;
};

/// One in-order queue of work on one device, with that device's memory.
///
/// Every operation *enqueues* and may return before it has run; operations of one backend run in the order in which they
/// were enqueued. Pointers are addresses in the device's memory and must stay valid until the operation has run; the
/// argument structs and spans are read before the call returns. The CPU backend runs each operation inside the call.
/// Not thread-safe: one thread at a time enqueues. Shapes are the caller's promise: a broken one is a TROUPE_ASSERT, not an
/// error.
///
/// Results repeat: the same operands give the same bits at every call, in every process on the same kind of device with the same
/// number of threads. What is elementwise (weighted_sum and the optimizers too) gives each element bits that do not depend on its
/// place in the buffer or on the buffer's length, so that a parameter may be cut into partitions anywhere.
class backend {
public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
  virtual ~backend() = default;

  /// "cpu" or "cuda:0", as in a job file.
  virtual std::string_view name() const = 0;
  /// Whether the host may read and write the device's memory itself: then nothing needs copying, and all copies are plain ones.
  virtual bool on_host() const = 0;

  // -- memory: thread-safe; throws out_of_memory when the device has none left

  /// A block of the device's memory from this backend's pool. Contents unspecified, padding zeroed. The block may outlive the
  /// backend and its last handle may die on any thread, but not before what was enqueued on it has run.
  virtual buffer allocate(std::size_t bytes) = 0;
  /// A block of host memory that this device copies at full speed (pinned for a GPU). Thread-safe.
  virtual buffer allocate_host(std::size_t bytes) = 0;

  // -- copies and completion: both ends stay valid until the copy has run

  /// Within the device; `source` may also be memory of another device of its kind, in this process.
  virtual void copy(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void copy_from_host(void* destination, const void* source, std::size_t bytes) = 0; ///< host to device
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes) = 0;   ///< device to host
  virtual void fill(float* destination, float value, std::int64_t count) = 0;

  // -- copies beside the queue: they begin at once, so that they hide behind what the queue computes. Never in a recorded program

  /// device to host. What is read was written by something whose `notify` has been called. Calls `done` as `notify` does.
  virtual void fetch(void* destination, const void* source, std::size_t bytes, std::function<void()> done) = 0;
  /// host to device. What is enqueued after this call runs after the copy; nothing enqueued before it uses `destination`.
  virtual void stage(void* destination, const void* source, std::size_t bytes) = 0;

  /// Calls `done` once everything enqueued before has run. On whatever thread the device chooses: it must only send a
  /// message or set a flag, and must not call the backend.
  virtual void notify(std::function<void()> done) = 0;
  /// Records what `enqueue` enqueues (notifications included) without running it. A backend may call `enqueue` now and keep the
  /// operations, or keep the function and call it at each replay: it must enqueue the same every time, and what it refers to
  /// outlives the program.
  virtual std::unique_ptr<program> capture(std::function<void()> enqueue) = 0;
  /// Enqueues a recorded program again.
  virtual void replay(program& recorded) = 0;
  /// Waits until everything enqueued has run. For tests, benchmarks and command-line tools only.
  virtual void synchronize() = 0;

  // -- dense algebra

  virtual void gemm(const gemm_args& args) = 0;
  virtual void conv2d(const conv2d_args& args) = 0;
  virtual void conv2d_backward(const conv2d_backward_args& args) = 0;

  // -- elementwise (in place where out == in)

  virtual void unary(unary_op op, const float* x, float* y, std::int64_t count) = 0;
  /// dx = dy * f'(x). relu, tanh and sigmoid take `y` (x may be null), the others `x` (y may be null).
  virtual void unary_backward(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t count) = 0;
  virtual void binary(binary_op op, const float* a, const float* b, float* y, std::int64_t count) = 0;
  /// y = alpha * x + beta * y (y is not read when beta is 0).
  virtual void axpby(float alpha, const float* x, float beta, float* y, std::int64_t count) = 0;
  /// y(rows, columns) = act(x + bias(columns)).
  virtual void bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows,
                               std::int64_t columns) = 0;
  /// Inverted dropout of x(rows, columns): y = keep ? x / (1 - rate) : 0, where element (r, c) is kept if random_uniform(k, c) >=
  /// rate (random.hpp), and k is `*key` with `layer` added to its stream and r to its step: a row's mask is its own, whatever
  /// other rows are computed with it. The key lies in the device's memory, so that a recorded program can be replayed with that
  /// of other rows. Its backward is the same call on the gradient. 0 <= rate < 1, rows * columns <= 2^32.
  virtual void dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, const random_key* key,
                       std::uint32_t layer) = 0;

  // -- reductions (fixed order: the same inputs give the same bits)

  /// y(columns) = sum over rows of x(rows, columns). A bias gradient.
  virtual void sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns) = 0;
  /// *result = sum of x, accumulated in double, stored as float.
  virtual void sum(const float* x, std::int64_t count, float* result) = 0;
  /// y = sum_i weight_i * terms_i, in the order given; weights are rounded to float. At least one term; `y` may alias the first.
  virtual void weighted_sum(std::span<const term> terms, float* y, std::int64_t count) = 0;
  /// *flag = 1 where every element is finite, else 0.
  virtual void all_finite(const float* x, std::int64_t count, std::int32_t* flag) = 0;

  // -- normalisation, pooling, loss

  /// Over the last axis of x(rows, columns): y = gamma * (x - mean) * rstd + beta; mean and rstd (rows) are written.
  virtual void layernorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean, float* rstd,
                         std::int64_t rows, std::int64_t columns) = 0;
  /// dx, dgamma and dbeta are overwritten; mean and rstd are the forward's.
  virtual void layernorm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy,
                                  float* dx, float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns) = 0;
  /// y = the maximum of each window, argmax = its index within the image plane (h*w). The first of equals wins; padding never
  /// does, NaN (the last of several) always.
  virtual void max_pool(const window2d& window, const float* x, float* y, std::int32_t* argmax) = 0;
  virtual void max_pool_backward(const window2d& window, const std::int32_t* argmax, const float* dy, float* dx) = 0;
  /// Mean over the window's elements inside the image (padding is not counted).
  virtual void avg_pool(const window2d& window, const float* x, float* y) = 0;
  virtual void avg_pool_backward(const window2d& window, const float* dy, float* dx) = 0;
  /// loss(rows) = -log softmax(logits(rows, classes))[label]; dlogits (may be null) = scale * (softmax - onehot).
  /// `correct` (may be null, rows) = 1 where the largest logit (the first of equals) is the label's. `dlogits` may be `logits`. A
  /// label outside [0, classes) gives loss NaN.
  virtual void softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                                     std::int32_t* correct, std::int64_t rows, std::int64_t classes) = 0;
  /// Over the last axis; in place where y == x.
  virtual void softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) = 0;

  // -- optimizers

  virtual void sgd(const sgd_args& args) = 0;
  virtual void adamw(const adamw_args& args) = 0;
  virtual void delay_compensate(const delay_compensate_args& args) = 0;
  /// y = sign(x) * max(|x| - threshold, 0), the proximal map of threshold * ||x||_1; NaN stays NaN. threshold >= 0; y may be x.
  virtual void soft_threshold(const float* x, float threshold, float* y, std::int64_t count) = 0;
};

/// What products of matrices and convolutions are computed with on a GPU; everything is stored, and summed, as fp32.
///   fp32: every multiplication in float32.  tf32: operands rounded to 10 bits of mantissa by the tensor cores.
///   bf16: operands rounded to bfloat16 (Micikevicius et al. 2018, with fp32 master weights; no loss scaling is needed: the
///   exponent is fp32's).
/// The CPU computes in fp32 whatever is asked for.
enum class precision : std::uint8_t { fp32, tf32, bf16 };

/// Something that a device was busy with, for a trace. Times are the host's steady clock, in nanoseconds.
struct device_span {
  enum class track : std::uint8_t { compute, to_host, to_device } where = track::compute;
  const char* name = ""; ///< "gemm", "copy"; a literal
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0; ///< of a copy
};

/// What a backend is opened with.
struct backend_options {
  std::string device = "cpu";   ///< "cpu" | "cuda" | "cuda:N"
  int threads = 1;              ///< BLAS and oneDNN threads of this queue (CPU)
  std::uint64_t pool_bytes = 0; ///< how much freed memory the pool keeps; 0: all of it
  precision products = precision::fp32;
  /// Hears of every operation and copy of a device that is not the host, once it has run; on any thread. Costs an event an
  /// operation.
  std::function<void(const device_span&)> on_span = {};
};

/// Opens a queue on a device. On the CPU, OpenBLAS has one thread count in a process: that of the backend opened last. Throws
/// device_error, with a reason a person can act on, where the device cannot be used.
std::unique_ptr<backend> open_backend(const backend_options& options);

/// One row of `troupe devices`.
struct device_info {
  std::string name = {};   ///< "cpu", "cuda:0"; "cuda" where none can be told apart
  std::string detail = {}; ///< model, cores, memory
  bool usable = true;
  std::string reason = {}; ///< why not, where it is not
  std::uint64_t memory_bytes = 0, free_bytes = 0;
  std::string capability = {}; ///< "9.0"; of a GPU
  std::string driver = {};     ///< its version; of a GPU
};
/// The host first. Without `accelerators` the host alone, and nothing is loaded to look for others.
std::vector<device_info> list_devices(bool accelerators = true);

} // namespace troupe::kernels
