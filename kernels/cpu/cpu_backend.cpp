// SPDX-License-Identifier: BSD-3-Clause
// The CPU backend: checks what the caller promised, sets the thread's mode, and hands over to the loops and libraries.
#include "kernels/cpu/cpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <cblas.h>
#include <omp.h>
#include <xmmintrin.h>

#include "kernels/assert.hpp"

/// OpenBLAS's own handler of fork; every entry point starts the threads again should they be wanted. Weak: other builds of the
/// library may lack it.
extern "C" [[gnu::weak]] int blas_thread_shutdown_();

namespace troupe::kernels {

namespace {

/// OpenBLAS starts a thread for every core when it is loaded. A process whose first backend asks for one thread ends them:
/// nothing but idle threads would be left, but of those as many as the machine has cores.
void set_openblas_threads(int threads) {
  if (openblas_get_num_threads() != threads) // setting it starts ended threads again, wanted or not
    openblas_set_num_threads(threads);
  static std::once_flag first; // later another backend might be using them
  std::call_once(first, [threads] {
    if (threads == 1 && blas_thread_shutdown_ != nullptr)
      blas_thread_shutdown_();
  });
}

/// What the CPU records: the function itself.
struct cpu_program final : program {
  explicit cpu_program(std::function<void()> f) : run(std::move(f)) {}
  std::function<void()> run;
};

void check(const window2d& w) {
  TROUPE_ASSERT(w.n >= 0 && w.c > 0 && w.stride > 0 && w.padding >= 0);
  TROUPE_ASSERT(w.h + 2 * w.padding >= w.kernel_h && w.w + 2 * w.padding >= w.kernel_w);
  TROUPE_ASSERT(w.h * w.w <= INT32_MAX);
}

void check_pooling(const window2d& w) {
  check(w);
  TROUPE_ASSERT(w.padding < w.kernel_h && w.padding < w.kernel_w); // else a window lies in the padding alone
}

void check(std::span<const term> terms) {
  TROUPE_ASSERT(!terms.empty());
  TROUPE_ASSERT(std::all_of(terms.begin(), terms.end(), [](const term& t) { return t.data != nullptr; }));
}

} // namespace

/// While it lives, this thread flushes denormals to zero and starts as many OpenMP threads as the job asked for.
class cpu_backend::compute_mode {
public:
  explicit compute_mode(const cpu_options& options) : saved_(_mm_getcsr()) {
    constexpr unsigned flush_results = 1U << 15, denormals_are_zero = 1U << 6;
    _mm_setcsr(saved_ | flush_results | denormals_are_zero);
    omp_set_num_threads(options.threads);
  }
  compute_mode(const compute_mode&) = delete;
  compute_mode& operator=(const compute_mode&) = delete;
  ~compute_mode() { _mm_setcsr(saved_); }

private:
  unsigned saved_;
};

cpu_backend::cpu_backend(const cpu_options& options)
    : options_(options), pool_(memory_pool::create(options.pool_bytes)), loops_(loops_for(options.loops)),
      gemm_(options.gemm, loops_), conv2d_(pool_) {
  TROUPE_ASSERT(options.threads > 0);
  set_openblas_threads(options.threads);
}

cpu_backend::~cpu_backend() = default;

void cpu_backend::copy(void* destination, const void* source, std::size_t bytes) {
  if (bytes > 0 && destination != source)
    std::memcpy(destination, source, bytes);
}

std::unique_ptr<program> cpu_backend::capture(std::function<void()> enqueue) {
  return std::make_unique<cpu_program>(std::move(enqueue));
}

void cpu_backend::replay(program& recorded) {
  auto* own = dynamic_cast<cpu_program*>(&recorded);
  TROUPE_ASSERT(own != nullptr);
  own->run();
}

void cpu_backend::fill(float* destination, float value, std::int64_t count) {
  loops_.fill(destination, value, count);
}

void cpu_backend::gemm(const gemm_args& args) {
  const compute_mode mode(options_);
  gemm_.run(args);
}

void cpu_backend::conv2d(const conv2d_args& args) {
  check(args.window);
  const compute_mode mode(options_);
  conv2d_.forward(args);
}

void cpu_backend::conv2d_backward(const conv2d_backward_args& args) {
  check(args.window);
  const compute_mode mode(options_);
  conv2d_.backward(args);
}

void cpu_backend::unary(unary_op op, const float* x, float* y, std::int64_t count) {
  const compute_mode mode(options_);
  loops_.unary(op, x, y, count);
}

void cpu_backend::unary_backward(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t count) {
  const compute_mode mode(options_);
  loops_.unary_backward(op, x, y, dy, dx, count);
}

void cpu_backend::binary(binary_op op, const float* a, const float* b, float* y, std::int64_t count) {
  const compute_mode mode(options_);
  loops_.binary(op, a, b, y, count);
}

void cpu_backend::axpby(float alpha, const float* x, float beta, float* y, std::int64_t count) {
  const compute_mode mode(options_);
  loops_.axpby(alpha, x, beta, y, count);
}

void cpu_backend::bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows,
                                  std::int64_t columns) {
  const compute_mode mode(options_);
  loops_.bias_activation(x, bias, act, y, rows, columns);
}

