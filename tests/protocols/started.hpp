// SPDX-License-Identifier: BSD-3-Clause
// A coordinator whose workers have all joined.
#pragma once

#include "protocols/coordinator.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {

inline coordinator started(const coordinator_options& options) {
  coordinator out{options};
  for (std::uint32_t i = 0; i < options.workers; ++i)
    out.on(join(i));
  return out;
}

} // namespace troupe::protocols
