// SPDX-License-Identifier: BSD-3-Clause
// The norm of a gradient, as it is clipped by.
#pragma once

#include <vector>

#include "protocols/squared_norm.hpp"
#include "tensor/layout.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// The squares of what is trained, added up; none if `clip_norm` is 0. `gradient` is in host memory, a multiple of 16 floats from
/// the beginning of the flat array; `ranges` cover it. Blocks of 16 floats are summed in double and rounded once, so that the
/// bits do not depend on where the flat array is cut.
protocols::squared_norm squares_of(const float* gradient, const std::vector<update_range>& ranges, double clip_norm);

/// The terms times a factor.
std::vector<kernels::term> times(double factor, std::vector<kernels::term> terms);

} // namespace troupe::actors
