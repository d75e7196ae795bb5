// SPDX-License-Identifier: BSD-3-Clause
// Encoding and decoding, block by block.
#include "kernels/codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/assert.hpp"
#include "kernels/half.hpp"
#include "kernels/random.hpp"

namespace troupe::kernels {

namespace {

using bytes = std::span<std::byte>;
using const_bytes = std::span<const std::byte>;

template <class T>
T number_at(const_bytes from, std::size_t at) {
  T out;
  std::memcpy(&out, from.data() + at * sizeof(T), sizeof(T));
  return out;
}
template <class T>
void put_number(bytes to, std::size_t at, T value) {
  std::memcpy(to.data() + at * sizeof(T), &value, sizeof(T));
}

constexpr std::int64_t block_of(form as) {
  return as == form::onebit ? 512 : 256;
}
std::size_t blocks_in(form as, const coded_range& where) {
  if (where.count == 0)
    return 0;
  const std::int64_t length = block_of(as);
  return static_cast<std::size_t>((where.begin + where.count + length - 1) / length - where.begin / length);
}
/// Scales and means, in front of the elements.
std::size_t head_bytes(form as, const coded_range& where) {
  switch (as) {
  case form::int8:
  case form::int4:
    return sizeof(float) * blocks_in(as, where);
  case form::onebit:
    return 2 * sizeof(float) * blocks_in(as, where);
  default:
    return 0;
  }
}

/// Calls `each(number, first, last)` for each block, with places in the range.
template <class Each>
void for_blocks(form as, const coded_range& where, Each each) {
  const std::int64_t length = block_of(as);
  std::size_t number = 0;
  for (std::int64_t first = 0; first < where.count; ++number) {
    const std::int64_t next = ((where.begin + first) / length + 1) * length - where.begin;
    const std::int64_t last = std::min(next, where.count);
    each(number, static_cast<std::size_t>(first), static_cast<std::size_t>(last));
    first = last;
  }
}

// -- 16 bits

std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
  const float size = std::min(std::fabs(x), 65504.0F);
  const auto raw = std::bit_cast<std::uint32_t>(size);
  std::uint32_t out = 0;
  if (size < 0x1p-14F) { // subnormal there: a whole number of 2^-24, which the addition rounds
    out = std::bit_cast<std::uint32_t>(size + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    const std::uint32_t odd = raw >> 13U & 1U;
    out = (raw - (std::uint32_t{112} << 23U) + 0xfffU + odd) >> 13U;
  }
  return static_cast<std::uint16_t>(sign | std::min(out, std::uint32_t{0x7bff}));
}

std::uint16_t to_bfloat(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffU, odd = size >> 16U & 1U;
  const std::uint32_t out = std::min((size + 0x7fffU + odd) >> 16U, std::uint32_t{0x7f7f});
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | out);
}

// -- whole numbers

constexpr int levels(form as) {
  return as == form::int8 ? 127 : 7;
}

void encode_whole(form as, const coded_range& where, const random_key& key, std::span<const float> values, bytes out) {
  const auto body = out.subspan(head_bytes(as, where));
  const int most = levels(as);
  for_blocks(as, where, [&](std::size_t number, std::size_t first, std::size_t last) {
    float largest = 0;
    for (std::size_t i = first; i < last; ++i)
      largest = std::max(largest, std::fabs(values[i]));
    float scale = largest / static_cast<float>(most);
    if (std::isinf(scale * static_cast<float>(most))) // the largest must come back as a number
      scale = std::nextafter(scale, 0.0F);
    put_number(out, number, scale);
    for (std::size_t i = first; i < last; ++i) {
      // The quotient of a tiny block may be beyond the largest: its scale has lost bits.
      const float ratio = scale > 0 ? values[i] / scale : 0.0F;
      const float u = random_uniform(key, static_cast<std::uint64_t>(where.begin) + i);
      const int q = std::clamp(static_cast<int>(std::floor(std::clamp(ratio, -128.0F, 128.0F) + u)), -most, most);
      if (as == form::int8)
        body[i] = static_cast<std::byte>(static_cast<std::uint8_t>(q));
      else
        body[i / 2] |= static_cast<std::byte>(static_cast<unsigned>(q + 8) << (4 * (i % 2)));
    }
  });
}

int whole_at(form as, const_bytes body, std::size_t i) {
  if (as == form::int8)
    return static_cast<std::int8_t>(body[i]);
  return static_cast<int>(static_cast<unsigned>(body[i / 2]) >> (4 * (i % 2)) & 15U) - 8;
}

// -- one bit

void encode_signs(const coded_range& where, std::span<const float> values, bytes out) {
  const auto body = out.subspan(head_bytes(form::onebit, where));
  for_blocks(form::onebit, where, [&](std::size_t number, std::size_t first, std::size_t last) {
    double sums[2] = {0, 0};
    std::int64_t counts[2] = {0, 0};
    for (std::size_t i = first; i < last; ++i) {
      const unsigned below = values[i] < 0 ? 1 : 0;
      sums[below] += values[i];
      ++counts[below];
      body[i / 8] |= static_cast<std::byte>(below << (i % 8));
    }
    for (const unsigned below : {0U, 1U})
      put_number(out, 2 * number + below,
                 counts[below] > 0 ? static_cast<float>(sums[below] / static_cast<double>(counts[below])) : 0.0F);
  });
}

/// Calls `each(i, value)` for each element.
template <class Each>
void for_decoded(form as, const coded_range& where, const_bytes in, Each each) {
  const auto count = static_cast<std::size_t>(where.count);
  const auto body = in.subspan(head_bytes(as, where));
  switch (as) {
  case form::fp32:
    for (std::size_t i = 0; i < count; ++i)
      each(i, number_at<float>(in, i));
    return;
  case form::fp16:
    for (std::size_t i = 0; i < count; ++i)
      each(i, from_half(number_at<std::uint16_t>(in, i)));
    return;
  case form::bf16:
    for (std::size_t i = 0; i < count; ++i)
      each(i, from_bfloat(number_at<std::uint16_t>(in, i)));
    return;
  case form::int8:
  case form::int4:
    return for_blocks(as, where, [&](std::size_t number, std::size_t first, std::size_t last) {
      const auto scale = number_at<float>(in, number);
      for (std::size_t i = first; i < last; ++i)
        each(i, static_cast<float>(whole_at(as, body, i)) * scale);
    });
  case form::onebit:
    return for_blocks(as, where, [&](std::size_t number, std::size_t first, std::size_t last) {
      const float means[2] = {number_at<float>(in, 2 * number), number_at<float>(in, 2 * number + 1)};
      for (std::size_t i = first; i < last; ++i)
        each(i, means[static_cast<unsigned>(body[i / 8]) >> (i % 8) & 1U]);
    });
  }
}

} // namespace

