// SPDX-License-Identifier: BSD-3-Clause
// load_data: sources, scaling, refusals; and the real MNIST where it is.
#include "tensor/data/data_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tensor/data/memory_set.hpp"
#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;

class DataSet : public data_files {};

struct gathered {
  floats x;
  ints labels;
};

gathered gather(const data_set& set, const std::vector<std::uint32_t>& indices) {
  gathered out{floats(indices.size() * static_cast<std::size_t>(set.sample().elements())), ints(indices.size())};
  set.gather(indices, out.x.data(), out.labels.data());
  return out;
}

/// Two training images of one pixel a channel and one test image, of `channels` channels.
data_pair pixels(std::int64_t channels, bytes train, bytes test, pixel_scale scale) {
  return make_image_pair({{{channels, 1, 1}, 10, std::move(train), {3, 4}}, {{channels, 1, 1}, 10, std::move(test), {5}}}, scale);
}

TEST_F(DataSet, PixelsAreStandardisedByTheTrainingSetsMoments) {
  auto pair = pixels(1, {0, 200}, {50}, pixel_scale::standard); // mean 100, deviation 100
  EXPECT_EQ(gather(*pair.train, {0, 1, 0}).x, (floats{-1, 1, -1}));
  EXPECT_EQ(gather(*pair.train, {1, 0}).labels, (ints{4, 3}));
  EXPECT_EQ(gather(*pair.test, {0}).x, (floats{-0.5F}));
  EXPECT_EQ(pair.scaling, (data_scaling{"channel", {100 / 255.0}, {100 / 255.0}}));
}

TEST_F(DataSet, EachChannelHasItsOwnMoments) {
  auto pair = pixels(3, {0, 10, 0, 20, 20, 100}, {10, 10, 150}, pixel_scale::standard);
  EXPECT_EQ(gather(*pair.train, {0}).x, (floats{-1, -1, -1}));
  EXPECT_EQ(gather(*pair.test, {0}).x, (floats{0, -1, 2}));
  EXPECT_EQ(pair.scaling, (data_scaling{"channel", {10 / 255.0, 15 / 255.0, 50 / 255.0}, {10 / 255.0, 5 / 255.0, 50 / 255.0}}));
}

TEST_F(DataSet, ConstantPixelsAreOnlyCentred) {
  auto pair = pixels(1, {7, 7}, {9}, pixel_scale::standard);
  EXPECT_EQ(gather(*pair.train, {0}).x, (floats{0}));
  EXPECT_EQ(gather(*pair.test, {0}).x, (floats{2}));
  EXPECT_EQ(pair.scaling, (data_scaling{"channel", {7 / 255.0}, {1 / 255.0}}));
}

TEST_F(DataSet, UnitScaleDividesBy255) {
  auto pair = pixels(1, {0, 255}, {51}, pixel_scale::unit);
  EXPECT_EQ(gather(*pair.train, {0, 1}).x, (floats{0, 1}));
  EXPECT_FLOAT_EQ(gather(*pair.test, {0}).x[0], 0.2F);
  EXPECT_EQ(pair.scaling, (data_scaling{"channel", {0}, {1}}));
}

TEST_F(DataSet, ColumnsAreStandardisedEachByItsOwnMoments) {
  auto pair =
      load_data({.source = "csv", .path = write("a.csv", "1,10,0\n3,50,1\n"), .test_path = write("b.csv", "5,30,1\n")}, 0);
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->train->sample(), (shape{2}));
  EXPECT_EQ(pair->test->classes(), 2);
  EXPECT_EQ(gather(*pair->train, {1, 0}).x, (floats{1, 1, -1, -1}));
  EXPECT_EQ(gather(*pair->train, {1, 0}).labels, (ints{1, 0}));
  EXPECT_EQ(gather(*pair->test, {0}).x, (floats{3, 0}));
  EXPECT_EQ(pair->scaling, (data_scaling{"column", {2, 30}, {1, 20}}));
}

// The mean of ten times 0.1 is not quite 0.1: dividing by that deviation would make 1e16 of 0.3.
TEST_F(DataSet, ConstantColumnIsOnlyCentred) {
  std::string rows;
  for (int i = 0; i < 10; ++i)
    rows += "0.1,0\n";
  auto pair = load_data({.source = "csv", .path = write("a.csv", rows), .test_path = write("b.csv", "0.3,0\n")}, 0);
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_NEAR(gather(*pair->train, {0}).x[0], 0, 1e-9);
  EXPECT_NEAR(gather(*pair->test, {0}).x[0], 0.2, 1e-7);
}

