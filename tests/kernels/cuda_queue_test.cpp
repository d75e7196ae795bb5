// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend as a queue: what waits for what, callbacks, copies beside it, recorded programs, spans. On the emulator.
#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>

namespace troupe::kernels::testing {

namespace {

class CudaQueue : public ::testing::Test {
protected:
  std::unique_ptr<backend> owner = open_emulated({.device = "cuda:0"});
  backend& queue = *owner;

  device_array<float> upload(const std::vector<float>& values) { return {queue, values}; }
  device_array<float> output(std::int64_t count) { return {queue, count}; }
};

/// Something that a callback waits for.
struct gate {
  std::promise<void> opened;
  std::shared_future<void> future = opened.get_future().share();
  std::function<void()> wait() {
    return [future = future] { future.wait(); };
  }
  void open() { opened.set_value(); }
};

TEST_F(CudaQueue, DoesNotWaitForACallback) {
  gate held;
  const auto host = queue.allocate_host(sizeof(float));
  *host.as<float>() = 0;
  auto x = output(1);
  queue.notify(held.wait());
  queue.enqueue(fill{x, 7, 1});
  queue.copy_to_host(host.data(), x, sizeof(float));
  while (std::atomic_ref(*host.as<float>()).load() != 7) // a queue that waits for the callback never gets here
    std::this_thread::yield();
  held.open();
}

TEST_F(CudaQueue, CallsBackOnceWhatWasEnqueuedHasRun) {
  constexpr std::int64_t n = 100'000;
  auto x = output(n);
  const auto host = queue.allocate_host(n * sizeof(float));
  for (int round = 1; round <= 20; ++round) {
    queue.enqueue(fill{x, static_cast<float>(round), n});
    queue.copy_to_host(host.data(), x, n * sizeof(float));
    std::promise<float> last;
    queue.notify([&] { last.set_value(host.as<float>()[n - 1]); });
    EXPECT_EQ(last.get_future().get(), static_cast<float>(round));
  }
}

TEST_F(CudaQueue, FetchesBesideWhatTheQueueIsBusyWith) {
  auto x = upload({1, 2, 3, 4});
  const auto host = queue.allocate_host(16);
  queue.synchronize();
  // A replay that calls back waits for the callbacks before it: with one that is held, the queue stands still.
  gate held;
  auto program = queue.capture([&] { queue.notify([] {}); });
  queue.notify(held.wait());
  queue.replay(*program);
  auto y = output(4); // a copy behind the replay
  std::promise<void> downloaded;
  queue.download(host.data(), x, 16, [&] { downloaded.set_value(); });
  downloaded.get_future().wait();
  EXPECT_EQ(std::vector(host.as<float>(), host.as<float>() + 4), (std::vector<float>{1, 2, 3, 4}));
  held.open();
}

TEST_F(CudaQueue, RunsWhatFollowsAStagedCopyAfterIt) {
  constexpr std::int64_t n = 1 << 20;
  const auto host = queue.allocate_host(n * sizeof(float));
  auto x = output(n), y = output(n);
  for (float value : {1.0F, 2.0F, 3.0F}) {
    queue.synchronize();
    std::fill_n(host.as<float>(), n, value);
    queue.upload(x, host.data(), n * sizeof(float));
    queue.enqueue(unary{unary_op::negate, x, y, n});
    EXPECT_EQ(y.get(), std::vector<float>(n, -value));
  }
}

TEST_F(CudaQueue, EmptyCopiesStillCallBack) {
  std::promise<void> done;
  queue.download(nullptr, nullptr, 0, [&] { done.set_value(); });
  done.get_future().wait();
  queue.upload(nullptr, nullptr, 0);
}

TEST_F(CudaQueue, AProgramCallsBackAmongTheOthersInOrder) {
  std::vector<int> order;
  auto x = output(1000);
  auto program = queue.capture([&] {
    queue.enqueue(fill{x, 1, 1000});
    queue.notify([&] { order.push_back(10); });
    queue.enqueue(fill{x, 2, 1000});
    queue.notify([&] { order.push_back(11); });
  });
  queue.notify([&] { order.push_back(0); });
  queue.replay(*program);
  queue.notify([&] { order.push_back(1); });
  queue.replay(*program);
  queue.replay(*program);
  queue.notify([&] { order.push_back(2); });
  queue.synchronize();
  EXPECT_EQ(order, (std::vector<int>{0, 10, 11, 1, 10, 11, 10, 11, 2}));
}

TEST_F(CudaQueue, WhatCannotBeCapturedIsCalledAgain) {
  auto x = upload({1, 2, 3});
  int enqueued = 0, notified = 0;
  std::unique_ptr<program> program;
  {
    const with_environment refuse("TROUPE_EMULATED_CUDA_NO_CAPTURE", "1");
    program = queue.capture([&] {
      ++enqueued;
      queue.enqueue(axpby{0, x, 2, x, 3});
      queue.notify([&] { ++notified; });
    });
  }
  queue.synchronize();
  EXPECT_EQ(x.get(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(notified, 0);
  queue.replay(*program);
  queue.replay(*program);
  queue.synchronize();
  EXPECT_EQ(enqueued, 3);
  EXPECT_EQ(notified, 2);
  EXPECT_EQ(x.get(), (std::vector<float>{4, 8, 12}));
}

TEST_F(CudaQueue, AProgramIsCapturedOnce) {
  auto x = upload({1});
  int enqueued = 0, notified = 0;
  auto program = queue.capture([&] {
    ++enqueued;
    queue.enqueue(axpby{0, x, 2, x, 1});
    queue.notify([&] { ++notified; });
  });
  for (int i = 0; i < 5; ++i)
    queue.replay(*program);
  EXPECT_EQ(x.get()[0], 32);
  EXPECT_EQ(enqueued, 1);
  EXPECT_EQ(notified, 5);
}

TEST_F(CudaQueue, AProgramMayDieWhileItRuns) {
  auto x = output(1 << 20);
  int notified = 0;
  {
    auto program = queue.capture([&] {
      queue.enqueue(fill{x, 3, 1 << 20});
      queue.notify([&] { ++notified; });
    });
    queue.replay(*program);
  }
  queue.synchronize();
  EXPECT_EQ(notified, 1);
}

TEST_F(CudaQueue, AProgramKeepsTheScratchThatOthersOutgrow) {
  constexpr std::int64_t small = 5000, large = 4'000'000;
  auto x = upload(std::vector<float>(small, 1)), many = upload(std::vector<float>(large, 1)), total = output(1),
       other = output(1);
  auto program = queue.capture([&] { queue.enqueue(sum{x, small, total}); });
  queue.enqueue(sum{many, large, other}); // needs more partial sums than the program's
  queue.replay(*program);
  EXPECT_EQ(total.get()[0], small);
  EXPECT_EQ(other.get()[0], large);
}

TEST_F(CudaQueue, ARowWithNaNIsNeverCorrect) {
  auto logits = upload({1, NAN, 3}), loss = output(1);
  device_array<std::int32_t> label(queue, std::vector<std::int32_t>{2}), correct(queue, 1);
  queue.enqueue(softmax_cross_entropy{logits, label, 1, loss, nullptr, correct, 1, 3});
  EXPECT_EQ(correct.get()[0], 0); // a diverged model must not look healthy
  EXPECT_TRUE(std::isnan(loss.get()[0]));
}

TEST_F(CudaQueue, EndsOnlyAfterItsCallbacks) {
  std::atomic<int> notified = 0;
  {
    auto own = open_emulated({.device = "cuda:0"});
    for (int i = 0; i < 100; ++i)
      own->notify([&] { ++notified; });
  }
  EXPECT_EQ(notified, 100);
}

TEST_F(CudaQueue, TellsWhatItWasBusyWithAndWhen) {
  const auto now = [] { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  constexpr std::int64_t second = 1'000'000'000;
  std::vector<device_span> spans;
  const auto begin = now();
  auto own = open_emulated({.device = "cuda:0", .on_span = [&](const device_span& s) { spans.push_back(s); }});
  const auto x = own->allocate(4096), host = own->allocate_host(4096);
  own->upload(x.data(), host.data(), 4096);
  own->enqueue(unary{unary_op::relu, x.as<float>(), x.as<float>(), 1024});
  auto program = own->capture([&] { own->enqueue(fill{x.as<float>(), 1, 1024}); });
  own->replay(*program);
  own->synchronize();
  own->download(host.data(), x.data(), 4096, [] {});
  own->synchronize();
  const auto end = now();
  std::vector<std::string> names;
  for (const auto& s : spans) {
    names.emplace_back(s.name);
    EXPECT_LE(s.begin_ns, s.end_ns);
    EXPECT_GE(s.begin_ns,
              begin - second); // the device's clock is set by a look at the host's: as exact as this thread is undisturbed
    EXPECT_LE(s.end_ns, end + second);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"download", "fill", "unary", "upload"}));
  const auto& download =
      *std::find_if(spans.begin(), spans.end(), [](const auto& s) { return s.name == std::string("download"); });
  EXPECT_EQ(download.where, device_span::track::to_host);
  EXPECT_EQ(download.bytes, 4096U);
}

} // namespace

} // namespace troupe::kernels::testing
