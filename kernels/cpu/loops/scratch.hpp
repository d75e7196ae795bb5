// SPDX-License-Identifier: BSD-3-Clause
// Memory that some loops need beside their operands.
#pragma once

#include <cstdint>

#include "kernels/operation.hpp"

namespace troupe::kernels {

/// An operation together with `scratch_floats(op)` floats of its own, aligned to 64 bytes.
template <class Op>
struct with_scratch {
  const Op& op;
  float* scratch = nullptr;
};

/// Keys that a tile of attention's probabilities has, and the alignment of packed rows, in floats.
inline constexpr std::int64_t key_tile = 64, padding_floats = 16;
/// Queries of a tile of the forward pass.
inline constexpr std::int64_t query_tile = 128;

[[gnu::always_inline]] constexpr std::int64_t padded(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Keys and values of one row and head, packed, and a tile of queries and results.
inline std::int64_t scratch_floats(const attention& op) {
  const std::int64_t step = padded(op.shape.head_size, padding_floats);
  return 2 * (padded(op.shape.length, key_tile) + query_tile) * step;
}

/// Queries, keys twice, values, and the gradients of results, queries, keys and values of one row and head, packed; two numbers
/// for each query.
inline std::int64_t scratch_floats(const attention_backward& op) {
  const std::int64_t step = padded(op.shape.head_size, padding_floats);
  return padded(op.shape.length, key_tile) * (8 * step + 2);
}

/// From a row to the next where many rows are read at once: never a multiple of a page, which would crowd a few sets of the
/// caches.
[[gnu::always_inline]] constexpr std::int64_t row_apart(std::int64_t floats) {
  return padded(floats, padding_floats) + padding_floats;
}

/// A weight in panels, and both sides of the product of a step; padded as the widest instruction set wants it.
inline std::int64_t recurrence_floats(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t most_rows = padded(rows, 8), most_outputs = padded(outputs, 32);
  return padded(inputs * most_outputs, padding_floats) + most_rows * (row_apart(inputs) + row_apart(most_outputs));
}

inline std::int64_t scratch_floats(const lstm& op) {
  return recurrence_floats(op.rows, op.width, 4 * op.width);
}
inline std::int64_t scratch_floats(const gru& op) {
  return recurrence_floats(op.rows, op.width, 3 * op.width);
}

/// The gradient of the cells too.
inline std::int64_t scratch_floats(const lstm_backward& op) {
  return padded(op.rows * op.width, padding_floats) + recurrence_floats(op.rows, 4 * op.width, op.width);
}
/// The gradients of the recurrent side of all steps, first; and what reaches a step past its product.
inline std::int64_t scratch_floats(const gru_backward& op) {
  return padded(3 * op.count(), padding_floats) + padded(op.rows * op.width, padding_floats)
         + recurrence_floats(op.rows, 3 * op.width, op.width);
}

} // namespace troupe::kernels