void cpu_backend::dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, const random_key* key,
                          std::uint32_t layer) {
  TROUPE_ASSERT(rate >= 0 && rate < 1);
  const compute_mode mode(options_);
  if (rows > 0 && columns > 0)
    loops_.dropout(x, y, rows, columns, rate, key->of_layer(layer));
}

void cpu_backend::sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  const compute_mode mode(options_);
  loops_.sum_rows(x, y, rows, columns);
}

void cpu_backend::sum(const float* x, std::int64_t count, float* result) {
  const compute_mode mode(options_);
  *result = loops_.sum(x, count);
}

void cpu_backend::weighted_sum(std::span<const term> terms, float* y, std::int64_t count) {
  check(terms);
  const compute_mode mode(options_);
  loops_.weighted_sum(terms.data(), std::ssize(terms), y, count);
}

void cpu_backend::all_finite(const float* x, std::int64_t count, std::int32_t* flag) {
  *flag = loops_.all_finite(x, count) ? 1 : 0;
}

void cpu_backend::layernorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean,
                            float* rstd, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0);
  const compute_mode mode(options_);
  loops_.layernorm(x, gamma, beta, epsilon, y, mean, rstd, rows, columns);
}

void cpu_backend::layernorm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy,
                                     float* dx, float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0);
  const compute_mode mode(options_);
  loops_.layernorm_backward(x, gamma, mean, rstd, dy, dx, dgamma, dbeta, rows, columns);
}

void cpu_backend::max_pool(const window2d& window, const float* x, float* y, std::int32_t* argmax) {
  check_pooling(window);
  loops_.max_pool(window, x, y, argmax);
}

void cpu_backend::max_pool_backward(const window2d& window, const std::int32_t* argmax, const float* dy, float* dx) {
  check_pooling(window);
  const compute_mode mode(options_);
  loops_.max_pool_backward(window, argmax, dy, dx);
}

void cpu_backend::avg_pool(const window2d& window, const float* x, float* y) {
  check_pooling(window);
  const compute_mode mode(options_);
  loops_.avg_pool(window, x, y);
}

void cpu_backend::avg_pool_backward(const window2d& window, const float* dy, float* dx) {
  check_pooling(window);
  const compute_mode mode(options_);
  loops_.avg_pool_backward(window, dy, dx);
}

void cpu_backend::softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                                        std::int32_t* correct, std::int64_t rows, std::int64_t classes) {
  TROUPE_ASSERT(classes > 0);
  const compute_mode mode(options_);
  loops_.softmax_cross_entropy(logits, labels, scale, loss, dlogits, correct, rows, classes);
}

void cpu_backend::softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0);
  const compute_mode mode(options_);
  loops_.softmax(x, y, rows, columns);
}

void cpu_backend::sgd(const sgd_args& args) {
  check(args.terms);
  TROUPE_ASSERT(args.velocity != nullptr || args.momentum == 0);
  const compute_mode mode(options_);
  loops_.sgd(args, args.terms.data(), std::ssize(args.terms));
}

void cpu_backend::adamw(const adamw_args& args) {
  check(args.terms);
  const compute_mode mode(options_);
  loops_.adamw(args, args.terms.data(), std::ssize(args.terms));
}

void cpu_backend::delay_compensate(const delay_compensate_args& args) {
  const compute_mode mode(options_);
  loops_.delay_compensate(args);
}

void cpu_backend::soft_threshold(const float* x, float threshold, float* y, std::int64_t count) {
  TROUPE_ASSERT(threshold >= 0);
  const compute_mode mode(options_);
  loops_.soft_threshold(x, threshold, y, count);
}

} // namespace troupe::kernels