TEST_F(DataSet, DigitsNeedNoFile) {
  auto pair = load_data({.train_samples = 30, .test_samples = 20}, 5);
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->train->size(), 30);
  EXPECT_EQ(pair->test->size(), 20);
  EXPECT_EQ(pair->train->sample(), (shape{1, 28, 28}));
  EXPECT_EQ(pair->train->classes(), 10);
  std::vector<std::uint32_t> all(30);
  std::iota(all.begin(), all.end(), 0U);
  auto x = gather(*pair->train, all).x;
  double sum = 0, squares = 0;
  for (double value : x) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / static_cast<double>(x.size()), 0, 1e-6);
  EXPECT_NEAR(squares / static_cast<double>(x.size()), 1, 1e-6);
  EXPECT_NE(x, gather(*load_data({.train_samples = 30, .test_samples = 20}, 6)->train, all).x); // the seed matters
}

ints labels_of(const data_set& set) {
  ints labels;
  for (std::uint32_t i = 0; i < set.size(); ++i)
    labels.push_back(set.label(i));
  return labels;
}

TEST_F(DataSet, ASamplesLabelIsTheOneThatIsGathered) {
  auto digits = load_data({.train_samples = 30, .test_samples = 20}, 5);
  auto table =
      load_data({.source = "csv", .path = write("a.csv", "1,10,0\n3,50,1\n2,2,4\n"), .test_path = write("b.csv", "5,30,1\n")}, 0);
  for (const auto& set : {digits->train, digits->test, table->train, table->test}) {
    std::vector<std::uint32_t> all(static_cast<std::size_t>(set->size()));
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(labels_of(*set), gather(*set, all).labels);
  }
}

// 3,000 of 10,000 labels are drawn anew, and one in ten of those is drawn as it was: 2,700 change, with a deviation of 44.
TEST_F(DataSet, LabelNoiseReplacesItsShareOfTheTrainingLabels) {
  const data_spec clean{.train_samples = 10000, .test_samples = 500};
  data_spec noisy = clean;
  noisy.label_noise = 0.3;
  const auto before = load_data(clean, 3).value(), after = load_data(noisy, 3).value(), again = load_data(noisy, 3).value();
  const auto was = labels_of(*before.train), is = labels_of(*after.train);
  EXPECT_EQ(is, labels_of(*again.train));
  EXPECT_EQ(labels_of(*before.test), labels_of(*after.test));
  EXPECT_EQ(gather(*before.train, {0, 9999}).x, gather(*after.train, {0, 9999}).x);
  int changed = 0;
  std::vector<int> drawn(10);
  for (std::size_t i = 0; i < was.size(); ++i)
    if (was[i] != is[i]) {
      ++changed;
      ++drawn[static_cast<std::size_t>(is[i])];
    }
  EXPECT_NEAR(changed, 2700, 3 * 44);
  for (auto count : drawn)
    EXPECT_NEAR(count, 270, 5 * 16.2) << "every class is as likely";
}

TEST_F(DataSet, LabelNoiseOfATableDrawsAmongItsClasses) {
  std::string rows;
  for (int i = 0; i < 3000; ++i)
    rows += "1,2\n"; // all of class 2, so that there are three
  const auto path = write("rows.csv", rows), test = write("test.csv", "1,2\n");
  const auto pair = load_data({.source = "csv", .path = path, .test_path = test, .label_noise = 1}, 0).value();
  std::vector<int> drawn(3);
  for (auto label : labels_of(*pair.train))
    ++drawn.at(static_cast<std::size_t>(label));
  for (auto count : drawn)
    EXPECT_NEAR(count, 1000, 3 * 25.8);
  EXPECT_NE(labels_of(*pair.train),
            labels_of(*load_data({.source = "csv", .path = path, .test_path = test, .label_noise = 1}, 1)->train));
}

