// SPDX-License-Identifier: BSD-3-Clause
// A shard's file, byte by byte: protocols/wire/checkpoint.capnp is the specification.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "protocols/wire/checkpoint.hpp"

namespace troupe::actors {

inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t crc_piece_bytes = 1U << 20U;
/// Larger ones are not read: nobody wrote them.
inline constexpr std::uint64_t most_manifest_bytes = 1U << 30U;

constexpr std::uint64_t next_page(std::uint64_t offset) {
  return (offset + page_bytes - 1) / page_bytes * page_bytes;
}

struct shard_file_head {
  std::array<char, 8> magic{'T', 'R', 'O', 'U', 'P', 'E', 'C', 'K'};
  std::uint32_t format = protocols::wire::checkpoint_format;
  std::uint32_t footer_crc = 0;
  std::uint64_t footer_offset = 0, footer_bytes = 0;
  std::array<std::byte, 28> zeros{};
  std::uint32_t crc = 0; ///< of all before it
};
static_assert(sizeof(shard_file_head) == 64);

struct manifest_head {
  std::array<char, 8> magic{'T', 'R', 'O', 'U', 'P', 'E', 'M', 'F'};
  std::uint32_t format = protocols::wire::checkpoint_format;
  std::uint32_t crc = 0; ///< of what is before it and of what follows
};
static_assert(sizeof(manifest_head) == 16);

/// "it is of format 2, and this program reads up to 1; use a newer one". Throws std::runtime_error.
[[noreturn]] void throw_newer(const std::string& path, std::uint32_t format);

} // namespace troupe::actors
