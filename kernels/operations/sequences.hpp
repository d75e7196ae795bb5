// SPDX-License-Identifier: BSD-3-Clause
// Operations on sequences: embedding, attention, rotary positions, recurrent layers.
#pragma once

#include <cstdint>

#include "kernels/operations/shapes.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

// `rows` are sequences of `length` tokens, or steps. What belongs to a token lies together.

/// y(count, width) = the rows of table(vocabulary, width) that ids(count) name. Ids in [0, vocabulary) are the caller's promise,
/// which it keeps by looking at the data when it is loaded: another id counts as the nearest of them.
struct embedding {
  static constexpr auto name = "embedding";
  const float* table = nullptr;
  const std::int32_t* ids = nullptr;
  float* y = nullptr;
  std::int64_t count = 0, width = 0, vocabulary = 0;

  void inputs(auto each) const { each(table, vocabulary * width), each(ids, count); }
  void outputs(auto each) const { each(y, count * width); }
};

/// dtable(vocabulary, width) = for each id the sum, in order, of the rows of dy(count, width) where ids(count) has it; 0 for an
/// id that does not occur. Added to what is there where `accumulate`: then only rows that occur are touched.
struct embedding_backward {
  static constexpr auto name = "embedding_backward";
  const std::int32_t* ids = nullptr;
  const float* dy = nullptr;
  float* dtable = nullptr;
  std::int64_t count = 0, width = 0, vocabulary = 0;
  bool accumulate = false;

  void inputs(auto each) const {
    each(ids, count), each(dy, count * width), each(accumulate ? dtable : nullptr, vocabulary * width);
  }
  void outputs(auto each) const { each(dtable, vocabulary * width); }
};

/// The longest head of an attention.
inline constexpr std::int64_t longest_head = 256;

/// What attention and its backward have in common. Queries have `heads` heads of `head_size` elements, keys and values have
/// `key_heads`, which divides heads: query head h reads key head h / (heads / key_heads) (Ainslie et al. 2023; key_heads == heads
/// is the usual form). A token's heads lie beside each other; from one token to the next are `q_stride` floats in q and
/// `kv_stride` in k and v. So the three may be parts of one tensor (rows, length, (heads + 2 key_heads) head_size), or separate
/// ones.
struct attention_shape {
  std::int64_t rows = 0, length = 0, heads = 0, key_heads = 0, head_size = 0;
  std::int64_t q_stride = 0, kv_stride = 0;
  bool causal = false; ///< a query sees the keys up to its own place
  float scale = 1;     ///< of the products, before softmax: 1 / sqrt(head_size) as a rule

  constexpr std::int64_t tokens() const { return rows * length; }
  constexpr std::int64_t width() const { return heads * head_size; }
  constexpr std::int64_t key_width() const { return key_heads * head_size; }
  /// Calls each for three arrays laid out as q, k and v: once for the tensor that they are parts of, or for each of them.
  void views(auto* q, auto* k, auto* v, auto each) const {
    const auto elements = [this](std::int64_t stride, std::int64_t used) {
      return tokens() > 0 ? (tokens() - 1) * stride + used : 0;
    };
    if (q_stride == kv_stride && k == q + width() && v == k + key_width())
      return each(q, elements(q_stride, width() + 2 * key_width()));
    each(q, elements(q_stride, width())), each(k, elements(kv_stride, key_width())), each(v, elements(kv_stride, key_width()));
  }
  /// Pairs of a query and a key that it sees, over all rows and heads.
  double pairs() const {
    const auto of_one = static_cast<double>(length) * static_cast<double>(causal ? length + 1 : 2 * length) / 2;
    return static_cast<double>(rows * heads) * of_one;
  }
};

