// SPDX-License-Identifier: BSD-3-Clause
// How much memory this machine, or the control group that the process lives in, has.
#pragma once

#include <cstdint>

namespace troupe::kernels {

struct host_memory {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0; ///< what a process could take now: caches of files count as free
};

/// The smaller of what the machine and the process's control group (version 2) have.
host_memory find_host_memory();

} // namespace troupe::kernels
