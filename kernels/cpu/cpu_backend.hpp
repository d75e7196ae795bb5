// SPDX-License-Identifier: BSD-3-Clause
// The CPU backend: every operation runs inside its call.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cpu/conv2d.hpp"
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/loops/table.hpp"
#include "kernels/cpu/memory_pool.hpp"
#include "kernels/operations/merged.hpp"

namespace troupe::kernels {

/// The implementations that the CPU backend uses. The defaults suit this processor best; tests choose the others.
struct cpu_options {
  int threads = 1;              ///< of OpenBLAS and oneDNN
  std::uint64_t pool_bytes = 0; ///< see backend_options
  instruction_set loops = best_instruction_set();
  gemm_library gemm = best_gemm_library();
};

/// `backend` on host memory. Operations are complete when their call returns, and `notify` calls back at once.
///
/// Threads: OpenBLAS has one thread count in a process, which the constructor sets; oneDNN's is OpenMP's, which belongs to the
/// calling thread, so each operation sets it again. A backend may thus be made on one thread and used on another. All results
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

  void enqueue(const operation& op) override;
  void copy(void* destination, const void* source, std::size_t bytes) override;
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }

  void download(void* destination, const void* source, std::size_t bytes, std::function<void()> done) override {
    copy(destination, source, bytes);
    done();
  }
  void upload(void* destination, const void* source, std::size_t bytes) override { copy(destination, source, bytes); }
  void notify(std::function<void()> done) override;
  std::unique_ptr<program> capture(std::function<void()> work) override;
  void replay(program& recorded) override;
  void synchronize() override {}

private:
  class compute_mode;
  class recording;

  /// A loop of ours for everything that no library computes, with the scratch memory that it wants.
  template <class Op>
  void run(const Op& op) {
    if constexpr (requires { scratch_floats(op); })
      loops_(with_scratch<Op>{op, scratch(scratch_floats(op))});
    else
      loops_(op);
  }
  void run(const broadcast_binary& op) { loops_(merged(op)); }
  void run(const copy_strided& op) { loops_(merged(op)); }
  void run(const sum_axes& op) { loops_(merged(op)); }
  void run(const gemm& op) { gemm_.run(op); }
  void run(const batched_gemm& op) { gemm_.run(op); }
  void run(const lstm_backward& op); ///< recurrent.cpp
  void run(const gru_backward& op);
  void run(const conv2d& op) { conv2d_.forward(op); }
  void run(const conv2d_backward& op) { conv2d_.backward(op); }

  /// At least this many floats, until the next call.
  float* scratch(std::int64_t floats);

  cpu_options options_;
  std::shared_ptr<memory_pool> pool_;
  const loop_table& loops_;
  gemm_runner gemm_;
  conv2d_runner conv2d_;
  buffer scratch_;
  recording* recorded_ = nullptr; ///< what is enqueued goes there, while there is a capture
};

} // namespace troupe::kernels
