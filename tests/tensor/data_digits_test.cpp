// SPDX-License-Identifier: BSD-3-Clause
// Drawn digits: the same on every machine, different for every key, and worth learning.
#include "tensor/data/digits.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using image = std::array<std::uint8_t, digit_pixels>;

image drawn(const digit_key& key) {
  image pixels{};
  draw_digit(key, pixels);
  return pixels;
}

/// FNV-1a.
std::uint64_t digest(const std::vector<std::uint8_t>& bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  for (auto byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

TEST(Digits, SampleDependsOnItsKeyAlone) {
  auto few = draw_digits(4, 3, 2), more = draw_digits(4, 30, 20);
  EXPECT_TRUE(std::ranges::equal(few.train.pixels, std::span{more.train.pixels}.first(few.train.pixels.size())));
  EXPECT_TRUE(std::ranges::equal(few.test.pixels, std::span{more.test.pixels}.first(few.test.pixels.size())));
  EXPECT_TRUE(std::ranges::equal(std::span{more.train.pixels}.subspan(29 * digit_pixels), drawn({4, split::train, 29})));
}

TEST(Digits, EveryPartOfTheKeyMatters) {
  const digit_key key{4, split::train, 7};
  EXPECT_EQ(drawn(key), drawn(key));
  EXPECT_NE(drawn(key), drawn({5, split::train, 7}));
  EXPECT_NE(drawn(key), drawn({std::uint64_t{4} << 32, split::train, 7}));
  EXPECT_NE(drawn(key), drawn({4, split::test, 7}));
  EXPECT_NE(drawn(key), drawn({4, split::train, 8}));
}

// The bytes are part of what makes a run repeat: a change of them changes every result on digits. Drawing uses nothing that
// a machine, a compiler or a maths library may round its own way, so this holds everywhere.
TEST(Digits, BytesAreTheSameOnEveryMachine) {
  auto files = draw_digits(1, 1000, 100);
  EXPECT_EQ(digest(files.train.labels), 17514628959955973804U);
  EXPECT_EQ(digest(files.test.pixels, digest(files.train.pixels)), 3932803515978251421U);
}

TEST(Digits, LabelsAreBalanced) {
  std::array<int, 10> count{};
  for (auto label : draw_digits(2, 5000, 1).train.labels)
    ++count.at(label);
  for (auto n : count)
    EXPECT_NEAR(n, 500, 106); // five standard deviations
}

TEST(Digits, NoTwoSamplesAreAlike) {
  auto files = draw_digits(3, 2000, 2000);
  std::set<std::string> seen;
  for (const auto* half : {&files.train, &files.test})
    for (auto at = half->pixels.begin(); at != half->pixels.end(); at += digit_pixels)
      seen.emplace(at, at + digit_pixels);
  EXPECT_EQ(seen.size(), 4000U);
}

TEST(Digits, EveryImageHasInkInItsMiddleAndLittleAtItsBorder) {
  auto images = draw_digits(6, 2000, 1).train;
  std::int64_t border = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const auto* pixels = images.pixels.data() + i * digit_pixels;
    int bright = 0;
    for (int at = 0; at < digit_pixels; ++at) {
      auto row = at / digit_side, column = at % digit_side;
      auto outside = row < 2 || row >= digit_side - 2 || column < 2 || column >= digit_side - 2;
      bright += !outside && pixels[at] > 128;
      border += outside && pixels[at] > 128;
    }
    EXPECT_GE(bright, 12) << "sample " << i << ", digit " << int{images.labels[i]};
    EXPECT_LE(bright, 300) << "sample " << i << ", digit " << int{images.labels[i]};
  }
  EXPECT_LT(border, 2000 * 3); // of 208 such pixels an image
}

// The mean image of a digit tells much (far more than the 0.1 of chance), yet not enough: what is left is for a network.
TEST(Digits, NearestMeanImageIsRightOftenButNotOftenEnough) {
  auto files = draw_digits(8, 4000, 1000);
  std::array<std::array<double, digit_pixels>, 10> means{};
  std::array<double, 10> count{};
  for (auto label : files.train.labels)
    ++count[label];
  for (std::size_t i = 0; i < files.train.pixels.size(); ++i) {
    auto label = files.train.labels[i / digit_pixels];
    means[label][i % digit_pixels] += files.train.pixels[i] / count[label];
  }
  int right = 0;
  for (std::size_t i = 0; i < files.test.labels.size(); ++i) {
    auto distance_to = [&](const auto& mean) {
      double sum = 0;
      for (std::size_t at = 0; at < digit_pixels; ++at)
        sum += (files.test.pixels[i * digit_pixels + at] - mean[at]) * (files.test.pixels[i * digit_pixels + at] - mean[at]);
      return sum;
    };
    auto nearest = std::ranges::min_element(means, {}, distance_to) - means.begin();
    right += nearest == files.test.labels[i];
  }
  EXPECT_GT(right, 650);
  EXPECT_LT(right, 850);
}

} // namespace
} // namespace troupe
