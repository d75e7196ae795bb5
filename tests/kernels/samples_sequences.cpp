// SPDX-License-Identifier: BSD-3-Clause
// Samples of operations on sequences.
#include "tests/kernels/operands.hpp"

namespace troupe::kernels::testing {

namespace {

attention_shape drawn_attention(operands& m, bool packed) {
  attention_shape s{.rows = m.one_of<std::int64_t>({1, 3}), .length = m.one_of<std::int64_t>({1, 7, 70, 150})};
  s.key_heads = m.one_of<std::int64_t>({1, 2});
  s.heads = s.key_heads * m.one_of<std::int64_t>({1, 3});
  s.head_size = m.one_of<std::int64_t>({1, 8, 20, 64});
  s.q_stride = packed ? s.width() + 2 * s.key_width() : s.width();
  s.kv_stride = packed ? s.q_stride : s.key_width();
  s.causal = m.coin();
  s.scale = m.one_of({1.0F, 0.3F});
  return s;
}

/// q, k and v: parts of one tensor, or three. `draw` makes an array.
template <class T>
void draw_views(const attention_shape& s, bool packed, T*& q, T*& k, T*& v, auto draw) {
  q = draw(s.tokens() * s.q_stride);
  k = packed ? q + s.width() : draw(s.tokens() * s.kv_stride);
  v = packed ? k + s.key_width() : draw(s.tokens() * s.kv_stride);
}

template <class Op>
Op draw_attention(operands& m) {
  const bool packed = m.coin();
  Op op{.shape = drawn_attention(m, packed)};
  draw_views(op.shape, packed, op.q, op.k, op.v, [&](auto count) { return m.floats(count); });
  op.rate = m.one_of({0.0F, 0.3F});
  op.key = op.rate > 0 ? m.key() : nullptr;
  op.layer = 2;
  if constexpr (requires { op.dq; })
    draw_views(op.shape, packed, op.dq, op.dk, op.dv, [&](auto count) { return m.result(count); });
  return op;
}

/// Extents of a recurrent layer.
template <class Op>
Op draw_recurrence(operands& m) {
  Op op{};
  op.rows = m.one_of<std::int64_t>({1, 3, 16});
  op.length = m.one_of<std::int64_t>({1, 2, 5});
  op.width = m.one_of<std::int64_t>({1, 10, 48});
  return op;
}

} // namespace

embedding sample(operands& m, const embedding*) {
  embedding op{.count = m.one_of<std::int64_t>({1, 50}), .width = m.one_of<std::int64_t>({1, 33}), .vocabulary = 7};
  op.table = m.floats(op.vocabulary * op.width);
  op.ids = m.integers(op.count, op.vocabulary, op.vocabulary + 2); // one beyond counts as the nearest
  op.y = m.result(op.count * op.width);
  return op;
}

embedding_backward sample(operands& m, const embedding_backward*) {
  embedding_backward op{
      .count = m.one_of<std::int64_t>({1, 50, 2100}), .width = m.one_of<std::int64_t>({1, 33}), .vocabulary = 9};
  op.ids = m.integers(op.count, op.vocabulary - 2, -3);
  op.dy = m.floats(op.count * op.width);
  op.accumulate = m.coin();
  op.dtable = m.sums(op.accumulate, op.vocabulary * op.width);
  return op;
}

attention sample(operands& m, const attention*) {
  auto op = draw_attention<attention>(m);
  op.y = m.result(op.shape.tokens() * op.shape.width());
  op.lse = m.result(op.shape.tokens() * op.shape.heads);
  return op;
}

attention_backward sample(operands& m, const attention_backward*) {
  auto op = draw_attention<attention_backward>(m);
  const auto results = op.shape.tokens() * op.shape.width();
  op.y = m.floats(results);
  op.lse = m.floats(op.shape.tokens() * op.shape.heads, 8, 10);
  op.dy = m.floats(results);
  return op;
}

rotary sample(operands& m, const rotary*) {
  rotary op{.rows = m.one_of<std::int64_t>({1, 3}), .length = m.one_of<std::int64_t>({1, 40}), .heads = 2};
  op.head_size = m.one_of<std::int64_t>({2, 20});
  op.rotated = m.one_of<std::int64_t>({2, op.head_size});
  op.width = op.heads * op.head_size + m.one_of<std::int64_t>({0, 5});
  op.interleaved = m.coin();
  op.inverse = m.coin();
  op.x = m.floats(op.count());
  op.y = m.result(op.count());
  return op;
}

lstm sample(operands& m, const lstm*) {
  auto op = draw_recurrence<lstm>(m);
  op.projected = m.floats(4 * op.count());
  op.u = m.floats(4 * op.width * op.width, -0.3F, 0.3F);
  op.bias = m.coin() ? m.floats(4 * op.width) : nullptr;
  op.y = m.result(op.count());
  op.gates = m.result(4 * op.count());
  op.cells = m.result(op.count());
  return op;
}

lstm_backward sample(operands& m, const lstm_backward*) {
  auto op = draw_recurrence<lstm_backward>(m);
  op.u = m.floats(4 * op.width * op.width, -0.3F, 0.3F);
  op.y = m.floats(op.count());
  op.gates = m.floats(4 * op.count(), 0, 1);
  op.cells = m.floats(op.count());
  op.dy = m.floats(op.count());
  op.dprojected = m.result(4 * op.count());
  op.accumulate = m.coin();
  op.du = m.sums(op.accumulate, 4 * op.width * op.width);
  op.dbias = m.coin() ? m.sums(op.accumulate, 4 * op.width) : nullptr;
  return op;
}

gru sample(operands& m, const gru*) {
  auto op = draw_recurrence<gru>(m);
  op.projected = m.floats(3 * op.count());
  op.u = m.floats(3 * op.width * op.width, -0.3F, 0.3F);
  op.bias = m.coin() ? m.floats(3 * op.width) : nullptr;
  op.y = m.result(op.count());
  op.gates = m.result(3 * op.count());
  op.candidates = m.result(op.count());
  return op;
}

gru_backward sample(operands& m, const gru_backward*) {
  auto op = draw_recurrence<gru_backward>(m);
  op.u = m.floats(3 * op.width * op.width, -0.3F, 0.3F);
  op.y = m.floats(op.count());
  op.gates = m.floats(3 * op.count(), 0, 1);
  op.candidates = m.floats(op.count());
  op.dy = m.floats(op.count());
  op.dprojected = m.result(3 * op.count());
  op.accumulate = m.coin();
  op.du = m.sums(op.accumulate, 3 * op.width * op.width);
  op.dbias = m.coin() ? m.sums(op.accumulate, 3 * op.width) : nullptr;
  return op;
}

} // namespace troupe::kernels::testing
