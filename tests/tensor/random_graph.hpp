// SPDX-License-Identifier: BSD-3-Clause
// Models drawn from a seed, for properties that hold for every graph.
#pragma once

#include <random>

#include "tensor/model.hpp"

namespace troupe::testing {

/// A small model of any operations: values of one to three extents beside the rows, some read by several nodes and some by none,
/// parameters of which some are shared.
model random_model(std::mt19937& random);

/// TROUPE_TEST_SEED, or else this one. A test prints it.
unsigned seed_or(unsigned usual);

} // namespace troupe::testing
