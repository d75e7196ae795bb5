// SPDX-License-Identifier: BSD-3-Clause
// Moving and mirroring images.
#include "tensor/data/augmentation.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/random.hpp"
#include "tensor/data/random_stream.hpp"
#include "tensor/parse_number.hpp"

namespace troupe {

namespace {

/// Everything is the other set's, but what a loader does with it.
class augmented_set final : public data_set {
public:
  augmented_set(std::shared_ptr<const data_set> images, const augmentation& how) : images_(std::move(images)), how_(how) {}

  std::int64_t size() const override { return images_->size(); }
  const data_format& format() const override { return images_->format(); }
  std::int32_t label(std::uint32_t index) const override { return images_->label(index); }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    images_->gather(indices, x, labels);
  }
  const augmentation* in_training() const override { return &how_; }

private:
  std::shared_ptr<const data_set> images_;
  augmentation how_;
};

/// How far along both axes, and whether mirrored.
struct movement {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

/// `from` and `to` are planes of (height, width).
void move_plane(const float* from, float* to, std::int64_t height, std::int64_t width, const movement& how) {
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x, ++to) {
      const auto row = y + how.down, column = (how.mirrored ? width - 1 - x : x) + how.right;
      *to = row >= 0 && row < height && column >= 0 && column < width ? from[row * width + column] : 0;
    }
}

} // namespace

result<augmentation> parse_augmentation(const std::vector<std::string>& words) {
  augmentation out;
  for (const auto& word : words) {
    const auto crop = word.starts_with("crop ") ? parse_number<std::int64_t>(word.substr(5)).value_or(0) : 0;
    const bool again = (crop > 0 && out.crop > 0) || (word == "flip" && out.flip);
    if (again || !(word == "flip" || crop > 0))
      return error{errc::bad_option,
                   fmt::format("data.augment has \"{}\"{}; it takes \"crop N\", N pixels from 1 on, and \"flip\"", word,
                               again ? " again" : "")};
    out.crop = std::max(out.crop, crop);
    out.flip = out.flip || word == "flip";
  }
  return out;
}

void augment(const augmentation& how, const shape& image, const epoch_key& key, std::span<const std::uint32_t> indices,
             float* x) {
  const auto height = image[1], width = image[2], elements = image.elements();
  std::vector<float> before(static_cast<std::size_t>(elements));
  for (const auto index : indices) {
    const auto drawn = kernels::random_block({.seed = key.seed, .stream = stream_augmentation, .step = key.epoch}, index);
    const auto moved = [&](std::uint32_t word) {
      return std::int64_t{kernels::random_below(word, static_cast<std::uint32_t>(2 * how.crop + 1))} - how.crop;
    };
    const movement by{moved(drawn[0]), moved(drawn[1]), how.flip && (drawn[2] & 1U) != 0};
    std::copy_n(x, elements, before.begin());
    for (std::int64_t plane = 0; plane < image[0]; ++plane)
      move_plane(before.data() + plane * height * width, x + plane * height * width, height, width, by);
    x += elements;
  }
}

result<std::shared_ptr<const data_set>> augmented(std::shared_ptr<const data_set> images, const augmentation& how) {
  const auto& format = images->format();
  if (format.type != dtype::f32 || format.sample.rank() != 3 || how.crop >= std::min(format.sample[1], format.sample[2]))
    return error{errc::bad_option,
                 fmt::format("data.augment is for images (channels, height, width){}, and a sample is {}; leave it out",
                             how.crop == 0 ? "" : fmt::format(" of more than {} pixels each way", how.crop),
                             format.sample.to_string())};
  return std::make_shared<augmented_set>(std::move(images), how);
}

} // namespace troupe
