// SPDX-License-Identifier: BSD-3-Clause
// Counts what this thread allocates, for tests of what a hostile claim may cost.
#pragma once

#include <cstddef>

namespace troupe::test {

/// Bytes that operator new has given to this thread since it began; freeing takes nothing off.
std::size_t allocated_bytes();

} // namespace troupe::test
