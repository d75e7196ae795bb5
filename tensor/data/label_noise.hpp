// SPDX-License-Identifier: BSD-3-Clause
// Labels that are wrong on purpose.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/data/random_stream.hpp"

namespace troupe {

/// Replaces each label, with probability `fraction`, by one drawn uniformly among all `classes`, its own included: with ten
/// classes a tenth of the replaced labels stay right. The fate of sample i depends only on (seed, i), and a larger fraction
/// replaces the same labels and more.
template <class Label>
void replace_labels(std::span<Label> labels, int classes, double fraction, std::uint64_t seed) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    random_stream draws{{.seed = seed, .stream = stream_label_noise, .step = i}};
    if (draws.uniform(0, 1) < fraction)
      labels[i] = static_cast<Label>(draws.below(static_cast<std::uint32_t>(classes)));
  }
}

} // namespace troupe
