// SPDX-License-Identifier: BSD-3-Clause
// A device as far from the host as a GPU is: memory that the host must not touch, and three queues that run when the test says
// so.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/assert.hpp"
#include "tests/kernels/deferred_backend.hpp"

namespace troupe::tests {

/// Memory of all simulated devices of a process. The host that touches it dies of it: pages are open only while an operation
/// runs. What is free is filled with NaNs, the host's part too, so that whatever is read too early or freed too early is seen in
/// the numbers. One thread.
class guarded_memory {
public:
  static constexpr std::size_t capacity = std::size_t{64} << 20;

  guarded_memory() : base_(static_cast<std::byte*>(::mmap(nullptr, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    TROUPE_ASSERT(base_ != MAP_FAILED);
  }
  guarded_memory(const guarded_memory&) = delete;
  guarded_memory& operator=(const guarded_memory&) = delete;
  ~guarded_memory() { ::munmap(base_, capacity); }

  /// Calls `operation` with the memory open.
  template <class F>
  void opened(F&& operation) {
    if (depth_++ == 0)
      ::mprotect(base_, top_, PROT_READ | PROT_WRITE);
    operation();
    if (--depth_ == 0)
      ::mprotect(base_, top_, PROT_NONE);
  }

  static kernels::buffer allocate(const std::shared_ptr<guarded_memory>& self, std::size_t bytes) {
    const auto size = (bytes + 63) / 64 * 64;
    auto* block = self->take(size);
    self->opened([&] { poison(block, bytes, size); });
    auto owner = std::shared_ptr<void>(block, [self, size](void* freed) {
      auto* at = static_cast<std::byte*>(freed);
      self->opened([&] { poison(at, size, size); });
      self->free_[size].push_back(at);
      self->used_ -= size;
    });
    self->used_ += size;
    self->peak_ = std::max(self->peak_, self->used_);
    return {std::move(owner), block, bytes};
  }
  static kernels::buffer allocate_host(const std::shared_ptr<guarded_memory>& self, std::size_t bytes) {
    const auto size = (bytes + 63) / 64 * 64;
    auto& free = self->free_on_host_[size];
    if (free.empty())
      free.push_back(self->host_.emplace_back(new (std::align_val_t{64}) std::byte[size]).get());
    auto* block = free.back();
    free.pop_back();
    poison(block, bytes, size);
    return {std::shared_ptr<void>(block,
                                  [self, size](void* freed) {
                                    poison(static_cast<std::byte*>(freed), size, size);
                                    self->free_on_host_[size].push_back(static_cast<std::byte*>(freed));
                                  }),
            block, bytes};
  }
  std::size_t peak() const { return peak_; }

private:
  struct aligned_delete {
    void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{64}); }
  };

  static void poison(std::byte* block, std::size_t bytes, std::size_t size) {
    std::memset(block, 0xff, bytes); // floats: NaN
    std::memset(block + bytes, 0, size - bytes);
  }

  /// The newest free block: if it was freed too early, it is shared at once.
  std::byte* take(std::size_t size) {
    if (auto& free = free_[size]; !free.empty()) {
      auto* block = free.back();
      free.pop_back();
      return block;
    }
    const auto pages = (size + 4095) / 4096 * 4096;
    if (top_ + pages > capacity)
      throw kernels::device_error("the simulated device is out of memory");
    auto* block = base_ + top_;
    if (depth_ > 0)
      ::mprotect(block, pages, PROT_READ | PROT_WRITE);
    top_ += pages;
    return block;
  }

  std::byte* base_;
  std::size_t top_ = 0, used_ = 0, peak_ = 0;
  int depth_ = 0;
  std::map<std::size_t, std::vector<std::byte*>> free_, free_on_host_;
  std::vector<std::unique_ptr<std::byte[], aligned_delete>> host_;
};

/// One queue for what is computed and one for each direction of copies beside it. Each runs in order; between them the test
/// chooses. What is computed after an `upload` waits for it, as the contract says; a `download` waits for nothing.
class simulated_device final : public deferred_backend {
public:
  simulated_device(std::string name, std::shared_ptr<guarded_memory> memory)
      : name_(std::move(name)), memory_(std::move(memory)) {}

  std::string_view name() const override { return name_; }
  kernels::buffer allocate(std::size_t bytes) override { return guarded_memory::allocate(memory_, bytes); }
  kernels::buffer allocate_host(std::size_t bytes) override { return guarded_memory::allocate_host(memory_, bytes); }

  void notify(std::function<void()> done) override {
    if (lost_)
      throw kernels::device_error("the simulated device is lost");
    deferred_backend::notify(std::move(done));
  }
  void download(void* to, const void* from, std::size_t bytes, std::function<void()> done) override {
    downloads_.push_back([=, done = std::move(done)] {
      std::memcpy(to, from, bytes);
      done();
    });
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    uploads_.push_back([=] { std::memcpy(to, from, bytes); });
    barriers_.emplace_back(run_ + waiting(), ++uploaded_);
  }

  /// What it does when it is lost: nothing any more, and the next call says so.
  void lose() { lost_ = true; }

  // What the test chooses from; each runs one operation and is false where none can run.
  bool compute() {
    while (!barriers_.empty() && barriers_.front().first <= run_ && barriers_.front().second <= copied_)
      barriers_.pop_front();
    if (lost_ || waiting() == 0 || (!barriers_.empty() && barriers_.front().first <= run_))
      return false;
    ++run_;
    memory_->opened([this] { run_one(); });
    return true;
  }
  bool copy_in() {
    if (lost_ || !run_front(uploads_))
      return false;
    ++copied_;
    return true;
  }
  bool copy_out() { return !lost_ && run_front(downloads_); }

private:
  bool run_front(std::deque<std::function<void()>>& queue) {
    if (queue.empty())
      return false;
    auto operation = std::move(queue.front());
    queue.pop_front();
    memory_->opened(operation);
    return true;
  }

  std::string name_;
  std::shared_ptr<guarded_memory> memory_;
  std::deque<std::function<void()>> uploads_, downloads_;
  std::deque<std::pair<std::size_t, std::size_t>> barriers_; ///< stages before this operationthisuploads
  std::size_t run_ = 0, uploaded_ = 0, copied_ = 0;
  bool lost_ = false;
};

} // namespace troupe::tests
