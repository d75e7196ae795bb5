// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend's mathematics: checks what the caller promised, enqueues kernels, and keeps note of what they write.
#include <algorithm>

#include "kernels/assert.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

void check_window(const window2d& w) {
  TROUPE_ASSERT(w.n >= 0 && w.c > 0 && w.stride > 0 && w.padding >= 0);
  TROUPE_ASSERT(w.h + 2 * w.padding >= w.kernel_h && w.w + 2 * w.padding >= w.kernel_w);
  TROUPE_ASSERT(w.h * w.w <= INT32_MAX);
}

void check_pooling(const window2d& w) {
  check_window(w);
  TROUPE_ASSERT(w.padding < w.kernel_h && w.padding < w.kernel_w); // else a window lies in the padding alone
}

void check_terms(std::span<const term> terms) {
  TROUPE_ASSERT(!terms.empty());
  TROUPE_ASSERT(std::all_of(terms.begin(), terms.end(), [](const term& t) { return t.data != nullptr; }));
}

std::int64_t outputs(const window2d& w, std::int64_t channels) {
  return w.n * channels * w.out_h() * w.out_w();
}

std::int64_t pixels(const window2d& w) {
  return w.n * w.c * w.h * w.w;
}

} // namespace

void cuda_backend::fill(float* destination, float value, std::int64_t count) {
  compute("fill", [&] { cuda::fill(compute_, destination, value, count); });
  writes(destination, count);
}

void cuda_backend::gemm(const gemm_args& args) {
  compute("gemm", [&] { products_.gemm(args); });
  writes(args.c, args.m * args.n);
  if (args.pre)
    writes(args.pre, args.m * args.n);
}

void cuda_backend::conv2d(const conv2d_args& args) {
  check_window(args.window);
  TROUPE_ASSERT(args.act == activation::none || args.act == activation::relu);
  if (args.window.n == 0)
    return;
  compute("conv2d", [&] { convolutions_->forward(args); });
  writes(args.y, outputs(args.window, args.out_channels));
}

void cuda_backend::conv2d_backward(const conv2d_backward_args& args) {
  check_window(args.window);
  TROUPE_ASSERT(args.window.n > 0);
  compute("conv2d_backward", [&] { convolutions_->backward(args); });
  writes(args.dweight, args.out_channels * args.window.c * args.window.kernel_h * args.window.kernel_w);
  if (args.dx)
    writes(args.dx, pixels(args.window));
  if (args.dbias)
    writes(args.dbias, args.out_channels);
}

void cuda_backend::unary(unary_op op, const float* x, float* y, std::int64_t count) {
  compute("unary", [&] { cuda::unary(compute_, op, x, y, count); });
  writes(y, count);
}

void cuda_backend::unary_backward(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t count) {
  compute("unary_backward", [&] { cuda::unary_backward(compute_, op, x, y, dy, dx, count); });
  writes(dx, count);
}

void cuda_backend::binary(binary_op op, const float* a, const float* b, float* y, std::int64_t count) {
  compute("binary", [&] { cuda::binary(compute_, op, a, b, y, count); });
  writes(y, count);
}

void cuda_backend::axpby(float alpha, const float* x, float beta, float* y, std::int64_t count) {
  compute("axpby", [&] { cuda::axpby(compute_, alpha, x, beta, y, count); });
  writes(y, count);
}

void cuda_backend::bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows,
                                   std::int64_t columns) {
  compute("bias_activation", [&] { cuda::bias_activation(compute_, x, bias, act, y, rows, columns); });
  writes(y, rows * columns);
}

void cuda_backend::dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, const random_key* key,
                           std::uint32_t layer) {
  TROUPE_ASSERT(rate >= 0 && rate < 1);
  compute("dropout", [&] { cuda::dropout(compute_, x, y, rows, columns, rate, key, layer); });
  writes(y, rows * columns);
}

void cuda_backend::sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  compute("sum_rows", [&] {
    cuda::sum_rows(compute_, x, y, rows, columns, scratch_.get(scratch::reduction, sum_rows_scratch(rows, columns)));
  });
  writes(y, columns);
}

void cuda_backend::sum(const float* x, std::int64_t count, float* result) {
  compute("sum", [&] { cuda::sum(compute_, x, count, result, scratch_.get(scratch::reduction, sum_scratch(count))); });
  writes(result, 1);
}

void cuda_backend::weighted_sum(std::span<const term> terms, float* y, std::int64_t count) {
  check_terms(terms);
  compute("weighted_sum", [&] {
    const float* carry = nullptr; // y itself after the first piece: it may be the first term, but no other
    for (; !terms.empty(); terms = terms.subspan(std::min(terms.size(), terms_at_once))) {
      cuda::weighted_sum(compute_, terms.first(std::min(terms.size(), terms_at_once)), carry, y, count);
      carry = y;
    }
  });
  writes(y, count);
}