std::size_t encoded_bytes(form as, const coded_range& where) {
  const auto n = static_cast<std::size_t>(where.count);
  std::size_t body = 0;
  switch (as) {
  case form::fp32:
    body = 4 * n;
    break;
  case form::fp16:
  case form::bf16:
    body = 2 * n;
    break;
  case form::int8:
    body = n;
    break;
  case form::int4:
    body = (n + 1) / 2;
    break;
  case form::onebit:
    body = (n + 7) / 8;
    break;
  }
  return (head_bytes(as, where) + body + 7) / 8 * 8;
}

bool encode(form as, const coded_range& where, const random_key& key, std::span<const float> values, bytes out) {
  const auto count = static_cast<std::size_t>(where.count);
  TROUPE_ASSERT(where.begin % 2 == 0 && values.size() == count && out.size() == encoded_bytes(as, where));
  std::ranges::fill(out, std::byte{0});
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
    return false; // a scale of zero makes zeros of any whole numbers
  switch (as) {
  case form::fp32:
    if (count > 0)
      std::memcpy(out.data(), values.data(), values.size_bytes());
    break;
  case form::fp16:
    for (std::size_t i = 0; i < count; ++i)
      put_number(out, i, to_half(values[i]));
    break;
  case form::bf16:
    for (std::size_t i = 0; i < count; ++i)
      put_number(out, i, to_bfloat(values[i]));
    break;
  case form::int8:
  case form::int4:
    encode_whole(as, where, key, values, out);
    break;
  case form::onebit:
    encode_signs(where, values, out);
    break;
  }
  return true;
}

bool is_sound(form as, const coded_range& where, const_bytes in) {
  if (where.begin < 0 || where.begin % 2 != 0 || where.count < 0 || in.size() != encoded_bytes(as, where))
    return false;
  for (std::size_t i = 0; i < head_bytes(as, where) / sizeof(float); ++i)
    if (!std::isfinite(number_at<float>(in, i)))
      return false;
  return true;
}

void decode(form as, const coded_range& where, const_bytes in, std::span<float> out) {
  for_decoded(as, where, in, [out](std::size_t i, float value) { out[i] = value; });
}

void add_decoded(form as, const coded_range& where, const_bytes in, float weight, std::span<float> sum) {
  for_decoded(as, where, in, [sum, weight](std::size_t i, float value) { sum[i] += weight * value; });
}

bool encode_with_feedback(form as, const coded_range& where, const random_key& key, std::span<const float> values,
                          std::span<float> residual, bytes out) {
  std::vector<float> whole(values.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = values[i] + residual[i];
  if (!encode(as, where, key, whole, out))
    return false;
  for_decoded(as, where, out, [&](std::size_t i, float sent) { residual[i] = whole[i] - sent; });
  return true;
}

} // namespace troupe::kernels
