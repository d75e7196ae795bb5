// SPDX-License-Identifier: BSD-3-Clause
// Augmented images: which changes, in which epoch, and that no worker makes another of them.
#include "tensor/data/augmentation.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tensor/data/batch_loader.hpp"
#include "tests/tensor/counting_set.hpp"

namespace troupe {
namespace {

using testing::allocate;
using floats = std::vector<float>;

/// Sample i is an image of one channel (3, 4) whose pixels are 100 i + 1 to 100 i + 12.
class image_rows final : public data_set {
public:
  std::int64_t size() const override { return 400; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t) const override { return 0; }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    auto* pixel = static_cast<float*>(x);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (int p = 1; p <= 12; ++p)
        *pixel++ = static_cast<float>(100 * indices[i]) + static_cast<float>(p);
      static_cast<std::int32_t*>(labels)[i] = 0;
    }
  }

private:
  data_format format_{{1, 3, 4}, 2};
};

std::shared_ptr<const data_set> images(const augmentation& how) {
  return augmented(std::make_shared<image_rows>(), how).value();
}

/// The images of an epoch's rows [begin, end) by their samples.
std::map<std::uint32_t, floats> loaded(const std::shared_ptr<const data_set>& data, std::uint64_t epoch, std::int64_t begin,
                                       std::int64_t end) {
  batch_loader loader{data, 3, allocate};
  const auto order = epoch_permutation(3, epoch, data->size());
  const auto rows = loader.load({epoch, begin, end});
  std::map<std::uint32_t, floats> out;
  for (auto row = begin; row < end; ++row) {
    const auto* first = rows.x.as<float>() + 12 * (row - begin);
    out[order[static_cast<std::size_t>(row)]] = floats(first, first + 12);
  }
  return out;
}

floats plain(std::uint32_t sample) {
  floats x(12);
  std::int32_t label = 0;
  image_rows{}.gather({&sample, 1}, x.data(), &label);
  return x;
}

TEST(Augmentation, FlipMirrorsAboutHalfOfTheImages) {
  int mirrored = 0;
  for (const auto& [sample, image] : loaded(images({.flip = true}), 0, 0, 400)) {
    auto other = plain(sample);
    for (int row = 0; row < 3; ++row)
      std::reverse(other.begin() + 4 * row, other.begin() + 4 * row + 4);
    ASSERT_TRUE(image == plain(sample) || image == other) << sample;
    mirrored += image == other ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 200, 40);
}

TEST(Augmentation, CropMovesImagesToEverySide) {
  std::set<std::pair<int, int>> seen;
  for (const auto& [sample, image] : loaded(images({.crop = 1}), 0, 0, 400)) {
    // The pixel that is in the middle tells by how much: row 1, column 1 has number 6.
    const int found = static_cast<int>(image[5]) - static_cast<int>(100 * sample) - 1;
    const int down = found / 4 - 1, right = found % 4 - 1;
    seen.emplace(down, right);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 4; ++x) {
        const bool inside = y + down >= 0 && y + down < 3 && x + right >= 0 && x + right < 4;
        const auto expected = inside ? plain(sample)[static_cast<std::size_t>(4 * (y + down) + x + right)] : 0;
        ASSERT_EQ(image[static_cast<std::size_t>(4 * y + x)], expected) << sample;
      }
  }
  EXPECT_EQ(seen.size(), 9U) << "of -1, 0 and 1 along both axes";
}

TEST(Augmentation, DependsOnTheSampleAndTheEpochAlone) {
  const auto data = images({.crop = 1, .flip = true});
  const auto whole = loaded(data, 5, 0, 400);
  for (const auto& [sample, image] : loaded(data, 5, 37, 61))
    EXPECT_EQ(image, whole.at(sample)) << "another worker's rows";
  // By worker, the samples come in another order and are the same.
  batch_loader own{data, 3, allocate, {.by_worker = true, .worker = 1, .workers = 3}};
  const auto order = own_order(own_samples({.by_worker = true, .worker = 1, .workers = 3}, 3, *data), 1, 3, 5);
  const auto rows = own.load({5, 2, 6});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(floats(rows.x.as<float>() + 12 * i, rows.x.as<float>() + 12 * (i + 1)), whole.at(order[2 + i]));
  int same = 0;
  for (const auto& [sample, image] : loaded(data, 6, 0, 400))
    same += image == whole.at(sample) ? 1 : 0;
  EXPECT_LT(same, 60) << "of 400; one in eighteen would be by chance";
}

TEST(Augmentation, EvaluationsSeeTheImagesAsTheyAre) {
  const batch_loader loader{images({.crop = 1, .flip = true}), 3, allocate};
  const auto rows = loader.load_in_order(7, 9);
  EXPECT_EQ(floats(rows.x.as<float>(), rows.x.as<float>() + 12), plain(7));
  EXPECT_EQ(floats(rows.x.as<float>() + 12, rows.x.as<float>() + 24), plain(8));
}

TEST(Augmentation, OnlyTheTrainingHalfIsAugmented) {
  const auto data = load_data({.augment = {"flip", "crop 4"}, .train_samples = 20, .test_samples = 10}, 1).value();
  EXPECT_EQ(data.train->in_training()->crop, 4);
  EXPECT_TRUE(data.train->in_training()->flip);
  EXPECT_EQ(data.test->in_training(), nullptr);
}

TEST(Augmentation, WhatIsNoneIsRefused) {
  const auto why = [](const std::vector<std::string>& words) { return parse_augmentation(words).error().message; };
  EXPECT_EQ(why({"flop"}), "data.augment has \"flop\"; it takes \"crop N\", N pixels from 1 on, and \"flip\"");
  EXPECT_EQ(why({"flip", "crop 0"}), "data.augment has \"crop 0\"; it takes \"crop N\", N pixels from 1 on, and \"flip\"");
  EXPECT_EQ(why({"crop 2", "crop 3"}),
            "data.augment has \"crop 3\" again; it takes \"crop N\", N pixels from 1 on, and \"flip\"");
  EXPECT_EQ(load_data({.augment = {"crop 28"}, .train_samples = 20, .test_samples = 10}, 1).error().message,
            "data.augment is for images (channels, height, width) of more than 28 pixels each way, and a sample is (1, 28, 28); "
            "leave it out");
  EXPECT_EQ(augmented(std::make_shared<testing::counting_set>(5), {.flip = true}).error().message,
            "data.augment is for images (channels, height, width), and a sample is (2); leave it out");
}

} // namespace
} // namespace troupe
