// SPDX-License-Identifier: BSD-3-Clause
// image_set and table_set: gathering and scaling.
#include "tensor/data/memory_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// y = (x - mean) * factor.
struct affine {
  float mean = 0, factor = 1;
};

constexpr double brightest = 255;

/// `unit`: the raw value that stands for 1.
data_scaling scaling_of(const std::vector<moments>& all, std::string pair_of, double unit) {
  data_scaling out{.pair_of = std::move(pair_of)};
  for (const auto& column : all) {
    out.mean.push_back(column.mean / unit);
    out.deviation.push_back((column.std > 0 ? column.std : 1) / unit);
  }
  return out;
}

affine standardising(const moments& column) {
  return {static_cast<float>(column.mean), column.std > 0 ? static_cast<float>(1 / column.std) : 1.0F};
}

class image_set final : public data_set {
public:
  image_set(labelled_images images, std::vector<affine> channels)
      : images_(std::move(images)), format_{images_.sample, images_.classes}, channels_(std::move(channels)),
        plane_(images_.sample[1] * images_.sample[2]) {
    TROUPE_ASSERT(static_cast<std::int64_t>(channels_.size()) == images_.sample[0]);
    TROUPE_ASSERT(static_cast<std::int64_t>(images_.pixels.size()) == size() * images_.sample[0] * plane_);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.labels.size()); }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t index) const override { return images_.labels.at(index); }

  void gather(std::span<const std::uint32_t> indices, void* samples, void* classes) const override {
    auto* x = static_cast<float*>(samples);
    auto* labels = static_cast<std::int32_t*>(classes);
    for (auto index : indices) {
      TROUPE_ASSERT(index < images_.labels.size());
      const auto* pixels = images_.pixels.data() + index * static_cast<std::int64_t>(channels_.size()) * plane_;
      for (auto [mean, factor] : channels_) {
        for (std::int64_t i = 0; i < plane_; ++i)
          x[i] = (static_cast<float>(pixels[i]) - mean) * factor;
        x += plane_;
        pixels += plane_;
      }
      *labels++ = images_.labels[index];
    }
  }

private:
  labelled_images images_;
  data_format format_;
  std::vector<affine> channels_;
  std::int64_t plane_; ///< pixels of one channel
};

/// Holds its values scaled: gathering is copying.
class table_set final : public data_set {
public:
  explicit table_set(labelled_rows rows) : rows_(std::move(rows)), format_{{rows_.columns}, rows_.classes} {
    TROUPE_ASSERT(static_cast<std::int64_t>(rows_.values.size()) == size() * rows_.columns);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.labels.size()); }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t index) const override { return rows_.labels.at(index); }

  void gather(std::span<const std::uint32_t> indices, void* samples, void* classes) const override {
    auto* x = static_cast<float*>(samples);
    auto* labels = static_cast<std::int32_t*>(classes);
    for (auto index : indices) {
      TROUPE_ASSERT(index < rows_.labels.size());
      x = std::copy_n(rows_.values.data() + index * rows_.columns, rows_.columns, x);
      *labels++ = rows_.labels[index];
    }
  }

private:
  labelled_rows rows_;
  data_format format_;
};

std::vector<moments> column_moments(const labelled_rows& rows) {
  auto samples = static_cast<double>(rows.labels.size());
  std::vector<moments> columns(static_cast<std::size_t>(rows.columns), {0, 0});
  auto each = [&](auto&& visit) {
    for (std::size_t i = 0; i < rows.values.size(); ++i)
      visit(columns[i % columns.size()], static_cast<double>(rows.values[i]));
  };
  each([&](moments& column, double value) { column.mean += value / samples; });
  each([&](moments& column, double value) { column.std += (value - column.mean) * (value - column.mean) / samples; });
  for (std::size_t c = 0; c < columns.size(); ++c) {
    // The computed deviation of a constant column is the rounding of its mean; dividing by it would blow the column up.
    auto constant = true;
    for (auto i = c; i < rows.values.size() && constant; i += columns.size())
      constant = rows.values[i] == rows.values[c];
    columns[c].std = constant ? 0 : std::sqrt(columns[c].std);
  }
  return columns;
}

void scale(labelled_rows& rows, const std::vector<moments>& columns) {
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    const auto& column = columns[i % columns.size()];
    rows.values[i] = static_cast<float>((rows.values[i] - column.mean) / (column.std > 0 ? column.std : 1));
  }
}

} // namespace

std::vector<moments> pixel_moments(const labelled_images& images) {
  auto channels = static_cast<std::size_t>(images.sample[0]);
  auto plane = static_cast<std::size_t>(images.sample[1] * images.sample[2]);
  std::vector<std::uint64_t> sums(channels), squares(channels);
  for (std::size_t begin = 0; begin < images.pixels.size(); begin += plane) {
    std::uint64_t sum = 0, square = 0;
    for (auto i = begin; i < begin + plane; ++i) {
      std::uint32_t pixel = images.pixels[i];
      sum += pixel;
      square += pixel * pixel;
    }
    sums[begin / plane % channels] += sum;
    squares[begin / plane % channels] += square;
  }
  std::vector<moments> result;
  auto count = static_cast<double>(images.labels.size()) * static_cast<double>(plane);
  for (std::size_t c = 0; c < channels; ++c) {
    auto mean = static_cast<double>(sums[c]) / count;
    result.push_back({mean, std::sqrt(std::max(0.0, static_cast<double>(squares[c]) / count - mean * mean))});
  }
  return result;
}

data_pair make_image_pair(image_halves images, pixel_scale scale) {
  auto& [train, test] = images;
  TROUPE_ASSERT(train.sample == test.sample && !train.labels.empty());
  const auto count = static_cast<std::size_t>(train.sample[0]);
  std::vector<affine> channels(count, {0, 1 / 255.0F});
  std::vector<moments> counted(count, {0, brightest});
  if (scale == pixel_scale::standard) {
    counted = pixel_moments(train);
    std::ranges::transform(counted, channels.begin(), standardising);
  }
  return {std::make_shared<image_set>(std::move(train), channels), std::make_shared<image_set>(std::move(test), channels),
          scaling_of(counted, "channel", brightest)};
}

data_pair make_table_pair(table_halves rows) {
  auto& [train, test] = rows;
  TROUPE_ASSERT(train.columns == test.columns && !train.labels.empty());
  auto columns = column_moments(train);
  scale(train, columns);
  scale(test, columns);
  return {std::make_shared<table_set>(std::move(train)), std::make_shared<table_set>(std::move(test)),
          scaling_of(columns, "column", 1)};
}

} // namespace troupe
