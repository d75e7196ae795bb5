// SPDX-License-Identifier: BSD-3-Clause
// What the operating system says of this process.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// Resident set size in bytes (Linux: /proc/self/statm); 0 where it cannot be read.
std::uint64_t resident_bytes();

/// Time of processors that it has taken, in user code and in the system's.
double cpu_seconds();

} // namespace troupe::actors
