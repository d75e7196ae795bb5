// SPDX-License-Identifier: BSD-3-Clause
// A queue that really is one, as a GPU's: nothing runs before synchronize(), or nothing at all.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"

namespace troupe::tests {

/// Wraps the CPU backend. Every operation, copies and notifications included, waits until synchronize(); argument structs and
/// spans are copied when the call is made and memory is read when it runs, as the contract of `backend` says. With `discard`
/// operations are dropped and notifications called at once: what is left is the cost of enqueueing.
class deferred_backend : public kernels::backend {
public:
  explicit deferred_backend(bool discard = false) : discard_(discard), inner_(kernels::open_backend({})) {}

  std::size_t waiting() const { return queue_.size(); }
  int captures() const { return captures_; }
  int replays() const { return replays_; }

  std::string_view name() const override { return "deferred"; }
  bool on_host() const override { return false; }
  kernels::buffer allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  kernels::buffer allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }

  void notify(std::function<void()> done) override {
    if (discard_)
      done();
    else
      queue_.push_back(std::move(done));
  }
  std::unique_ptr<kernels::program> capture(std::function<void()> enqueue) override {
    ++captures_;
    auto recorded = std::make_unique<recording>();
    recorded->operations.swap(queue_);
    enqueue();
    recorded->operations.swap(queue_);
    return recorded;
  }
  void replay(kernels::program& recorded) override {
    ++replays_;
    const auto& operations = dynamic_cast<recording&>(recorded).operations;
    queue_.insert(queue_.end(), operations.begin(), operations.end());
  }
  void synchronize() override {
    for (auto& operation : std::exchange(queue_, {}))
      operation();
  }
  /// Runs the oldest operation; false: there is none.
  bool run_one() {
    if (queue_.empty())
      return false;
    auto operation = std::move(queue_.front());
    queue_.pop_front();
    operation();
    return true;
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    later([=, this] { inner_->copy(to, from, bytes); });
  }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    later([=, this] { inner_->copy_from_host(to, from, bytes); });
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    later([=, this] { inner_->copy_to_host(to, from, bytes); });
  }
  void fetch(void* to, const void* from, std::size_t bytes, std::function<void()> done) override {
    later([=, this] { inner_->copy_to_host(to, from, bytes); });
    notify(std::move(done));
  }
  void stage(void* to, const void* from, std::size_t bytes) override { copy_from_host(to, from, bytes); }
  void fill(float* to, float value, std::int64_t count) override {
    later([=, this] { inner_->fill(to, value, count); });
  }

  void gemm(const kernels::gemm_args& args) override {
    later([=, this] { inner_->gemm(args); });
  }
  void conv2d(const kernels::conv2d_args& args) override {
    later([=, this] { inner_->conv2d(args); });
  }
  void conv2d_backward(const kernels::conv2d_backward_args& args) override {
    later([=, this] { inner_->conv2d_backward(args); });
  }
  void unary(kernels::unary_op op, const float* x, float* y, std::int64_t count) override {
    later([=, this] { inner_->unary(op, x, y, count); });
  }
  void unary_backward(kernels::unary_op op, const float* x, const float* y, const float* dy, float* dx,
                      std::int64_t count) override {
    later([=, this] { inner_->unary_backward(op, x, y, dy, dx, count); });
  }
  void binary(kernels::binary_op op, const float* a, const float* b, float* y, std::int64_t count) override {
    later([=, this] { inner_->binary(op, a, b, y, count); });
  }
  void axpby(float alpha, const float* x, float beta, float* y, std::int64_t count) override {
    later([=, this] { inner_->axpby(alpha, x, beta, y, count); });
  }
  void bias_activation(const float* x, const float* bias, kernels::activation act, float* y, std::int64_t rows,
                       std::int64_t columns) override {
    later([=, this] { inner_->bias_activation(x, bias, act, y, rows, columns); });
  }
  void dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, const kernels::random_key* key,
               std::uint32_t layer) override {
    later([=, this] { inner_->dropout(x, y, rows, columns, rate, key, layer); });
  }
  void sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns) override {
    later([=, this] { inner_->sum_rows(x, y, rows, columns); });
  }
  void sum(const float* x, std::int64_t count, float* result) override {
    later([=, this] { inner_->sum(x, count, result); });
  }
  void weighted_sum(std::span<const kernels::term> terms, float* y, std::int64_t count) override {
    later_with(terms, [=, this](auto kept) { inner_->weighted_sum(kept, y, count); });
  }
  void all_finite(const float* x, std::int64_t count, std::int32_t* flag) override {
    later([=, this] { inner_->all_finite(x, count, flag); });
  }
  void layernorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean, float* rstd,
                 std::int64_t rows, std::int64_t columns) override {
    later([=, this] { inner_->layernorm(x, gamma, beta, epsilon, y, mean, rstd, rows, columns); });
  }
  void layernorm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx,
                          float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns) override {
    later([=, this] { inner_->layernorm_backward(x, gamma, mean, rstd, dy, dx, dgamma, dbeta, rows, columns); });
  }
  void max_pool(const kernels::window2d& window, const float* x, float* y, std::int32_t* argmax) override {
    later([=, this] { inner_->max_pool(window, x, y, argmax); });
  }
  void max_pool_backward(const kernels::window2d& window, const std::int32_t* argmax, const float* dy, float* dx) override {
    later([=, this] { inner_->max_pool_backward(window, argmax, dy, dx); });
  }
  void avg_pool(const kernels::window2d& window, const float* x, float* y) override {
    later([=, this] { inner_->avg_pool(window, x, y); });
  }
  void avg_pool_backward(const kernels::window2d& window, const float* dy, float* dx) override {
    later([=, this] { inner_->avg_pool_backward(window, dy, dx); });
  }
  void softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                             std::int32_t* correct, std::int64_t rows, std::int64_t classes) override {
    later([=, this] { inner_->softmax_cross_entropy(logits, labels, scale, loss, dlogits, correct, rows, classes); });
  }
  void softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) override {
    later([=, this] { inner_->softmax(x, y, rows, columns); });
  }
  void sgd(const kernels::sgd_args& args) override {
    later_with(args.terms, [=, this](auto kept) {
      auto own = args;
      own.terms = kept;
      inner_->sgd(own);
    });
  }
  void adamw(const kernels::adamw_args& args) override {
    later_with(args.terms, [=, this](auto kept) {
      auto own = args;
      own.terms = kept;
      inner_->adamw(own);
    });
  }
  void delay_compensate(const kernels::delay_compensate_args& args) override {
    later([=, this] { inner_->delay_compensate(args); });
  }
  void soft_threshold(const float* x, float threshold, float* y, std::int64_t count) override {
    later([=, this] { inner_->soft_threshold(x, threshold, y, count); });
  }

private:
  struct recording final : kernels::program {
    std::deque<std::function<void()>> operations;
  };

  template <class F>
  void later(F&& operation) {
    if (!discard_)
      queue_.push_back(std::forward<F>(operation));
  }
  template <class F>
  void later_with(std::span<const kernels::term> terms, F&& operation) {
    if (!discard_)
      queue_.push_back([operation, kept = std::vector<kernels::term>(terms.begin(), terms.end())] {
        operation(std::span<const kernels::term>{kept});
      });
  }

  bool discard_;
  std::unique_ptr<kernels::backend> inner_;
  std::deque<std::function<void()>> queue_;
  int captures_ = 0, replays_ = 0;
};

} // namespace troupe::tests