/// y(rows, length, heads, head_size) = softmax(scale * q k') v for each row and head (Vaswani et al. 2017), in tiles, with a
/// running softmax (Dao et al. 2022): no matrix of length x length is ever in memory. lse(rows, heads, length) = the logarithm
/// of each query's sum of exponentials, for the backward.
///
/// With rate > 0 a probability is dropped as an element of `dropout` is: p = keep ? p / (1 - rate) : 0, where the key of row r is
/// `*key` with `layer` added to its stream and r to its step, and the probability of key j for query i of a head is element
/// (head length + i) length + j. lse is that of all probabilities. heads * length^2 <= 2^34 then.
struct attention {
  static constexpr auto name = "attention";
  attention_shape shape = {};
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* y = nullptr;
  float* lse = nullptr;
  float rate = 0;
  const random_key* key = nullptr;
  std::uint32_t layer = 0;

  void inputs(auto each) const { shape.views(q, k, v, each), each(key, 1); }
  void outputs(auto each) const { each(y, shape.tokens() * shape.width()), each(lse, shape.tokens() * shape.heads); }
  double flops() const { return 4 * shape.pairs() * static_cast<double>(shape.head_size); }
};

/// dq, dk and dv are overwritten, and lie as q, k and v do; y and lse are the forward's, dy is laid out as y.
struct attention_backward {
  static constexpr auto name = "attention_backward";
  attention_shape shape = {};
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* y = nullptr;
  const float* lse = nullptr;
  const float* dy = nullptr;
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  float rate = 0;
  const random_key* key = nullptr;
  std::uint32_t layer = 0;

  void inputs(auto each) const {
    const std::int64_t results = shape.tokens() * shape.width();
    shape.views(q, k, v, each), each(y, results), each(lse, shape.tokens() * shape.heads), each(dy, results), each(key, 1);
  }
  void outputs(auto each) const { shape.views(dq, dk, dv, each); }
  double flops() const { return 10 * shape.pairs() * static_cast<double>(shape.head_size); }
};

/// Rotary positions (Su et al. 2021): x(rows, length, width) with its first `heads` heads of `head_size` turned, and the rest of
/// a token copied. At place t pair i of a head's first `rotated` elements turns by the angle t * base^(-2 i / rotated). A pair is
/// elements i and i + rotated / 2 (GPT-NeoX), or 2 i and 2 i + 1 where `interleaved`. The backward is the same with `inverse` on
/// the gradient. `y` may be `x`. `rotated` is even, and 0 < rotated <= head_size; heads * head_size <= width.
struct rotary {
  static constexpr auto name = "rotary";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, length = 0, width = 0, heads = 0, head_size = 0, rotated = 0;
  double base = 10000;
  bool interleaved = false, inverse = false;

  constexpr std::int64_t count() const { return rows * length * width; }
  void inputs(auto each) const { each(x, count()); }
  void outputs(auto each) const { each(y, count()); }
};

/// Long short-term memory over the steps of each row (Hochreiter & Schmidhuber 1997; Gers et al. 2000), from h and c = 0, in
/// PyTorch's order of gates. With a_t = projected_t + u h_{t-1} + bias:
///   (i, f, g, o) = (sigmoid, sigmoid, tanh, sigmoid)(a_t), c_t = f c_{t-1} + i g, h_t = o tanh(c_t).
/// projected(rows, length, 4 width) = x W' + b of all steps, one product of the caller's; u(4 width, width); bias(4 width) may be
/// null. y(rows, length, width) = h; `gates` (as projected, which it may be) and `cells` (as y) hold i, f, g, o and c for the
/// backward.
struct lstm {
  static constexpr auto name = "lstm";
  const float* projected = nullptr;
  const float* u = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* gates = nullptr;
  float* cells = nullptr;
  std::int64_t rows = 0, length = 0, width = 0;

  constexpr std::int64_t count() const { return rows * length * width; }
  void inputs(auto each) const { each(projected, 4 * count()), each(u, 4 * width * width), each(bias, 4 * width); }
  void outputs(auto each) const { each(y, count()), each(gates, 4 * count()), each(cells, count()); }
  double flops() const { return 8 * static_cast<double>(count()) * static_cast<double>(width); }
};

