// SPDX-License-Identifier: BSD-3-Clause
// One visitor out of several cases.
#pragma once

namespace troupe::protocols::sim {

template <class... Cases>
struct cases : Cases... {
  using Cases::operator()...;
};

} // namespace troupe::protocols::sim
