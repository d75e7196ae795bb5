// SPDX-License-Identifier: BSD-3-Clause
// Encoding and decoding, block by block.
#include "kernels/codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/assert.hpp"
#include "kernels/factors.hpp"
#include "kernels/half.hpp"
#include "kernels/random.hpp"
#include "kernels/sparse.hpp"

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

/// Elements that are encoded together: a block, or where elements are encoded alone a few hundred.
struct code_chunk {
  std::size_t number = 0;          ///< of the block
  std::size_t first = 0, last = 0; ///< places in the range
  std::uint64_t place = 0;         ///< of the first in the flat array
  std::size_t size() const { return last - first; }
};
constexpr std::size_t largest_code_chunk = 512;

/// Calls `each(chunk)`, in order.
template <class Each>
void for_chunks(form as, const coded_range& where, Each each) {
  const std::int64_t length = block_of(as) > 1 ? block_of(as) : std::int64_t{largest_code_chunk};
  code_chunk at;
  for (std::int64_t first = 0; first < where.count; ++at.number) {
    const std::int64_t next = ((where.begin + first) / length + 1) * length - where.begin;
    const std::int64_t last = std::min(next, where.count);
    at.first = static_cast<std::size_t>(first);
    at.last = static_cast<std::size_t>(last);
    at.place = static_cast<std::uint64_t>(where.begin + first);
    each(at);
    first = last;
  }
}

// -- whole numbers

constexpr int levels(form as) {
  return as == form::int8 ? 127 : 7;
}

/// The uniform numbers of elements place, place + 1, ...: random_uniform of each, block by block side by side, so that the
/// compiler makes vectors of them (kernels/random.hpp).
class uniform_numbers {
public:
  void draw(const random_key& key, std::uint64_t place, std::size_t count) {
    const std::uint64_t first = place / 4;
    const std::size_t blocks = (place % 4 + count + 3) / 4;
    skipped_ = place % 4;
    std::uint32_t c0[most_blocks], c1[most_blocks], c2[most_blocks], c3[most_blocks];
    for (std::size_t i = 0; i < blocks; ++i) {
      c0[i] = static_cast<std::uint32_t>(first + i);
      c1[i] = key.stream;
      c2[i] = static_cast<std::uint32_t>(key.step);
      c3[i] = static_cast<std::uint32_t>(key.step >> 32U);
    }
    auto k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32U);
    for (int round = 0; round < 10; ++round) {
      for (std::size_t i = 0; i < blocks; ++i) {
        const std::uint64_t left = std::uint64_t{0xD2511F53} * c0[i], right = std::uint64_t{0xCD9E8D57} * c2[i];
        c0[i] = static_cast<std::uint32_t>(right >> 32U) ^ c1[i] ^ k0;
        c1[i] = static_cast<std::uint32_t>(right);
        c2[i] = static_cast<std::uint32_t>(left >> 32U) ^ c3[i] ^ k1;
        c3[i] = static_cast<std::uint32_t>(left);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (std::size_t i = 0; i < blocks; ++i) {
      numbers_[4 * i] = uniform_float(c0[i]);
      numbers_[4 * i + 1] = uniform_float(c1[i]);
      numbers_[4 * i + 2] = uniform_float(c2[i]);
      numbers_[4 * i + 3] = uniform_float(c3[i]);
    }
  }
  const float* begin() const { return numbers_ + skipped_; }

private:
  static constexpr std::size_t most_blocks = 256 / 4 + 1;
  float numbers_[4 * most_blocks];
  std::size_t skipped_ = 0;
};

/// floor() of a number within those of an int.
int floor_of(float x) {
  const int towards_zero = static_cast<int>(x);
  return towards_zero - (static_cast<float>(towards_zero) > x ? 1 : 0);
}

void encode_whole(form as, const random_key& key, const code_chunk& at, const float* x, bytes out, std::byte* body) {
  const int most = levels(as);
  const std::size_t n = at.size();
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i)
    largest = std::max(largest, std::fabs(x[i]));
  float scale = largest / static_cast<float>(most);
  if (std::isinf(scale * static_cast<float>(most))) // the largest must come back as a number
    scale = std::nextafter(scale, 0.0F);
  put_number(out, at.number, scale);
  uniform_numbers numbers;
  numbers.draw(key, at.place, n);
  const float* u = numbers.begin();
  int q[256];
  const float divisor = scale > 0 ? scale : 1.0F, by = scale > 0 ? 1.0F : 0.0F;
  for (std::size_t i = 0; i < n; ++i) {
    // The quotient of a tiny block may be beyond the largest: its scale has lost bits.
    const float ratio = std::clamp(x[i] / divisor * by, -128.0F, 128.0F);
    q[i] = std::clamp(floor_of(ratio + u[i]), -most, most);
  }
  if (as == form::int8) {
    for (std::size_t i = 0; i < n; ++i)
      body[at.first + i] = static_cast<std::byte>(static_cast<std::uint8_t>(q[i]));
    return;
  }
  auto* to = body + at.first / 2; // ranges and blocks begin at even places
  for (std::size_t i = 0; i + 1 < n; i += 2)
    to[i / 2] = static_cast<std::byte>(static_cast<unsigned>(q[i] + 8) | static_cast<unsigned>(q[i + 1] + 8) << 4U);
  if (n % 2 != 0)
    to[n / 2] = static_cast<std::byte>(static_cast<unsigned>(q[n - 1] + 8));
}

