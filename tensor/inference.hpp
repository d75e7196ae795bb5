// SPDX-License-Identifier: BSD-3-Clause
// Shape inference: what each op makes of its inputs, and what it refuses.
#pragma once

#include <optional>
#include <vector>

#include "tensor/graph.hpp"

namespace troupe {

/// What an op's results are like. Where the inputs do not fit: errc::bad_model with their shapes.
result<std::vector<value>> infer(const ops::any& op, std::vector<value> inputs);

/// Whether `part` becomes `whole` by repetition: its last extents are matched with those of the other, and an extent of 1, or
/// none, is repeated; without rows it is repeated for each row.
bool repeats_to(const value& part, const value& whole);

/// Axes of an elementwise operation, the rows first: the extents of `whole` and, for a value that repeats to it, its steps along
/// them, 0 where it is repeated. At most kernels::most_axes, or none.
kernels::axes extents_with_rows(const value& whole, std::int64_t rows);
kernels::axes steps_within(const value& part, const value& whole, std::int64_t rows);

} // namespace troupe
