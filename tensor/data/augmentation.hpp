// SPDX-License-Identifier: BSD-3-Clause
// Images that are another each epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// `data.augment` of a job file, each at most once.
struct augmentation {
  std::int64_t crop = 0; ///< "crop N": the image moves by up to N pixels along each axis; what comes in is 0, the mean
  bool flip = false;     ///< "flip": left and right are exchanged, in half of the draws
};
result<augmentation> parse_augmentation(const std::vector<std::string>& words);

/// An epoch of a job.
struct epoch_key {
  std::uint64_t seed = 0, epoch = 0;
};

/// Changes scaled images x(indices, C, H, W) in place. What becomes of sample i depends on (seed, epoch, i) alone, so that every
/// worker would make the same of it.
void augment(const augmentation& how, const shape& image, const epoch_key& key, std::span<const std::uint32_t> indices, float* x);

/// The same set, which a batch_loader augments as it loads a step's rows. An error where its samples are no images that are
/// larger than the crop.
result<std::shared_ptr<const data_set>> augmented(std::shared_ptr<const data_set> images, const augmentation& how);

} // namespace troupe
