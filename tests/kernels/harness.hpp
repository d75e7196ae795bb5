// SPDX-License-Identifier: BSD-3-Clause
// What kernel tests share: the backends under test, random inputs, and device arrays that notice a write outside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/backend.hpp"

namespace troupe::kernels::testing {

/// Every elementwise function of one argument, and every activation with none.
inline const std::vector<unary_op> all_unary = [] {
  std::vector<unary_op> all;
  for (int op = 0; op <= static_cast<int>(unary_op::copy); ++op)
    all.push_back(static_cast<unary_op>(op));
  return all;
}();
inline const std::vector<activation> all_activations = [] {
  std::vector<activation> all{activation::none};
  for (const activation_facts& each : activations)
    all.push_back(each.act);
  return all;
}();

/// A way of computing that must agree with the reference.
struct candidate {
  std::string name;
  std::function<std::unique_ptr<backend>()> open;
};

/// The CPU backend as it opens by default, and every other instruction set, gemm library and thread count that it knows; the CUDA
/// backend on the emulator; and every CUDA device that is there.
std::vector<candidate> backends_under_test();

/// The CUDA backend on the emulator (tests/kernels/emulated_cuda); device "cuda:N".
std::unique_ptr<backend> open_emulated(const backend_options& options);

/// An environment variable that has a value while this lives.
class with_environment {
public:
  with_environment(const char* name, const std::string& value);
  with_environment(const with_environment&) = delete;
  with_environment& operator=(const with_environment&) = delete;
  ~with_environment();

private:
  const char* name_;
  std::optional<std::string> before_;
};

/// TROUPE_TEST_SEED, else 1. Printed once by every test that asks.
std::uint64_t test_seed();

/// Uniform numbers in [low, high), another sequence at every call.
class random_source {
public:
  std::vector<float> floats(std::int64_t count, float low = -1, float high = 1);
  std::vector<std::int32_t> integers(std::int64_t count, std::int32_t below);

private:
  std::uint64_t seed_ = test_seed();
  std::uint32_t stream_ = 0;
};

/// Elements in a backend's memory between two guard zones; outputs start out as NaN (integers: as 0x7fc00000), so that an
/// element that is never written, or read where it should not be, is seen.
template <class T>
class device_array {
public:
  /// `shift` elements past an aligned address.
  device_array(backend& queue, std::int64_t count, std::int64_t shift = 0);
  device_array(backend& queue, const std::vector<T>& values, std::int64_t shift = 0);
  device_array(device_array&&) noexcept = default;
  device_array& operator=(device_array&& other) noexcept;
  /// Waits for the queue, which may still use the memory.
  ~device_array();

  T* data() { return memory_.as<T>() + guard + shift_; }
  operator T*() { return data(); } // NOLINT: reads like the pointer it stands for
  /// The elements, on the host; a test failure if the guard zones have changed.
  std::vector<T> get();

private:
  static constexpr std::int64_t guard = 32;
  backend* queue_;
  std::int64_t count_, shift_;
  buffer memory_;
  std::vector<T> before_;
};

/// |got - want| <= absolute + relative * |want|; NaN agrees with NaN and infinity with itself.
struct tolerance {
  double absolute = 0, relative = 0;
};
::testing::AssertionResult agree(std::span<const float> got, std::span<const float> want, tolerance allowed);
/// The same bits, NaN or not.
::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> want);

/// A test on one backend; `queue` is that backend.
class backend_test : public ::testing::TestWithParam<candidate> {
protected:
  std::unique_ptr<backend> owner = GetParam().open();
  backend& queue = *owner;
  random_source random;

  device_array<float> upload(const std::vector<float>& values, std::int64_t shift = 0) { return {queue, values, shift}; }
  device_array<std::int32_t> upload(const std::vector<std::int32_t>& values) { return {queue, values}; }
  device_array<random_key> upload(const random_key& key) { return {queue, std::vector{key}}; }
  device_array<float> output(std::int64_t count, std::int64_t shift = 0) { return {queue, count, shift}; }
};

#define TROUPE_ON_EVERY_BACKEND(suite)                                                                                           \
  INSTANTIATE_TEST_SUITE_P(On, suite, ::testing::ValuesIn(backends_under_test()),                                                \
                           [](const auto& instance) { return instance.param.name; })

} // namespace troupe::kernels::testing
