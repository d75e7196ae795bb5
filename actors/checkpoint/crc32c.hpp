// SPDX-License-Identifier: BSD-3-Clause
// CRC32C (Castagnoli), the checksum of iSCSI and of many file formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::actors {

/// Of `bytes`, which follow those whose checksum is `before`. By the processor's own instruction where it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// The same, on every processor.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

} // namespace troupe::actors
