// SPDX-License-Identifier: BSD-3-Clause
// Dropout: Philox4x32-10, many counters at a time. kernels/random.hpp holds the definition that this is tested against.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// words[4 b + w] = word w of block first + b, for `blocks` <= block_size / 4 blocks.
inline void random_words(const random_key& key, std::uint32_t first, std::int64_t blocks, std::uint32_t* words) {
  const auto step_low = static_cast<std::uint32_t>(key.step), step_high = static_cast<std::uint32_t>(key.step >> 32);
  const auto seed_low = static_cast<std::uint32_t>(key.seed), seed_high = static_cast<std::uint32_t>(key.seed >> 32);
  const std::uint32_t stream = key.stream;
#pragma GCC ivdep
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::uint32_t c0 = first + static_cast<std::uint32_t>(b), c1 = stream, c2 = step_low, c3 = step_high;
    std::uint32_t k0 = seed_low, k1 = seed_high;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t left = std::uint64_t{0xD2511F53} * c0, right = std::uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<std::uint32_t>(right >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(right);
      c2 = static_cast<std::uint32_t>(left >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(left);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    words[4 * b] = c0;
    words[4 * b + 1] = c1;
    words[4 * b + 2] = c2;
    words[4 * b + 3] = c3;
  }
}

inline void dropout_of_row(const float* x, float* y, std::int64_t n, float rate, const random_key& key) {
  const float scale = 1.0F / (1.0F - rate);
  alignas(64) std::uint32_t words[block_size];
  for (std::int64_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t count = min(block_size, n - begin);
    random_words(key, static_cast<std::uint32_t>(begin / 4), (count + 3) / 4, words);
    const float* from = x + begin;
    // The upper 24 bits are exact as a float, and as a signed integer, which is what converts in one instruction.
    map(y + begin, count, false, [=, &words](std::int64_t i) {
      const float draw = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24F;
      return draw < rate ? 0.0F : from[i] * scale;
    });
  }
}

void run(const dropout& op) {
  if (op.rows == 0 || op.columns == 0)
    return;
  random_key key = op.key->of_layer(op.layer);
  for (std::int64_t i = 0; i < op.rows; ++i, ++key.step)
    dropout_of_row(op.x + i * op.columns, op.y + i * op.columns, op.columns, op.rate, key);
}
