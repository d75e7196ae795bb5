// SPDX-License-Identifier: BSD-3-Clause
// A queue that really is one, as a GPU's: nothing runs before synchronize(), or nothing at all.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/backend.hpp"

namespace troupe::tests {

/// Wraps the CPU backend. Every operation, copies and notifications included, waits until synchronize(); operations and their
/// terms are copied when the call is made and memory is read when it runs, as the contract of `backend` says. With `discard`
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
  std::unique_ptr<kernels::program> capture(std::function<void()> work) override {
    ++captures_;
    auto recorded = std::make_unique<recording>();
    recorded->operations.swap(queue_);
    work();
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
  void download(void* to, const void* from, std::size_t bytes, std::function<void()> done) override {
    later([=, this] { inner_->copy_to_host(to, from, bytes); });
    notify(std::move(done));
  }
  void upload(void* to, const void* from, std::size_t bytes) override { copy_from_host(to, from, bytes); }
  void enqueue(const kernels::operation& op) override {
    later([this, kept = kernels::kept_operation(op)] { kept.enqueue_on(*inner_); });
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

  bool discard_;
  std::unique_ptr<kernels::backend> inner_;
  std::deque<std::function<void()>> queue_;
  int captures_ = 0, replays_ = 0;
};

} // namespace troupe::tests
