// SPDX-License-Identifier: BSD-3-Clause
// Opening backends, and what is not mathematics: copies, completion, recorded programs.
#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <xmmintrin.h>

#include "kernels/cpu/cpu_backend.hpp"

namespace troupe::kernels::testing {

namespace {

class Backend : public backend_test {};
TROUPE_ON_EVERY_BACKEND(Backend);

TEST_P(Backend, NotifiesInTheOrderOfTheQueue) {
  std::vector<int> order;
  auto x = output(1000);
  for (int i = 0; i < 3; ++i) {
    queue.enqueue(fill{x, static_cast<float>(i), 1000});
    queue.notify([&order, i] { order.push_back(i); });
  }
  queue.synchronize();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_P(Backend, ARecordedProgramRunsAtReplayAlone) {
  auto x = upload(std::vector<float>{1, 2, 3});
  int notified = 0;
  auto program = queue.capture([&] {
    queue.enqueue(axpby{0, x, 2, x, 3}); // x = 2 x
    queue.notify([&] { ++notified; });
  });
  queue.synchronize();
  EXPECT_EQ(notified, 0);
  EXPECT_EQ(x.get(), (std::vector<float>{1, 2, 3}));
  queue.replay(*program);
  queue.replay(*program);
  queue.synchronize();
  EXPECT_EQ(notified, 2);
  EXPECT_EQ(x.get(), (std::vector<float>{4, 8, 12}));
}

TEST_P(Backend, AReplayedStepReadsItsScalarsAnew) {
  auto p = upload(std::vector<float>{1}), g = upload(std::vector<float>{1}), scalars = upload(std::vector<float>{0.5F, 0, 0});
  auto program = queue.capture([&] {
    const std::array terms{term{g, 1}};
    queue.enqueue(sgd{.count = 1, .terms = terms, .p = p, .p_out = p, .step_scalars = scalars});
  });
  queue.replay(*program);
  EXPECT_EQ(p.get()[0], 0.5F);
  queue.enqueue(fill{scalars, 0.25F, 1});
  queue.replay(*program);
  EXPECT_EQ(p.get()[0], 0.25F);
}

TEST_P(Backend, AReplayedDropoutDrawsByTheKeyOfNow) {
  constexpr std::int64_t n = 500;
  const random_key before{.seed = 2, .step = 1}, after{.seed = 2, .step = 2};
  auto ones = upload(std::vector<float>(n, 1)), replayed = output(n), plain = output(n);
  auto key = upload(before), other = upload(after);
  auto program = queue.capture([&] { queue.enqueue(dropout{ones, replayed, 5, n / 5, 0.5F, key, 4}); });
  queue.replay(*program);
  queue.enqueue(dropout{ones, plain, 5, n / 5, 0.5F, key, 4});
  const auto first = replayed.get();
  EXPECT_TRUE(same_bits(first, plain.get()));
  queue.copy(key, other, sizeof(random_key));
  queue.replay(*program);
  queue.enqueue(dropout{ones, plain, 5, n / 5, 0.5F, key, 4});
  EXPECT_TRUE(same_bits(replayed.get(), plain.get()));
  EXPECT_FALSE(same_bits(replayed.get(), first));
}

TEST_P(Backend, WorksOnAnotherThreadThanItWasMadeOn) {
  const auto a = random.floats(64 * 64);
  auto device_a = upload(a), here = output(64 * 64), there = output(64 * 64);
  const auto multiply = [&](float* c) { queue.enqueue(gemm{.m = 64, .n = 64, .k = 64, .a = device_a, .b = device_a, .c = c}); };
  multiply(here);
  std::thread(multiply, there.data()).join();
  EXPECT_TRUE(same_bits(there.get(), here.get()));
}

TEST_P(Backend, EmptyOperationsDoNothing) {
  auto x = output(1);
  queue.enqueue(unary{unary_op::exp, x, x, 0});
  queue.enqueue(binary{binary_op::add, x, x, x, 0});
  queue.enqueue(dropout{x, x, 0, 10, 0.5F, nullptr, 0});
  queue.enqueue(softmax{x, x, 0, 10});
  queue.copy(x, x, 0);
  EXPECT_TRUE(std::isnan(x.get()[0]));
  queue.enqueue(sum{x, 0, x});
  EXPECT_EQ(x.get()[0], 0);
}

TEST(CpuBackend, DenormalsAreFlushedAndTheThreadsModeIsKept) {
  cpu_backend cpu({});
  float denormal = 1e-40F, doubled = 1;
  const unsigned before = _mm_getcsr();
  cpu.enqueue(binary{binary_op::add, &denormal, &denormal, &doubled, 1});
  EXPECT_EQ(doubled, 0);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(CpuBackend, ADecayingVelocityReachesZero) {
  cpu_backend cpu({});
  const std::vector<float> scalars{0.1F, 0, 0};
  float p = 1, v = 1e-36F, g = 0;
  const std::array terms{term{&g, 1}};
  for (int i = 0; i < 200; ++i)
    cpu.enqueue(
        sgd{.count = 1, .terms = terms, .p = &p, .p_out = &p, .velocity = &v, .step_scalars = scalars.data(), .momentum = 0.9F});
  EXPECT_EQ(v, 0); // with denormals it would stay at 1.4e-45 * k for ever
}

// Without those of CUDA's driver, which come with a look at the devices, and are named so.
int threads_of_this_process() {
  return static_cast<int>(std::ranges::count_if(std::filesystem::directory_iterator("/proc/self/task"), [](const auto& task) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    return !name.starts_with("cuda");
  }));
}

TEST(CpuBackend, OneThreadMeansNoOther) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process of its own: this one may have opened other backends
  const auto count_after_work = [](int threads) {
    cpu_backend cpu({.threads = threads, .gemm = gemm_library::openblas});
    cpu_backend other({.threads = threads, .gemm = has_onednn() ? gemm_library::onednn : gemm_library::openblas});
    const std::vector<float> a(256 * 256);
    std::vector<float> c(a.size());
    for (auto* backend : {&cpu, &other})
      backend->enqueue(gemm{.m = 256, .n = 256, .k = 256, .a = a.data(), .b = a.data(), .c = c.data()});
    std::exit(threads_of_this_process());
  };
  EXPECT_EXIT(count_after_work(1), ::testing::ExitedWithCode(1), "");
}

std::string refusal(const backend_options& options) {
  try {
    open_backend(options);
  } catch (const device_error& e) {
    return e.what();
  }
  return "";
}

TEST(OpenBackend, SaysWhyADeviceCannotBeUsed) {
  EXPECT_EQ(refusal({.device = "gpu"}), "device \"gpu\" is not known; there are \"cpu\", \"cuda\" and \"cuda:N\"");
  EXPECT_EQ(refusal({.threads = 0}), "threads = 0: a backend needs at least 1");
}

TEST(OpenBackend, OpensTheCpu) {
  EXPECT_EQ(open_backend({.device = "cpu"})->name(), "cpu");
}

TEST(ListDevices, StartsWithTheCpu) {
  const auto devices = list_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].name, "cpu");
  EXPECT_TRUE(devices[0].usable);
  for (const std::string word : {"core", "GiB", "OpenBLAS", has_onednn() ? "oneDNN" : ""})
    EXPECT_NE(devices[0].detail.find(word), std::string::npos) << devices[0].detail;
  std::cout << devices[0].detail << '\n';
}

} // namespace

} // namespace troupe::kernels::testing
