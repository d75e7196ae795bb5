// SPDX-License-Identifier: BSD-3-Clause
// Attention in tiles, and its gradient. Nothing but operands and packed copies of one head's is as long as a sequence.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

// A tile of queries meets one tile of keys after another. A head's tokens are packed first, once: in the operands they lie far
// apart, often at multiples of a page, which the first-level cache would keep in a few of its sets.

constexpr float log2_e = 1.44269504088896340736F, ln_2 = 0.69314718055994530942F;

/// Where the tokens of one row and one head of queries begin.
struct head_of {
  const attention_shape& s;
  std::int64_t row, head;

  std::int64_t q() const { return row * s.length * s.q_stride + head * s.head_size; }
  std::int64_t kv() const { return row * s.length * s.kv_stride + head / (s.heads / s.key_heads) * s.head_size; }
  std::int64_t y() const { return row * s.length * s.width() + head * s.head_size; }
  std::int64_t lse() const { return (row * s.heads + head) * s.length; }
};

/// A tile: the queries, or keys, [begin, begin + count) of a sequence.
struct tile_range {
  std::int64_t begin, count;
  tile_range(std::int64_t first, std::int64_t most, std::int64_t length) : begin(first), count(min(most, length - first)) {}
  std::int64_t rows() const { return padded(count, block_rows); }
};

/// A pair of tiles: which queries see which keys. Query i of the tile sees the keys up to i + `ahead` of the other.
struct tile_pair {
  std::int64_t queries, keys, ahead;
  tile_pair(const attention_shape& s, const tile_range& of_queries, const tile_range& of_keys)
      : queries(of_queries.count), keys(of_keys.count), ahead(s.causal ? of_queries.begin - of_keys.begin : s.length) {}

  /// How many keys a query sees; none for one that only pads the tile.
  std::int64_t seen(std::int64_t query) const {
    const std::int64_t count = min(query + ahead + 1, keys);
    return query >= queries || count < 0 ? 0 : count;
  }
  /// Of a product whose rows are queries: the columns are keys, or the depth is.
  auto keys_as_columns(std::int64_t depth) const {
    return [this, depth](std::int64_t row) { return block_part{seen_by_block(row), 0, depth}; };
  }
  auto keys_as_depth(std::int64_t columns) const {
    return [this, columns](std::int64_t row) { return block_part{columns, 0, seen_by_block(row)}; };
  }
  /// Of a product whose rows are keys and whose depth are queries: those before the first that sees one of the keys count
  /// nothing.
  auto queries_as_depth(std::int64_t columns) const {
    return [this, columns](std::int64_t row) {
      const std::int64_t first = row - ahead;
      return block_part{columns, first < 0 ? 0 : first, queries};
    };
  }

private:
  std::int64_t seen_by_block(std::int64_t row) const {
    const std::int64_t count = min(row + block_rows + ahead, keys);
    return count < 0 ? 0 : count;
  }
};

/// Multiplies the probabilities of one query and one tile of keys by what dropout makes of 1.
inline void drop(float* p, const random_key& key, std::int64_t element, float rate) {
  alignas(64) std::uint32_t words[key_tile + 4];
  random_words(key, static_cast<std::uint32_t>(element / 4), key_tile / 4 + 1, words);
  const std::uint32_t* own = words + element % 4;
  const float scale = 1.0F / (1.0F - rate);
#pragma GCC ivdep
  for (std::int64_t j = 0; j < key_tile; ++j)
    p[j] = static_cast<float>(static_cast<std::int32_t>(own[j] >> 8)) * 0x1p-24F < rate ? 0.0F : p[j] * scale;
}

inline random_key key_of_row(const auto& op, std::int64_t row) {
  return op.rate > 0 ? op.key->of_layer(op.layer).of_row(static_cast<std::uint64_t>(row)) : random_key{};
}

