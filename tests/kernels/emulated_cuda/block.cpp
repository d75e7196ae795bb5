// SPDX-License-Identifier: BSD-3-Clause
// Threads of a block as fibers that are switched only at barriers.
#include "tests/kernels/emulated_cuda/block.hpp"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::emulated_cuda {

namespace {

/// What some threads wait for. A thread that has ended is waited for no longer.
struct barrier {
  unsigned expected = 0, arrived = 0;
  std::uint64_t generation = 0;

  void release_if_full() {
    if (arrived > 0 && arrived == expected) {
      arrived = 0;
      ++generation;
    }
  }
  void leave() {
    --expected;
    release_if_full();
  }
};

struct warp {
  barrier gate;
  std::array<std::array<std::uint64_t, warp_size>, 2> mail;
};

constexpr std::size_t stack_bytes = std::size_t{256} << 10; // only what is touched is there

struct stack_memory {
  void* base = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  stack_memory() = default;
  stack_memory(const stack_memory&) = delete;
  stack_memory& operator=(const stack_memory&) = delete;
  ~stack_memory() { munmap(base, stack_bytes); }
};

/// A stack, and the thread that runs on it.
struct fiber {
  stack_memory stack;
  ucontext_t start;
  std::jmp_buf here;
  bool begun = false; ///< `here` is a place to go on from
  unsigned thread = 0, turn = 0;
  dim3 index;
  const barrier* waits_for = nullptr;
  std::uint64_t since = 0;

  bool can_go_on() const { return waits_for && waits_for->generation != since; }
};

/// One block in the making. Belongs to the thread that runs it.
class block_run {
public:
  void run(const std::function<void()>& thread) {
    body_ = &thread;
    threads_ = blockDim.x * blockDim.y * blockDim.z;
    started_ = 0;
    block_.expected = threads_;
    block_.arrived = 0;
    warps_.resize((threads_ + warp_size - 1) / warp_size);
    for (unsigned w = 0; w < warps_.size(); ++w)
      warps_[w].gate = {.expected = std::min(warp_size, threads_ - w * warp_size)};
    std::size_t used = 0;
    while (started_ < threads_) {
      if (used == fibers_.size())
        fibers_.push_back(std::make_unique<fiber>());
      resume(*fibers_[used++]);
    }
    for (bool progress = true; block_.expected > 0;) {
      if (!progress)
        stuck();
      progress = false;
      for (std::size_t first = 0, next; first < used; first = next) {
        const unsigned warp = fibers_[first]->thread / warp_size;
        for (next = first; next < used && fibers_[next]->thread / warp_size == warp; ++next) {
        }
        // One warp as far as it can go: where a barrier is missing, it is there before the others have read.
        for (bool further = true; further;) {
          further = false;
          for (std::size_t f = first; f < next; ++f)
            further = go_on(*fibers_[f]) || further;
          progress = progress || further;
        }
      }
    }
  }

  void wait(barrier& gate) {
    fiber& self = *current_;
    self.waits_for = &gate;
    self.since = gate.generation;
    ++gate.arrived;
    gate.release_if_full();
    if (!self.can_go_on())
      suspend();
    self.waits_for = nullptr;
  }

  barrier& block_gate() { return block_; }
  warp& own_warp() { return warps_[current_->thread / warp_size]; }
  fiber& current() { return *current_; }

private:
  /// On the fiber: runs threads until none is left to start.
  static void enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<block_run*>(std::uintptr_t{high} << 32 | low);
    self->arrived_on_fiber();
    for (;;) {
      while (self->started_ < self->threads_)
        self->run_next();
      self->suspend();
    }
  }

  void run_next() {
    fiber& self = *current_;
    self.thread = started_++;
    self.turn = 0;
    self.index = {self.thread % blockDim.x, self.thread / blockDim.x % blockDim.y, self.thread / blockDim.x / blockDim.y};
    threadIdx = self.index;
    (*body_)();
    own_warp().gate.leave();
    block_.leave();
  }

  bool go_on(fiber& next) {
    if (!next.can_go_on())
      return false;
    resume(next);
    return true;
  }

  void resume(fiber& next) {
    current_ = &next;
    threadIdx = next.index;
    leave_for(next);
    if (_setjmp(scheduler_) == 0) {
      if (next.begun)
        _longjmp(next.here, 1);
      next.begun = true;
      begin(next);
    }
    back_on_scheduler();
  }

  void begin(fiber& next) {
    getcontext(&next.start);
    next.start.uc_stack.ss_sp = next.stack.base;
    next.start.uc_stack.ss_size = stack_bytes;
    next.start.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&next.start, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
    setcontext(&next.start);
  }

  void suspend() {
    fiber& self = *current_;
    leave_for_scheduler();
    if (_setjmp(self.here) == 0)
      _longjmp(scheduler_, 1);
    arrived_on_fiber();
  }

#if defined(__SANITIZE_ADDRESS__)
  // AddressSanitizer wants to know on which stack the thread is.
  void leave_for(fiber& next) {
    __sanitizer_start_switch_fiber(&scheduler_fake_, next.stack.base, stack_bytes);
  }
  void arrived_on_fiber() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
  }
  void leave_for_scheduler() {
    __sanitizer_start_switch_fiber(nullptr, scheduler_stack_, scheduler_stack_bytes_);
  }
  void back_on_scheduler() {
    __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
  }
  void* scheduler_fake_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
#else
  static void leave_for(fiber&) {}
  static void arrived_on_fiber() {}
  static void leave_for_scheduler() {}
  static void back_on_scheduler() {}
#endif

  [[noreturn]] static void stuck() {
    std::fprintf(stderr, "emulated CUDA: some threads of a block wait at a barrier that the others never reach\n");
    std::abort();
  }

  const std::function<void()>* body_ = nullptr;
  unsigned threads_ = 0, started_ = 0;
  barrier block_;
  std::vector<warp> warps_;
  std::vector<std::unique_ptr<fiber>> fibers_;
  fiber* current_ = nullptr;
  std::jmp_buf scheduler_;
};

block_run& runner() {
  static thread_local block_run own;
  return own;
}

} // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  gridDim = grid;
  blockDim = block;
  auto& run = runner();
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        run.run(thread);
}

void wait_for_block() {
  auto& run = runner();
  run.wait(run.block_gate());
  threadIdx = run.current().index;
}

void wait_for_warp() {
  auto& run = runner();
  run.wait(run.own_warp().gate);
  threadIdx = run.current().index;
}

unsigned lane() {
  return runner().current().thread % warp_size;
}

std::array<std::uint64_t, warp_size>& next_mailboxes() {
  auto& run = runner();
  return run.own_warp().mail[run.current().turn++ % 2];
}

} // namespace troupe::emulated_cuda
