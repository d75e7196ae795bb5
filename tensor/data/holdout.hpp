// SPDX-License-Identifier: BSD-3-Clause
// Training samples that are kept for validation.
#pragma once

#include <cstdint>

#include "tensor/data/data_set.hpp"

namespace troupe {

/// How many of so many training samples `share` keeps: the nearest number, at least one; none where it is 0.
std::int64_t held_out(double share, std::int64_t samples);

/// Moves that share of the training samples, drawn by the seed, into `validation`; each half has them in their order. How
/// samples are scaled does not change. Refuses a share that leaves nothing to train with.
result<data_pair> hold_out(data_pair all, double share, std::uint64_t seed);

} // namespace troupe
