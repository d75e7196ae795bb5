// SPDX-License-Identifier: BSD-3-Clause
// What the operating system says of this process.
#include "actors/process.hpp"

#include <fstream>

#include <unistd.h>

namespace troupe::actors {

std::uint64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace troupe::actors
