// SPDX-License-Identifier: BSD-3-Clause
// Where each value of a program lives while it is needed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tensor/graph.hpp"

namespace troupe {

/// What an address of a program is relative to.
enum class region : std::uint8_t {
  nowhere,    ///< never read: the backend gets a null pointer
  workspace,  ///< the plan's own memory
  parameters, ///< step_args::parameters
  gradients,  ///< step_args::gradients
  report,     ///< copied to the host at the end
};

/// An address: elements (of 4 bytes) from the beginning of a region.
struct place {
  region where = region::nowhere;
  std::int64_t offset = 0;
  friend bool operator==(const place&, const place&) = default;
};

struct placement {
  std::vector<place> by_value; ///< per value of the graph
  std::int64_t workspace_floats = 0;
};

/// Gives every value of `program` that is not in `fixed` a place in the workspace, large enough for `max_rows`. Values whose
/// lifetimes do not meet share memory; an elementwise result takes the place of an argument that dies with it; a reshaped
/// value is the same memory. A sum that a node adds to has the place of that result, fixed or not. Inputs live from before the
/// first instruction. Places begin at multiples of 16 elements.
///
/// Lifetimes are those of an in-order queue: an instruction's results may overwrite what the instructions before it read.
placement place_values(const graph& g, const std::vector<node>& program, const std::map<value_id, place>& fixed,
                       std::int64_t max_rows);

} // namespace troupe
