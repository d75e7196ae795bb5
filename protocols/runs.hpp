// SPDX-License-Identifier: BSD-3-Clause
// Neighbours that are alike.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::protocols {

/// Of the numbers 0 to `count` - 1: how many in a row have the same `key`, each such row in turn.
template <class Key>
std::vector<std::uint32_t> sizes_of_runs(std::uint32_t count, Key key) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i == 0 || key(i) != key(i - 1))
      out.push_back(0);
    ++out.back();
  }
  return out;
}

} // namespace troupe::protocols
