// SPDX-License-Identifier: BSD-3-Clause
// Products of two factors: all of them and parts, and bytes of others.
#include "kernels/factors.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/codec.hpp"

namespace troupe::kernels {
namespace {

struct drawn_factors {
  drawn_factors(std::int64_t k, std::int64_t m, std::int64_t n) : left(to_size(k * m)), right(to_size(k * n)) {
    std::mt19937 dice(static_cast<std::uint32_t>(k + 31 * m + 997 * n));
    for (auto* each : {&left, &right})
      for (float& x : *each)
        x = static_cast<float>(dice() >> 8U) * 0x1p-23F - 1;
    all = {k, m, n, left.data(), right.data()};
  }
  static std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }
  std::vector<float> left, right;
  factors all;
};

std::vector<std::byte> codes_of(const factors& of, const matrix_part& part) {
  std::vector<std::byte> out(factors_bytes(of.k, of.n, part));
  encode_factors(of, part, out);
  return out;
}
std::vector<float> product_of(const std::vector<std::byte>& codes, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count), 1e30F);
  decode_factors(codes, out);
  return out;
}

TEST(Factors, MultiplyToTheMatrix) {
  for (const auto& [k, m, n] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {16, 33, 20}, {2, 64, 8}, {40, 4, 129}}) {
    const drawn_factors of(k, m, n);
    const auto found = product_of(codes_of(of.all, {0, m * n}), m * n);
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        double wanted = 0;
        for (std::int64_t i = 0; i < k; ++i)
          wanted += static_cast<double>(of.left[static_cast<std::size_t>(i * m + row)])
                    * static_cast<double>(of.right[static_cast<std::size_t>(i * n + column)]);
        ASSERT_NEAR(found[static_cast<std::size_t>(row * n + column)], wanted, 1e-5) << k << ", " << m << ", " << n;
      }
  }
}

/// Whatever part of the matrix travels: its elements have the same bits, and what lies behind them is 0.
TEST(Factors, APartIsThatPartOfTheWhole) {
  const std::int64_t k = 6, m = 21, n = 13, count = m * n;
  const drawn_factors of(k, m, n);
  const auto whole = product_of(codes_of(of.all, {0, count}), count);
  std::mt19937 dice(2);
  for (int draw = 0; draw < 300; ++draw) {
    const auto first = static_cast<std::int64_t>(dice() % count);
    const matrix_part part{first, 1 + static_cast<std::int64_t>(dice() % static_cast<std::uint32_t>(count - first))};
    const auto codes = codes_of(of.all, part);
    const std::int64_t rows = (first + part.count - 1) / n - first / n + 1;
    ASSERT_EQ(codes.size(), static_cast<std::size_t>((16 + 4 * k * (rows + n) + 7) / 8 * 8));
    const auto found = product_of(codes, part.count + 3);
    for (std::int64_t i = 0; i < part.count; ++i)
      ASSERT_EQ(found[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(first + i)]) << first << ", " << part.count;
    for (std::int64_t i = part.count; i < part.count + 3; ++i)
      ASSERT_EQ(found[static_cast<std::size_t>(i)], 0);
  }
}

TEST(Factors, AreAddedByWeightAsACodecDoes) {
  const drawn_factors of(4, 16, 24);
  const coded_range where{32, 16 * 24 + 16};
  const auto codes = codes_of(of.all, {0, 16 * 24});
  ASSERT_TRUE(is_sound(form::factors, where, codes));
  std::vector<float> plain(static_cast<std::size_t>(where.count)), sum(plain.size(), 2.0F);
  decode(form::factors, where, codes, plain);
  add_decoded(form::factors, where, codes, -0.5F, sum);
  for (std::size_t i = 0; i < plain.size(); ++i)
    ASSERT_EQ(sum[i], 2.0F + -0.5F * plain[i]);
}

TEST(Factors, OfAnotherSizeAreNotSound) {
  const drawn_factors of(2, 24, 16);
  const std::int64_t count = 24 * 16;
  const auto good = codes_of(of.all, {3, count - 3});
  EXPECT_TRUE(is_sound(form::factors, {0, count}, good));
  EXPECT_FALSE(is_sound(form::factors, {0, count - 16}, good)) << "more elements than the range has";
  EXPECT_FALSE(is_sound(form::factors, {0, 64}, good)) << "more bytes than the elements take";
  for (std::size_t size = 0; size < good.size(); ++size)
    ASSERT_FALSE(is_sound(form::factors, {0, count}, std::span{good}.first(size))) << size;
  auto longer = good;
  longer.resize(good.size() + 8);
  EXPECT_FALSE(is_sound(form::factors, {0, count}, longer));
  // The number of rows of the factors, columns, the first element's column, elements; each with numbers that would be read or
  // multiplied beyond the bytes
  const std::vector<std::vector<std::uint32_t>> numbers{{0, 3, 1U << 16U, 1U << 31U, 0xffffffffU},
                                                        {0, 3, 14, 15, 1U << 31U, 0xffffffffU},
                                                        {16, 1U << 31U, 0xffffffffU},
                                                        {0, 385, 1U << 31U, 0xffffffffU}};
  for (std::size_t field = 0; field < numbers.size(); ++field)
    for (const std::uint32_t number : numbers[field]) {
      auto bad = good;
      std::memcpy(bad.data() + 4 * field, &number, 4);
      EXPECT_FALSE(is_sound(form::factors, {0, count}, bad)) << field << ": " << number;
    }
}

} // namespace
} // namespace troupe::kernels