/// dprojected (as gates, which it may be) is overwritten; du and dbias (may be null) too, or they are accumulated. y, gates and
/// cells are the forward's. The gradients of W, of b and of x are products and a sum of dprojected, the caller's. At least one
/// row.
struct lstm_backward {
  static constexpr auto name = "lstm_backward";
  const float* u = nullptr;
  const float* y = nullptr;
  const float* gates = nullptr;
  const float* cells = nullptr;
  const float* dy = nullptr;
  float* dprojected = nullptr;
  float* du = nullptr;
  float* dbias = nullptr;
  std::int64_t rows = 0, length = 0, width = 0;
  bool accumulate = false;

  constexpr std::int64_t count() const { return rows * length * width; }
  void inputs(auto each) const {
    each(u, 4 * width * width), each(y, count()), each(gates, 4 * count()), each(cells, count()), each(dy, count());
    each(accumulate ? du : nullptr, 4 * width * width), each(accumulate ? dbias : nullptr, 4 * width);
  }
  void outputs(auto each) const { each(dprojected, 4 * count()), each(du, 4 * width * width), each(dbias, 4 * width); }
  double flops() const { return 16 * static_cast<double>(count()) * static_cast<double>(width); }
};

/// Gated recurrent units over the steps of each row (Cho et al. 2014), from h = 0, in PyTorch's order and form. With p_t =
/// projected_t and a_t = u h_{t-1} + bias, each in three parts:
///   r = sigmoid(p_r + a_r), z = sigmoid(p_z + a_z), n = tanh(p_n + r a_n), h_t = (1 - z) n + z h_{t-1}.
/// projected(rows, length, 3 width) = x W' + b of all steps; u(3 width, width); bias(3 width) may be null. y(rows, length, width)
/// = h; `gates` (as projected, which it may be) holds r, z, n, and `candidates` (as y) a_n, for the backward.
struct gru {
  static constexpr auto name = "gru";
  const float* projected = nullptr;
  const float* u = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* gates = nullptr;
  float* candidates = nullptr;
  std::int64_t rows = 0, length = 0, width = 0;

  constexpr std::int64_t count() const { return rows * length * width; }
  void inputs(auto each) const { each(projected, 3 * count()), each(u, 3 * width * width), each(bias, 3 * width); }
  void outputs(auto each) const { each(y, count()), each(gates, 3 * count()), each(candidates, count()); }
  double flops() const { return 6 * static_cast<double>(count()) * static_cast<double>(width); }
};

/// dprojected (as gates, which it may be) is overwritten; du and dbias (may be null) too, or they are accumulated. y, gates and
/// candidates are the forward's. The gradients of W, of b and of x are products and a sum of dprojected, the caller's; that of
/// `bias` differs from b's in its last third. At least one row.
struct gru_backward {
  static constexpr auto name = "gru_backward";
  const float* u = nullptr;
  const float* y = nullptr;
  const float* gates = nullptr;
  const float* candidates = nullptr;
  const float* dy = nullptr;
  float* dprojected = nullptr;
  float* du = nullptr;
  float* dbias = nullptr;
  std::int64_t rows = 0, length = 0, width = 0;
  bool accumulate = false;

  constexpr std::int64_t count() const { return rows * length * width; }
  void inputs(auto each) const {
    each(u, 3 * width * width), each(y, count()), each(gates, 3 * count()), each(candidates, count()), each(dy, count());
    each(accumulate ? du : nullptr, 3 * width * width), each(accumulate ? dbias : nullptr, 3 * width);
  }
  void outputs(auto each) const { each(dprojected, 3 * count()), each(du, 3 * width * width), each(dbias, 3 * width); }
  double flops() const { return 12 * static_cast<double>(count()) * static_cast<double>(width); }
};

} // namespace troupe::kernels
