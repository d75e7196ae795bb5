// SPDX-License-Identifier: BSD-3-Clause
// Encoded words as the payload of a lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.hpp"

namespace troupe::actors {

/// In host memory; padded with zeros to a multiple of 64 bytes.
inline kernels::buffer lane_payload_of(const std::vector<std::uint64_t>& words, kernels::backend& queue) {
  auto out = queue.allocate_host((words.size() + 7) / 8 * 64);
  const auto bytes = std::as_bytes(std::span{words});
  std::ranges::copy(bytes, out.data());
  std::fill(out.data() + bytes.size(), out.data() + out.bytes(), std::byte{0});
  return out;
}

/// As many as the sender says, and no more than there are.
inline std::span<const std::uint64_t> words_in(const kernels::buffer& payload, std::uint64_t count) {
  const std::span all{reinterpret_cast<const std::uint64_t*>(payload.data()), payload.bytes() / sizeof(std::uint64_t)};
  return all.first(std::min<std::size_t>(count, all.size()));
}

} // namespace troupe::actors
