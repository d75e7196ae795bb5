// SPDX-License-Identifier: BSD-3-Clause
// The CPU backend: every operation runs inside its call.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cpu/conv2d.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/loops/table.hpp"
#include "kernels/cpu/memory_pool.hpp"

namespace troupe::kernels {

/// What the CPU backend computes with. The defaults are what this processor does best; tests ask for the rest.
struct cpu_options {
  int threads = 1;              ///< of OpenBLAS and oneDNN
  std::uint64_t pool_bytes = 0; ///< see backend_options
  instruction_set loops = best_instruction_set();
  gemm_library gemm = best_gemm_library();
};

/// `backend` on host memory. Operations are complete when their call returns, `notify` calls back at once, and a recorded
/// program is the function that was recorded.
///
/// Threads: OpenBLAS has one thread count in a process, which the constructor sets; oneDNN's is OpenMP's, which belongs to the
/// calling thread, so each operation sets it anew. A backend may thus be made on one thread and used on another. All results
/// are the same on every run for one thread count, and may differ between thread counts.
///
/// Denormals: every operation treats them as zero (and restores the thread's mode). A velocity that decays in a dead unit would
/// otherwise stay at the smallest denormal for ever, at a hundred cycles an operation.
class cpu_backend final : public backend {
public:
  explicit cpu_backend(const cpu_options& options);
  ~cpu_backend() override;

  std::string_view name() const override { return "cpu"; }
  bool on_host() const override { return true; }
  const cpu_options& options() const { return options_; }

  buffer allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  buffer allocate_host(std::size_t bytes) override { return pool_->allocate(bytes); }

  void copy(void* destination, const void* source, std::size_t bytes) override;
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }
  void fill(float* destination, float value, std::int64_t count) override;

  void fetch(void* destination, const void* source, std::size_t bytes, std::function<void()> done) override {
    copy(destination, source, bytes);
    done();
  }
  void stage(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }
  void notify(std::function<void()> done) override { done(); }
  std::unique_ptr<program> capture(std::function<void()> enqueue) override;
  void replay(program& recorded) override;
  void synchronize() override {}

  void gemm(const gemm_args& args) override;
  void conv2d(const conv2d_args& args) override;
  void conv2d_backward(const conv2d_backward_args& args) override;

  void unary(unary_op op, const float* x, float* y, std::int64_t count) override;
  void unary_backward(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t count) override;
  void binary(binary_op op, const float* a, const float* b, float* y, std::int64_t count) override;
  void axpby(float alpha, const float* x, float beta, float* y, std::int64_t count) override;
  void bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows,
                       std::int64_t columns) override;
  void dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, const random_key* key,
               std::uint32_t layer) override;

  void sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns) override;
  void sum(const float* x, std::int64_t count, float* result) override;
  void weighted_sum(std::span<const term> terms, float* y, std::int64_t count) override;
  void all_finite(const float* x, std::int64_t count, std::int32_t* flag) override;

  void layernorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean, float* rstd,
                 std::int64_t rows, std::int64_t columns) override;
  void layernorm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx,
                          float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns) override;
  void max_pool(const window2d& window, const float* x, float* y, std::int32_t* argmax) override;
  void max_pool_backward(const window2d& window, const std::int32_t* argmax, const float* dy, float* dx) override;
  void avg_pool(const window2d& window, const float* x, float* y) override;
  void avg_pool_backward(const window2d& window, const float* dy, float* dx) override;
  void softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                             std::int32_t* correct, std::int64_t rows, std::int64_t classes) override;
  void softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) override;

  void sgd(const sgd_args& args) override;
  void adamw(const adamw_args& args) override;
  void delay_compensate(const delay_compensate_args& args) override;
  void soft_threshold(const float* x, float threshold, float* y, std::int64_t count) override;

private:
  class compute_mode;

  cpu_options options_;
  std::shared_ptr<memory_pool> pool_;
  const loop_table& loops_;
  gemm_runner gemm_;
  conv2d_runner conv2d_;
};

} // namespace troupe::kernels