void decode_whole(form as, const code_chunk& at, const_bytes in, const std::byte* body, float* y) {
  const auto scale = number_at<float>(in, at.number);
  const std::size_t n = at.size();
  if (as == form::int8) {
    for (std::size_t i = 0; i < n; ++i)
      y[i] = static_cast<float>(static_cast<std::int8_t>(body[at.first + i])) * scale;
    return;
  }
  const auto* from = body + at.first / 2;
  for (std::size_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<int>(static_cast<unsigned>(from[i / 2]) >> (4 * (i % 2)) & 15U) - 8) * scale;
}

// -- one bit

void encode_signs(const code_chunk& at, const float* x, bytes out, std::byte* body) {
  double sums[2] = {0, 0};
  std::int64_t counts[2] = {0, 0};
  for (std::size_t i = 0; i < at.size(); ++i) {
    const unsigned below = x[i] < 0 ? 1 : 0;
    sums[below] += static_cast<double>(x[i]);
    ++counts[below];
    body[(at.first + i) / 8] |= static_cast<std::byte>(below << ((at.first + i) % 8));
  }
  for (const std::size_t below : {0U, 1U})
    put_number(out, 2 * at.number + below,
               counts[below] > 0 ? static_cast<float>(sums[below] / static_cast<double>(counts[below])) : 0.0F);
}

void decode_signs(const code_chunk& at, const_bytes in, const std::byte* body, float* y) {
  const float means[2] = {number_at<float>(in, 2 * at.number), number_at<float>(in, 2 * at.number + 1)};
  for (std::size_t i = 0; i < at.size(); ++i)
    y[i] = means[static_cast<unsigned>(body[(at.first + i) / 8]) >> ((at.first + i) % 8) & 1U];
}

// -- all of them

/// `out` and `in` are of the whole range, x and y of the chunk.
void encode_chunk(form as, const coded_range& where, const random_key& key, const code_chunk& at, const float* x, bytes out) {
  auto* body = out.data() + scale_bytes(as, where);
  switch (as) {
  case form::fp32:
    std::memcpy(body + sizeof(float) * at.first, x, sizeof(float) * at.size());
    return;
  case form::fp16:
    for (std::size_t i = 0; i < at.size(); ++i)
      put_number(out, at.first + i, to_half(x[i]));
    return;
  case form::bf16:
    for (std::size_t i = 0; i < at.size(); ++i)
      put_number(out, at.first + i, to_bfloat(x[i]));
    return;
  case form::int8:
  case form::int4:
    return encode_whole(as, key, at, x, out, body);
  case form::onebit:
    return encode_signs(at, x, out, body);
  case form::sparse_fp32: // these have no chunks
  case form::sparse_bf16:
  case form::sparse_sign:
  case form::factors:
    return;
  }
}

