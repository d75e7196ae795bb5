// SPDX-License-Identifier: BSD-3-Clause
// What kernel tests share.
#include "tests/kernels/harness.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/random.hpp"

namespace troupe::kernels::testing {

std::vector<candidate> backends_under_test() {
  const auto cpu = [](cpu_options options) { return [options] { return std::make_unique<cpu_backend>(options); }; };
  std::vector<candidate> all{{"cpu", [] { return open_backend({.device = "cpu"}); }},
                             {"cpu_two_threads", [] { return open_backend({.device = "cpu", .threads = 2}); }},
                             {"cpu_openblas", cpu({.gemm = gemm_library::openblas})},
                             {"cpu_baseline", cpu({.loops = instruction_set::baseline})}};
  if (has_onednn())
    all.push_back({"cpu_onednn", cpu({.gemm = gemm_library::onednn})});
  if (best_instruction_set() > instruction_set::avx2)
    all.push_back({"cpu_avx2", cpu({.loops = instruction_set::avx2})});
#ifdef TROUPE_EMULATED_CUDA
  all.push_back({"cuda_emulated", [] { return open_emulated({.device = "cuda:0"}); }});
#endif
  for (const auto& device : list_devices())
    if (device.usable && device.name.starts_with("cuda:"))
      all.push_back({"cuda_" + device.name.substr(5), [name = device.name] { return open_backend({.device = name}); }});
  return all;
}

#ifdef TROUPE_EMULATED_CUDA
std::unique_ptr<backend> open_emulated(const backend_options& options) {
  const with_environment library("TROUPE_CUDA_LIBRARY", TROUPE_EMULATED_CUDA);
  return open_backend(options);
}
#endif

with_environment::with_environment(const char* name, const std::string& value) : name_(name) {
  if (const char* old = std::getenv(name))
    before_ = old;
  setenv(name, value.c_str(), 1);
}

with_environment::~with_environment() {
  if (before_)
    setenv(name_, before_->c_str(), 1);
  else
    unsetenv(name_);
}

std::uint64_t test_seed() {
  const char* text = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
  std::cout << "seed " << seed << " (TROUPE_TEST_SEED sets it)\n";
  return seed;
}

std::vector<float> random_source::floats(std::int64_t count, float low, float high) {
  const random_key key{.seed = seed_, .stream = stream_++};
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto words = random_block(key, static_cast<std::uint32_t>(i / 4));
    for (std::size_t w = 0; w < 4 && i + w < out.size(); ++w)
      out[i + w] = low + (high - low) * uniform_float(words[w]);
  }
  return out;
}

std::vector<std::int32_t> random_source::integers(std::int64_t count, std::int32_t below) {
  const random_key key{.seed = seed_, .stream = stream_++};
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::int32_t>(random_below(random_word(key, i), static_cast<std::uint32_t>(below)));
  return out;
}

namespace {

/// The same four bytes again and again.
template <class T>
T made_of(std::uint32_t word) {
  std::array<std::uint32_t, sizeof(T) / sizeof(word)> words;
  words.fill(word);
  return std::bit_cast<T>(words);
}

} // namespace

template <class T>
device_array<T>::device_array(backend& queue, std::int64_t count, std::int64_t shift)
    : device_array(queue, std::vector<T>(static_cast<std::size_t>(count), made_of<T>(0x7fc00000)), shift) {}

template <class T>
device_array<T>::device_array(backend& queue, const std::vector<T>& values, std::int64_t shift)
    : queue_(&queue), count_(std::ssize(values)), shift_(shift),
      memory_(queue.allocate((values.size() + static_cast<std::size_t>(2 * guard + shift)) * sizeof(T))),
      before_(memory_.bytes() / sizeof(T), made_of<T>(0x41424344)) {
  std::copy(values.begin(), values.end(), before_.begin() + guard + shift);
  queue.copy_from_host(memory_.data(), before_.data(), memory_.bytes());
}

template <class T>
device_array<T>::~device_array() {
  if (memory_)
    queue_->synchronize();
}

template <class T>
device_array<T>& device_array<T>::operator=(device_array&& other) noexcept {
  std::swap(queue_, other.queue_);
  std::swap(count_, other.count_);
  std::swap(shift_, other.shift_);
  std::swap(memory_, other.memory_);
  std::swap(before_, other.before_);
  return *this;
}

template <class T>
std::vector<T> device_array<T>::get() {
  std::vector<T> now(before_.size());
  queue_->copy_to_host(now.data(), memory_.data(), memory_.bytes());
  queue_->synchronize();
  const auto first = guard + shift_, last = first + count_;
  EXPECT_EQ(std::memcmp(now.data(), before_.data(), static_cast<std::size_t>(first) * sizeof(T)), 0)
      << "written before the start";
  EXPECT_EQ(std::memcmp(now.data() + last, before_.data() + last, static_cast<std::size_t>(guard) * sizeof(T)), 0)
      << "written past the end";
  return {now.begin() + first, now.begin() + last};
}

template class device_array<float>;
template class device_array<std::int32_t>;
template class device_array<random_key>;

::testing::AssertionResult agree(std::span<const float> got, std::span<const float> want, tolerance allowed) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = want[i];
    const bool both_nan = std::isnan(a) && std::isnan(b);
    if (!both_nan && a != b && !(std::abs(a - b) <= allowed.absolute + allowed.relative * std::abs(b)))
      return ::testing::AssertionFailure() << "element " << i << " of " << got.size() << " is " << a << ", not " << b
                                           << " (off by " << std::abs(a - b) << ")";
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i]))
      return ::testing::AssertionFailure() << "element " << i << " of " << got.size() << " is " << got[i] << ", not " << want[i]
                                           << ", in other bits";
  return ::testing::AssertionSuccess();
}

} // namespace troupe::kernels::testing