/// Scores behind the first `seen` become minus infinity in their vector of sixteen, zero behind that: there they are powers
/// already. Returns how many are not.
inline std::int64_t clip_row(float* scores, std::int64_t seen) {
  const std::int64_t columns = padded(seen, 16);
  for (std::int64_t j = seen; j < columns; ++j)
    scores[j] = -__builtin_inff();
  __builtin_memset(scores + columns, 0, static_cast<std::size_t>(key_tile - columns) * sizeof(float));
  return columns;
}

/// Of a query: the largest score so far, and the sum of powers of 2 relative to it. Scores are logarithms to base 2.
struct running_softmax {
  float peak = -__builtin_inff();
  f32x16 sums = {};

  /// Turns the scores of one more tile, of which the first `seen` > 0 count, into powers. What has been added up before is to be
  /// multiplied by the result.
  float add(float* scores, std::int64_t seen) {
    const std::int64_t columns = clip_row(scores, seen);
    const float before = peak, of_tile = max_of(scores, columns), highest = of_tile > before ? of_tile : before;
    map(scores, columns, false, [=](std::int64_t j) { return exp2_below_one(scores[j] - highest); });
    const bool first = before == -__builtin_inff(); // then there is nothing to rescale
    const float rescale = first || before == highest ? 1.0F : exp2_below_one(before - highest);
    sums *= rescale;
    for (std::int64_t j = 0; j < columns; j += 16)
      sums += load(scores + j);
    peak = highest;
    return rescale;
  }
};

/// What a forward pass keeps of one row and head of keys; and a tile of queries with their results.
class forward_head {
public:
  forward_head(const attention& op, float* scratch)
      : op_(op), s_(op.shape), step_(padded(s_.head_size, padding_floats)), keys_(padded(s_.length, key_tile)) {
    scratch_parts parts{scratch};
    k_transposed_ = parts.take(s_.head_size * keys_);
    v_ = parts.take(keys_ * step_);
    q_ = parts.take(query_tile * step_);
    y_ = parts.take(query_tile * step_);
  }

  void pack_keys(const head_of& at) {
    pack_transposed(op_.k + at.kv(), s_.kv_stride, s_.length, s_.head_size, k_transposed_, keys_, keys_);
    pack_rows(op_.v + at.kv(), s_.kv_stride, s_.length, s_.head_size, 1, v_, step_, keys_);
  }

  /// One tile of queries against all keys that it sees.
  void attend(const head_of& at, const tile_range& queries) {
    const std::int64_t rows = queries.rows(), depth = s_.head_size, step = step_;
    const float scale = s_.scale * log2_e;
    pack_rows(op_.q + at.q() + queries.begin * s_.q_stride, s_.q_stride, queries.count, depth, scale, q_, step, rows);
    __builtin_memset(y_, 0, static_cast<std::size_t>(rows * step) * sizeof(float));
    for (std::int64_t i = 0; i < rows; ++i)
      softmax_[i] = {};
    const std::int64_t end = s_.causal ? queries.begin + queries.count : s_.length;
    for (std::int64_t first = 0; first < end; first += key_tile) {
      const tile_pair pair(s_, queries, tile_range(first, key_tile, s_.length));
      multiply_tile<false>(rows, key_tile, {q_, step, 1}, k_transposed_ + first, keys_, scores_, key_tile,
                           pair.keys_as_columns(depth));
      for (std::int64_t i = 0; i < rows; ++i)
        weigh(at, queries.begin + i, first, pair.seen(i), i);
      multiply_tile<true>(rows, step, {scores_, key_tile, 1}, v_ + first * step, step, y_, step, pair.keys_as_depth(step));
    }
    finish(at, queries);
  }

private:
  /// The scores of one query become what its values are multiplied by.
  void weigh(const head_of& at, std::int64_t query, std::int64_t first_key, std::int64_t seen, std::int64_t i) {
    float *scores = scores_ + i * key_tile, *y = y_ + i * step_;
    if (seen == 0) {
      __builtin_memset(scores, 0, key_tile * sizeof(float));
      return;
    }
    const float rescale = softmax_[i].add(scores, seen);
    if (rescale != 1)
      map(y, step_, false, [=](std::int64_t j) { return y[j] * rescale; });
    if (op_.rate > 0)
      drop(scores, key_of_row(op_, at.row), (at.head * s_.length + query) * s_.length + first_key, op_.rate);
  }