void cuda_backend::all_finite(const float* x, std::int64_t count, std::int32_t* flag) {
  compute("all_finite", [&] { cuda::all_finite(compute_, x, count, flag); });
  writes(flag, 1);
}

void cuda_backend::layernorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean,
                             float* rstd, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0);
  compute("layernorm", [&] { cuda::layernorm(compute_, x, gamma, beta, epsilon, y, mean, rstd, rows, columns); });
  writes(y, rows * columns);
  writes(mean, rows);
  writes(rstd, rows);
}

void cuda_backend::layernorm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy,
                                      float* dx, float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0);
  compute("layernorm_backward", [&] {
    float* partial = scratch_.get(scratch::reduction, layernorm_backward_scratch(rows, columns));
    cuda::layernorm_backward(compute_, x, gamma, mean, rstd, dy, dx, dgamma, dbeta, rows, columns, partial);
  });
  writes(dx, rows * columns);
  writes(dgamma, columns);
  writes(dbeta, columns);
}

void cuda_backend::max_pool(const window2d& window, const float* x, float* y, std::int32_t* argmax) {
  check_pooling(window);
  compute("max_pool", [&] { cuda::max_pool(compute_, window, x, y, argmax); });
  writes(y, outputs(window, window.c));
  writes(argmax, outputs(window, window.c));
}

void cuda_backend::max_pool_backward(const window2d& window, const std::int32_t* argmax, const float* dy, float* dx) {
  check_pooling(window);
  compute("max_pool_backward", [&] { cuda::max_pool_backward(compute_, window, argmax, dy, dx); });
  writes(dx, pixels(window));
}

void cuda_backend::avg_pool(const window2d& window, const float* x, float* y) {
  check_pooling(window);
  compute("avg_pool", [&] { cuda::avg_pool(compute_, window, x, y); });
  writes(y, outputs(window, window.c));
}

void cuda_backend::avg_pool_backward(const window2d& window, const float* dy, float* dx) {
  check_pooling(window);
  compute("avg_pool_backward", [&] { cuda::avg_pool_backward(compute_, window, dy, dx); });
  writes(dx, pixels(window));
}

void cuda_backend::softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss,
                                         float* dlogits, std::int32_t* correct, std::int64_t rows, std::int64_t classes) {
  TROUPE_ASSERT(classes > 0 && classes <= INT32_MAX);
  compute("softmax_cross_entropy",
          [&] { cuda::softmax_cross_entropy(compute_, logits, labels, scale, loss, dlogits, correct, rows, classes); });
  writes(loss, rows);
  if (dlogits)
    writes(dlogits, rows * classes);
  if (correct)
    writes(correct, rows);
}

void cuda_backend::softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  TROUPE_ASSERT(columns > 0 && columns <= INT32_MAX);
  compute("softmax", [&] { cuda::softmax(compute_, x, y, rows, columns); });
  writes(y, rows * columns);
}

const float* cuda_backend::sum_first_terms(std::span<const term>& terms, std::int64_t count) {
  float* carry = nullptr;
  while (terms.size() > terms_at_once) {
    float* sum = scratch_.get(scratch::carry, count);
    cuda::weighted_sum(compute_, terms.first(terms_at_once), carry, sum, count);
    terms = terms.subspan(terms_at_once);
    carry = sum;
  }
  return carry;
}

void cuda_backend::sgd(const sgd_args& args) {
  check_terms(args.terms);
  TROUPE_ASSERT(args.velocity != nullptr || args.momentum == 0);
  compute("sgd", [&] {
    auto last = args;
    const float* carry = sum_first_terms(last.terms, args.count);
    cuda::sgd(compute_, last, carry);
  });
  writes(args.p_out, args.count);
  if (args.velocity)
    writes(args.velocity, args.count);
}

void cuda_backend::adamw(const adamw_args& args) {
  check_terms(args.terms);
  compute("adamw", [&] {
    auto last = args;
    const float* carry = sum_first_terms(last.terms, args.count);
    cuda::adamw(compute_, last, carry);
  });
  writes(args.p_out, args.count);
  writes(args.m, args.count);
  writes(args.v, args.count);
}

void cuda_backend::delay_compensate(const delay_compensate_args& args) {
  compute("delay_compensate", [&] { cuda::delay_compensate(compute_, args); });
  writes(args.g_out, args.count);
  if (args.mean_square)
    writes(args.mean_square, args.count);
}

void cuda_backend::soft_threshold(const float* x, float threshold, float* y, std::int64_t count) {
  TROUPE_ASSERT(threshold >= 0);
  compute("soft_threshold", [&] { cuda::soft_threshold(compute_, x, threshold, y, count); });
  writes(y, count);
}

} // namespace troupe::kernels::cuda
