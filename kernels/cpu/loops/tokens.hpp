// SPDX-License-Identifier: BSD-3-Clause
// Embedding and rotary positions.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

inline std::int64_t nearest_id(std::int32_t id, std::int64_t vocabulary) {
  const std::int64_t positive = id < 0 ? 0 : id;
  return positive < vocabulary ? positive : vocabulary - 1;
}

void run(const embedding& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    __builtin_memcpy(op.y + i * op.width, op.table + nearest_id(op.ids[i], op.vocabulary) * op.width,
                     static_cast<std::size_t>(op.width) * sizeof(float));
}

/// In the order of positions: what a stable sort by id gives each id.
void run(const embedding_backward& op) {
  if (!op.accumulate)
    run(fill{op.dtable, 0, op.vocabulary * op.width});
  for (std::int64_t i = 0; i < op.count; ++i) {
    const float* dy = op.dy + i * op.width;
    float* row = op.dtable + nearest_id(op.ids[i], op.vocabulary) * op.width;
    map(row, op.width, false, [=](std::int64_t j) { return row[j] + dy[j]; });
  }
}

/// Turns pairs of one head in place; `distance` apart where they are not interleaved.
template <bool Interleaved>
inline void turn_pairs(float* y, std::int64_t pairs, std::int64_t distance, const float* cosines, const float* sines) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t first = Interleaved ? 2 * i : i, second = Interleaved ? 2 * i + 1 : i + distance;
    const float a = y[first], b = y[second];
    y[first] = mul_add(a, cosines[i], -b * sines[i]);
    y[second] = mul_add(a, sines[i], b * cosines[i]);
  }
}

struct cos_sin {
  float cosine, sine;
};

/// To the last bit of a float, for angles below 2^30: the rest of a division by a right angle, then Taylor's series.
inline cos_sin cos_sin_of(double angle) {
  constexpr double round_to_integer = 6755399441055744.0; // 1.5 * 2^52
  const double shifted = angle * 0.63661977236758134308 + round_to_integer, n = shifted - round_to_integer;
  const double r = angle - n * 1.57079632679489661923 - n * 6.12323399573676603587e-17, z = r * r;
  const double sine = r * (1 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 - z / 39916800)))));
  const double cosine = 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z / 3628800))));
  const auto quarter = __builtin_bit_cast(std::uint64_t, shifted);
  const bool swapped = quarter & 1;
  const double c = swapped ? sine : cosine, s = swapped ? cosine : sine;
  return {static_cast<float>((quarter + 1) & 2 ? -c : c), static_cast<float>(quarter & 2 ? -s : s)};
}

/// Pairs are taken in pieces, whose frequencies and angles stay in the first-level cache. The angles of one place serve every row
/// and head.
void run(const rotary& op) {
  constexpr std::int64_t piece = 256;
  double frequencies[piece];
  alignas(64) float cosines[piece], sines[piece];
  const std::int64_t pairs = op.rotated / 2;
  if (op.x != op.y)
    __builtin_memcpy(op.y, op.x, static_cast<std::size_t>(op.count()) * sizeof(float));
  for (std::int64_t begin = 0; begin < pairs; begin += piece) {
    const std::int64_t count = min(piece, pairs - begin);
    for (std::int64_t i = 0; i < count; ++i) // pow is a function of libm, not inline
      frequencies[i] = __builtin_pow(op.base, -2.0 * static_cast<double>(begin + i) / static_cast<double>(op.rotated));
    for (std::int64_t t = 0; t < op.length; ++t) {
      for (std::int64_t i = 0; i < count; ++i) {
        const cos_sin turn = cos_sin_of(static_cast<double>(t) * frequencies[i]);
        cosines[i] = turn.cosine;
        sines[i] = op.inverse ? -turn.sine : turn.sine;
      }
      for (std::int64_t row = 0; row < op.rows; ++row)
        for (std::int64_t head = 0; head < op.heads; ++head) {
          float* y = op.y + (row * op.length + t) * op.width + head * op.head_size;
          if (op.interleaved)
            turn_pairs<true>(y + 2 * begin, count, 0, cosines, sines);
          else
            turn_pairs<false>(y + begin, count, pairs, cosines, sines);
        }
    }
  }
}