  void finish(const head_of& at, const tile_range& queries) {
    alignas(64) float sums[query_tile], peaks[query_tile];
    for (std::int64_t i = 0; i < queries.count; ++i) {
      sums[i] = total(softmax_[i].sums);
      peaks[i] = softmax_[i].peak;
      const float *from = y_ + i * step_, inverse = 1.0F / sums[i];
      map(op_.y + at.y() + (queries.begin + i) * s_.width(), s_.head_size, false,
          [=](std::int64_t j) { return from[j] * inverse; });
    }
    map(op_.lse + at.lse() + queries.begin, queries.count, false,
        [&](std::int64_t i) { return mul_add(peaks[i], ln_2, log(sums[i])); });
  }

  const attention& op_;
  const attention_shape& s_;
  std::int64_t step_, keys_;
  float *k_transposed_, *v_, *q_, *y_;
  alignas(64) float scores_[query_tile * key_tile];
  running_softmax softmax_[query_tile];
};

void run(const with_scratch<attention>& work) {
  const attention_shape& s = work.op.shape;
  forward_head one(work.op, work.scratch);
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const head_of at{s, row, head};
      if (head % (s.heads / s.key_heads) == 0)
        one.pack_keys(at);
      for (std::int64_t first = 0; first < s.length; first += query_tile)
        one.attend(at, tile_range(first, query_tile, s.length));
    }
}

/// What a backward pass keeps of one row and head of keys, and of one head of queries that read it.
///
/// Keys are outside, queries inside: five products for a pair of tiles, where two sweeps would need seven. A query's gradient is
/// added up tile by tile, in order.
class backward_head {
public:
  backward_head(const attention_backward& op, float* scratch)
      : op_(op), s_(op.shape), step_(padded(s_.head_size, padding_floats)), length_(padded(s_.length, key_tile)) {
    scratch_parts parts{scratch};
    for (float** of_tokens : {&q_, &k_, &dy_, &dq_, &dk_, &dv_})
      *of_tokens = parts.take(length_ * step_);
    k_transposed_ = parts.take(s_.head_size * length_);
    v_transposed_ = parts.take(s_.head_size * length_);
    lse_ = parts.take(length_);
    d_ = parts.take(length_);
  }

  void begin_keys(const head_of& at) {
    pack_rows(op_.k + at.kv(), s_.kv_stride, s_.length, s_.head_size, 1, k_, step_, length_);
    pack_transposed(k_, step_, s_.length, s_.head_size, k_transposed_, length_, length_);
    pack_transposed(op_.v + at.kv(), s_.kv_stride, s_.length, s_.head_size, v_transposed_, length_, length_);
    clear(dk_);
    clear(dv_);
  }

  void end_keys(const head_of& at) {
    unpack(dk_, ln_2, op_.dk + at.kv(), s_.kv_stride); // q_ has log2(e) in it
    unpack(dv_, 1, op_.dv + at.kv(), s_.kv_stride);
  }

  /// All queries of one head.
  void add(const head_of& at) {
    pack_rows(op_.q + at.q(), s_.q_stride, s_.length, s_.head_size, s_.scale * log2_e, q_, step_, length_);
    pack_rows(op_.dy + at.y(), s_.width(), s_.length, s_.head_size, 1, dy_, step_, length_);
    clear(dq_);
    const float* y = op_.y + at.y();
    for (std::int64_t t = 0; t < s_.length; ++t, y += s_.width()) {
      d_[t] = sum_lanes(dy_ + t * step_, y, s_.head_size, [](f32x16 a, f32x16 b) { return a * b; });
      lse_[t] = op_.lse[at.lse() + t] * log2_e;
    }
    for (std::int64_t key = 0; key < s_.length; key += key_tile)
      for (std::int64_t query = s_.causal ? key : 0; query < s_.length; query += key_tile)
        add(at, tile_range(query, key_tile, s_.length), tile_range(key, key_tile, s_.length));
    unpack(dq_, s_.scale, op_.dq + at.q(), s_.q_stride);
  }

private:
  void clear(float* of_tokens) const {
    __builtin_memset(of_tokens, 0, static_cast<std::size_t>(length_ * step_) * sizeof(float));
  }
  void unpack(const float* from, float scale, float* to, std::int64_t to_step) const {
    for (std::int64_t t = 0; t < s_.length; ++t, from += step_, to += to_step)
      map(to, s_.head_size, false, [=](std::int64_t i) { return scale * from[i]; });
  }

