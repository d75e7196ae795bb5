// SPDX-License-Identifier: BSD-3-Clause
// Each target over mutants of its corpus, drawn from a seed. TROUPE_TEST_SEED=S TROUPE_FUZZ_RUNS=N; TROUPE_FUZZ_ONLY=I runs
// mutant I alone.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fuzz/mutator.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

std::optional<std::uint64_t> number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional{std::strtoull(text, nullptr, 10)};
}

std::uint64_t seed() {
  return number_of("TROUPE_TEST_SEED").value_or(1);
}

/// Which mutant runs, for whoever ends the process.
const char* under_way = nullptr;
std::atomic<std::uint64_t> mutant_under_way{0};

void say_which() {
  if (under_way == nullptr)
    return;
  char line[200];
  const int size =
      std::snprintf(line, sizeof line, "TROUPE_TEST_SEED=%llu TROUPE_FUZZ_ONLY=%llu fuzz_test --gtest_filter='*/%s'\n",
                    static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(mutant_under_way.load()), under_way);
  if (::write(STDERR_FILENO, line, static_cast<std::size_t>(size)) != size)
    return;
}

void on_signal(int number) {
  say_which();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

class Fuzz : public testing::TestWithParam<target> {
protected:
  void SetUp() override {
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
      std::signal(number, on_signal);
  }
  void TearDown() override { under_way = nullptr; }
};

TEST_P(Fuzz, BreaksNoPromise) {
  const target& tried = GetParam();
  const auto corpus = tried.corpus();
  ASSERT_FALSE(corpus.empty());
  mutator mutants(corpus, tried.words, seed());
  const auto run = [&](std::uint64_t number) {
    mutant_under_way = number;
    const input bytes = mutants.mutant(number);
    EXPECT_EQ(tried.run(bytes.data(), bytes.size()), 0);
  };
  under_way = tried.name;
  if (const auto only = number_of("TROUPE_FUZZ_ONLY"))
    return run(*only);
  for (std::uint64_t number = 0; number < number_of("TROUPE_FUZZ_RUNS").value_or(4000) / tried.cost; ++number)
    run(number);
}

INSTANTIATE_TEST_SUITE_P(On, Fuzz, testing::ValuesIn(targets()), [](const auto& info) { return std::string{info.param.name}; });

} // namespace
} // namespace troupe::fuzz

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_on_error(); // NOLINT(bugprone-reserved-identifier): the sanitizer's name
extern "C" void __asan_on_error() {
  troupe::fuzz::say_which();
}
#endif
