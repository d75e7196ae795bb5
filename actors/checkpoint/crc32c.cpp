// SPDX-License-Identifier: BSD-3-Clause
// CRC32C by SSE 4.2, and by tables for eight bytes at once.
#include "actors/checkpoint/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace troupe::actors {
namespace {

constexpr std::uint32_t polynomial = 0x82f6'3b78; // reflected
constexpr std::size_t stride = 8;
static_assert(std::endian::native == std::endian::little);

using tables = std::array<std::array<std::uint32_t, 256>, stride>;

/// tables[k][b]: what byte b does to the checksum when k more bytes follow it.
constexpr tables make_tables() {
  tables all{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    all[0][byte] = crc;
  }
  for (std::size_t k = 1; k < stride; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      all[k][byte] = (all[k - 1][byte] >> 8) ^ all[0][all[k - 1][byte] & 0xff];
  return all;
}

constexpr tables by_byte = make_tables();

std::uint64_t word_at(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= stride; left -= stride, at += stride)
    crc = _mm_crc32_u64(crc, word_at(at));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at)
    rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*at));
  return ~rest;
}
#endif

} // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= stride; left -= stride, at += stride) {
    const std::uint64_t word = word_at(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < stride; ++i)
      crc ^= by_byte[stride - 1 - i][(word >> (8 * i)) & 0xff];
  }
  for (; left > 0; --left, ++at)
    crc = (crc >> 8) ^ by_byte[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction)
    return by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

} // namespace troupe::actors