  /// What a tile of queries and a tile of keys add to each other's gradients.
  void add(const head_of& at, const tile_range& queries, const tile_range& keys) {
    const std::int64_t rows = queries.rows(), depth = s_.head_size, step = step_;
    const std::int64_t query = queries.begin * step, key = keys.begin * step;
    const tile_pair pair(s_, queries, keys);
    multiply_tile<false>(rows, key_tile, {q_ + query, step, 1}, k_transposed_ + keys.begin, length_, p_, key_tile,
                         pair.keys_as_columns(depth));
    multiply_tile<false>(rows, key_tile, {dy_ + query, step, 1}, v_transposed_ + keys.begin, length_, ds_, key_tile,
                         pair.keys_as_columns(depth));
    for (std::int64_t i = 0; i < rows; ++i)
      differentiate(at, queries.begin + i, keys.begin, pair.seen(i), i);
    multiply_tile<true>(key_tile, step, {p_, 1, key_tile}, dy_ + query, step, dv_ + key, step, pair.queries_as_depth(step));
    multiply_tile<true>(key_tile, step, {ds_, 1, key_tile}, q_ + query, step, dk_ + key, step, pair.queries_as_depth(step));
    multiply_tile<true>(rows, step, {ds_, key_tile, 1}, k_ + key, step, dq_ + query, step, pair.keys_as_depth(step));
  }

  /// Of one query: scores become probabilities, dropped ones in p, and products dy v' become ds = p (dp - D), with D = dy y.
  void differentiate(const head_of& at, std::int64_t query, std::int64_t first_key, std::int64_t seen, std::int64_t i) {
    float *p = p_ + i * key_tile, *ds = ds_ + i * key_tile;
    const std::int64_t columns = clip_row(p, seen);
    for (std::int64_t j = seen; j < key_tile; ++j)
      ds[j] = 0;
    const float lse = lse_[query], d = d_[query];
    if (op_.rate == 0)
      return differentiate(p, ds, columns, lse, d, [](std::int64_t) { return 1.0F; });
    alignas(64) float mask[key_tile];
    for (std::int64_t j = 0; j < key_tile; ++j)
      mask[j] = 1;
    drop(mask, key_of_row(op_, at.row), (at.head * s_.length + query) * s_.length + first_key, op_.rate);
    differentiate(p, ds, columns, lse, d, [&](std::int64_t j) { return mask[j]; });
  }

  template <class F>
  static void differentiate(float* p, float* ds, std::int64_t columns, float lse, float d, F mask) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < columns; ++j) {
      const float probability = exp2_below_one(p[j] - lse), kept = mask(j);
      ds[j] = probability * mul_add(kept, ds[j], -d);
      p[j] = probability * kept;
    }
  }

  const attention_backward& op_;
  const attention_shape& s_;
  std::int64_t step_, length_;
  float *q_, *k_, *dy_, *dq_, *dk_, *dv_, *k_transposed_, *v_transposed_, *lse_, *d_;
  alignas(64) float p_[key_tile * key_tile];
  alignas(64) float ds_[key_tile * key_tile];
};

void run(const with_scratch<attention_backward>& work) {
  const attention_shape& s = work.op.shape;
  const std::int64_t sharing = s.heads / s.key_heads;
  backward_head one(work.op, work.scratch);
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t head = 0; head < s.heads; head += sharing) {
      one.begin_keys({s, row, head});
      for (std::int64_t reader = head; reader < head + sharing; ++reader)
        one.add({s, row, reader});
      one.end_keys({s, row, head});
    }
}