TEST_F(DataSet, IdxAndCifar10AreRead) {
  for (const std::string half : {"train", "t10k"}) {
    write(half + "-images-idx3-ubyte", idx_header({2, 1, 1}) + bytes{0, 200});
    write(half + "-labels-idx1-ubyte", idx_header({2}) + bytes{1, 2});
  }
  for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"})
    write(name + ".bin", bytes(3073, 1));
  auto idx = load_data({.source = "idx", .path = folder()}, 0);
  ASSERT_TRUE(idx) << idx.error().message;
  EXPECT_EQ(gather(*idx->test, {1}).x, (floats{1}));
  auto cifar10 = load_data({.source = "cifar10", .path = folder(), .scale = "unit"}, 0);
  ASSERT_TRUE(cifar10) << cifar10.error().message;
  EXPECT_EQ(cifar10->train->size(), 5);
  EXPECT_EQ(cifar10->train->sample(), (shape{3, 32, 32}));
}

TEST_F(DataSet, WhatIsOutOfRangeIsRefusedWithWhatWouldBeRight) {
  auto refusal = [](const data_spec& spec) {
    auto pair = load_data(spec, 0);
    EXPECT_TRUE(pair.has_error() && pair.error().code == errc::bad_option);
    return message_of(pair);
  };
  EXPECT_EQ(refusal({.source = "mnist", .path = "x"}), "data.source = \"mnist\"; it is \"digits\", \"idx\", \"cifar10\", "
                                                       "\"csv\", \"text\", \"tokens\", \"npy\" or \"safetensors\"");
  EXPECT_EQ(refusal({.source = "idx"}), "data.path is missing; source = \"idx\" reads from there");
  EXPECT_EQ(refusal({.scale = "log"}), "data.scale = \"log\"; it is \"standard\" or \"unit\"");
  EXPECT_EQ(refusal({.source = "csv", .path = "x", .scale = "unit"}),
            "data.scale = \"unit\" is for pixels; a csv source takes \"standard\"");
  EXPECT_EQ(refusal({.label_noise = 1.5}), "data.label_noise = 1.5; it is a fraction, 0 to 1");
  EXPECT_EQ(refusal({.label_noise = std::nan("")}), "data.label_noise = nan; it is a fraction, 0 to 1");
  EXPECT_EQ(refusal({.train_samples = 0}), "data.train_samples = 0; digits draws 1 to 5478274 samples");
  EXPECT_EQ(refusal({.test_samples = std::int64_t{1} << 40}),
            "data.test_samples = 1099511627776; digits draws 1 to 5478274 samples");
}

TEST_F(DataSet, ReadersRefusalIsPassedOn) {
  auto pair = load_data({.source = "csv", .path = folder() / "none.csv"}, 0);
  EXPECT_EQ(message_of(pair),
            (folder() / "none.csv").string() + ": no such file; data.path, or data.test_path, says where the data is");
  EXPECT_EQ(pair.error().code, errc::bad_data);
}

TEST_F(DataSet, RealMnistHasItsKnownCountsAndMoments) {
  const char* given = std::getenv("TROUPE_DATA");
  auto path = std::filesystem::path{given != nullptr ? given : TROUPE_SOURCE_DIR "/../shared/data"} / "mnist";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no MNIST at " << path << " (TROUPE_DATA names the folder that holds mnist/)";
  auto unit = load_data({.source = "idx", .path = path, .scale = "unit"}, 0);
  ASSERT_TRUE(unit) << unit.error().message;
  EXPECT_EQ(unit->train->size(), 60000);
  EXPECT_EQ(unit->test->size(), 10000);
  EXPECT_EQ(unit->train->sample(), (shape{1, 28, 28}));

  auto standard = load_data({.source = "idx", .path = path}, 0);
  ASSERT_TRUE(standard) << standard.error().message;
  // A black pixel and a bright one give mean and deviation away: x = (pixel - mean) / deviation.
  auto x = gather(*standard->train, {0}).x, raw = gather(*unit->train, {0}).x;
  auto black = x[static_cast<std::size_t>(std::ranges::find(raw, 0.0F) - raw.begin())];
  auto brightest = std::ranges::max_element(raw) - raw.begin();
  auto deviation = 255 * raw[static_cast<std::size_t>(brightest)] / (x[static_cast<std::size_t>(brightest)] - black);
  EXPECT_NEAR(deviation, 78.567, 0.001);
  EXPECT_NEAR(-black * deviation, 33.318, 0.001);
}

} // namespace
} // namespace troupe
