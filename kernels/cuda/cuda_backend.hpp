// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend: what enqueues.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/scratch.hpp"
#include "kernels/cuda/shadows.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/timeline.hpp"

namespace troupe::kernels::cuda {

/// `backend` on one CUDA device. Four streams: everything in the queue's order runs on `compute`; `fetch` and `stage` have one
/// each, so that copies run beside it; host functions run on `callbacks`, which waits for `compute` and is waited for by nothing,
/// so that the device never stands still for the host.
///
/// A recorded program is a CUDA graph; where something in it cannot be captured, or every operation is to be timed (`on_span`),
/// it is the function that was given, called again at each replay.
///
/// Any failing call throws device_error and leaves the object fit for nothing but being destroyed.
class cuda_backend final : public backend {
public:
  /// The device must be there.
  cuda_backend(int device, const backend_options& options);
  /// Waits for what is under way, so that no callback is lost and no buffer is freed in use.
  ~cuda_backend() override;

  std::string_view name() const override { return name_; }
  bool on_host() const override { return false; }

  buffer allocate(std::size_t bytes) override { return device_pool_->allocate(bytes); }
  buffer allocate_host(std::size_t bytes) override { return host_pool_->allocate(bytes); }

  void copy(void* destination, const void* source, std::size_t bytes) override;
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override;
  void fill(float* destination, float value, std::int64_t count) override;

  void fetch(void* destination, const void* source, std::size_t bytes, std::function<void()> done) override;
  void stage(void* destination, const void* source, std::size_t bytes) override;
  void notify(std::function<void()> done) override;
  std::unique_ptr<program> capture(std::function<void()> enqueue) override;
  void replay(program& recorded) override;
  void synchronize() override;

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
  class graph_program;
  struct function_program;

  /// Makes the device current, and `enqueue()`s on `where` as one span.
  template <class F>
  void enqueue(cudaStream_t where, const device_span& what, F enqueue) {
    TROUPE_CUDA(cudaSetDevice(device_));
    timeline_.begin(where);
    enqueue();
    timeline_.end(where, what);
  }
  template <class F>
  void compute(const char* name, F enqueue) {
    this->enqueue(compute_, {.name = name}, enqueue);
  }
  /// What has been enqueued writes `floats` floats from `begin` on.
  void writes(const void* begin, std::int64_t floats) {
    shadows_.written(begin, static_cast<std::size_t>(floats) * sizeof(float));
  }
  /// All but the last few of the terms, summed into scratch: what the kernel with the last few starts from.
  const float* sum_first_terms(std::span<const term>& terms, std::int64_t count);
  void reach(const void* source);
  std::unique_ptr<program> record(const std::function<void()>& enqueue);

  const int device_;
  const std::string name_;
  std::shared_ptr<block_pool> device_pool_, host_pool_;
  stream compute_, to_host_, to_device_, callbacks_;
  event staged_, computed_, called_;
  timeline timeline_;
  scratch scratch_;
  shadows shadows_;
  products products_;
  std::unique_ptr<convolution_library> convolutions_;
  graph_program* recording_ = nullptr; ///< what `notify` adds to, while there is a capture
  bool callbacks_pending_ = false;     ///< since the last replay
  std::uint64_t peers_ = 0;            ///< devices whose memory this one can read, a bit each
};

/// The number in "cuda:N". Throws device_error where the text is another, or where the device cannot be used, with the reason.
int usable_device(std::string_view name);

} // namespace troupe::kernels::cuda
