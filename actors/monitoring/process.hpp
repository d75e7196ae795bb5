// SPDX-License-Identifier: BSD-3-Clause
// Memory and CPU time of this process.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// Resident set size in bytes (Linux: /proc/self/statm); 0 where it cannot be read.
std::uint64_t resident_bytes();

/// CPU time used, user and system.
double cpu_seconds();

} // namespace troupe::actors