void decode_chunk(form as, const coded_range& where, const code_chunk& at, const_bytes in, float* y) {
  const auto* body = in.data() + scale_bytes(as, where);
  switch (as) {
  case form::fp32:
    std::memcpy(y, body + sizeof(float) * at.first, sizeof(float) * at.size());
    return;
  case form::fp16:
    for (std::size_t i = 0; i < at.size(); ++i)
      y[i] = from_half(number_at<std::uint16_t>(in, at.first + i));
    return;
  case form::bf16:
    for (std::size_t i = 0; i < at.size(); ++i)
      y[i] = from_bfloat(number_at<std::uint16_t>(in, at.first + i));
    return;
  case form::int8:
  case form::int4:
    return decode_whole(as, at, in, body, y);
  case form::onebit:
    return decode_signs(at, in, body, y);
  case form::sparse_fp32:
  case form::sparse_bf16:
  case form::sparse_sign:
  case form::factors:
    return;
  }
}

} // namespace

bool every_finite(std::span<const float> values) {
  // Adding up is faster than looking for the first.
  constexpr std::uint32_t exponent = 0x7f800000U;
  std::uint32_t bad = 0;
  for (const float x : values)
    bad |= (std::bit_cast<std::uint32_t>(x) & exponent) == exponent ? 1U : 0U;
  return bad == 0;
}

bool encode(form as, const coded_range& where, const random_key& key, std::span<const float> values, bytes out) {
  TROUPE_ASSERT(!says_bytes(as) && where.begin % 2 == 0 && values.size() == static_cast<std::size_t>(where.count)
                && out.size() == encoded_bytes(as, where));
  std::ranges::fill(out, std::byte{0});
  if (!every_finite(values))
    return false; // a scale of zero makes zeros of any whole numbers
  for_chunks(as, where, [&](const code_chunk& at) { encode_chunk(as, where, key, at, values.data() + at.first, out); });
  return true;
}

bool is_sound(form as, const coded_range& where, const_bytes in) {
  if (where.begin < 0 || where.begin % 2 != 0 || where.count < 0)
    return false;
  if (is_sparse(as))
    return is_sound_sparse(as, where, in);
  if (as == form::factors)
    return is_sound_factors(where, in);
  if (in.size() != encoded_bytes(as, where))
    return false;
  for (std::size_t i = 0; i < scale_bytes(as, where) / sizeof(float); ++i)
    if (!std::isfinite(number_at<float>(in, i)))
      return false;
  return true;
}

void decode(form as, const coded_range& where, const_bytes in, std::span<float> out) {
  if (is_sparse(as)) {
    std::ranges::fill(out, 0.0F);
    return overwrite_sparse(as, in, out);
  }
  if (as == form::factors)
    return decode_factors(in, out);
  for_chunks(as, where, [&](const code_chunk& at) { decode_chunk(as, where, at, in, out.data() + at.first); });
}

void add_decoded(form as, const coded_range& where, const_bytes in, float weight, std::span<float> sum) {
  if (is_sparse(as))
    return add_sparse(as, in, weight, sum);
  if (as == form::factors)
    return add_factors(in, weight, sum);
  for_chunks(as, where, [&](const code_chunk& at) {
    float values[largest_code_chunk];
    decode_chunk(as, where, at, in, values);
    for (std::size_t i = 0; i < at.size(); ++i)
      sum[at.first + i] += weight * values[i];
  });
}

bool encode_with_feedback(form as, const coded_range& where, const random_key& key, std::span<const float> values,
                          std::span<float> residual, bytes out) {
  TROUPE_ASSERT(!says_bytes(as) && where.begin % 2 == 0 && values.size() == static_cast<std::size_t>(where.count)
                && residual.size() == values.size() && out.size() == encoded_bytes(as, where));
  std::ranges::fill(out, std::byte{0});
  float whole[largest_code_chunk], sent[largest_code_chunk];
  const auto add_up = [&](const code_chunk& at) {
    for (std::size_t i = 0; i < at.size(); ++i)
      whole[i] = values[at.first + i] + residual[at.first + i];
  };
  bool finite = true;
  for_chunks(as, where, [&](const code_chunk& at) {
    add_up(at);
    finite = finite && every_finite({whole, at.size()});
  });
  if (!finite)
    return false;
  for_chunks(as, where, [&](const code_chunk& at) {
    add_up(at);
    encode_chunk(as, where, key, at, whole, out);
    decode_chunk(as, where, at, out, sent);
    for (std::size_t i = 0; i < at.size(); ++i)
      residual[at.first + i] = whole[i] - sent[i];
  });
  return true;
}

} // namespace troupe::kernels
