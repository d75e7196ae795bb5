// SPDX-License-Identifier: BSD-3-Clause
// Embedding, attention and rotary positions, as plain loops.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/random.hpp"

namespace troupe::kernels::reference {

namespace {

/// Where the elements of one row and one head of queries lie.
struct head_places {
  const attention_shape& s;
  std::int64_t row, head;

  std::int64_t q(std::int64_t t) const { return (row * s.length + t) * s.q_stride + head * s.head_size; }
  std::int64_t kv(std::int64_t t) const {
    return (row * s.length + t) * s.kv_stride + head / (s.heads / s.key_heads) * s.head_size;
  }
  std::int64_t y(std::int64_t t) const { return (row * s.length + t) * s.width() + head * s.head_size; }
  std::int64_t lse(std::int64_t t) const { return (row * s.heads + head) * s.length + t; }
  /// How many keys a query sees.
  std::int64_t seen(std::int64_t t) const { return s.causal ? t + 1 : s.length; }
  /// What a probability is multiplied by.
  double kept(const auto& op, std::int64_t t, std::int64_t key) const {
    if (op.rate == 0)
      return 1;
    const auto of_row = op.key->of_layer(op.layer).of_row(static_cast<std::uint64_t>(row));
    const auto element = (head * s.length + t) * s.length + key;
    return random_uniform(of_row, static_cast<std::uint64_t>(element)) >= op.rate ? 1 / (1 - static_cast<double>(op.rate)) : 0;
  }
};

template <class F>
void for_heads(const attention_shape& s, F visit) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t head = 0; head < s.heads; ++head)
      visit(head_places{s, row, head});
}

template <class Real>
double dot(const Real* a, const Real* b, std::int64_t n) {
  double result = 0;
  for (std::int64_t i = 0; i < n; ++i)
    result += static_cast<double>(a[i]) * b[i];
  return result;
}

std::int64_t nearest_id(const auto& op, std::int64_t i) {
  return std::clamp<std::int64_t>(op.ids[i], 0, op.vocabulary - 1);
}

} // namespace

template <class Real>
void attention(const kernels::attention& op, const Real* q, const Real* k, const Real* v, Real* y, Real* lse) {
  const attention_shape& s = op.shape;
  for_heads(s, [&](const head_places& at) {
    for (std::int64_t t = 0; t < s.length; ++t) {
      std::vector<double> scores(size(at.seen(t))), result(size(s.head_size));
      for (std::int64_t j = 0; j < at.seen(t); ++j)
        scores[size(j)] = static_cast<double>(op.shape.scale) * dot(q + at.q(t), k + at.kv(j), s.head_size);
      const double peak = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double score : scores)
        total += std::exp(score - peak);
      for (std::int64_t j = 0; j < at.seen(t); ++j)
        for (std::int64_t i = 0; i < s.head_size; ++i)
          result[size(i)] += at.kept(op, t, j) * std::exp(scores[size(j)] - peak) / total * v[at.kv(j) + i];
      store(result, y + at.y(t));
      lse[at.lse(t)] = static_cast<Real>(peak + std::log(total));
    }
  });
}

/// With D = dy . y and m what dropout multiplies by: p = exp(scale q . k - lse), dv += m p dy, ds = p (m dy . v - D),
/// dq += scale ds k, dk += scale ds q.
template <class Real>
void attention_backward(const kernels::attention_backward& op, const Real* q, const Real* k, const Real* v, const Real* y,
                        const Real* lse, const Real* dy, Real* dq, Real* dk, Real* dv) {
  const attention_shape& s = op.shape;
  std::vector<double> queries(size(s.tokens() * s.q_stride)), keys(size(s.tokens() * s.kv_stride)), values(keys.size());
  for_heads(s, [&](const head_places& at) {
    for (std::int64_t t = 0; t < s.length; ++t) {
      const double d = dot(dy + at.y(t), y + at.y(t), s.head_size);
      for (std::int64_t j = 0; j < at.seen(t); ++j) {
        const double p = std::exp(s.scale * dot(q + at.q(t), k + at.kv(j), s.head_size) - lse[at.lse(t)]), m = at.kept(op, t, j);
        const double ds = s.scale * p * (m * dot(dy + at.y(t), v + at.kv(j), s.head_size) - d);
        for (std::int64_t i = 0; i < s.head_size; ++i) {
          queries[size(at.q(t) + i)] += ds * k[at.kv(j) + i];
          keys[size(at.kv(j) + i)] += ds * q[at.q(t) + i];
          values[size(at.kv(j) + i)] += m * p * dy[at.y(t) + i];
        }
      }
    }
  });
  for (std::int64_t token = 0; token < s.tokens(); ++token) { // what lies between is not ours
    const auto copy = [&](const std::vector<double>& from, Real* to, std::int64_t stride, std::int64_t width) {
      for (std::int64_t i = token * stride; i < token * stride + width; ++i)
        to[i] = static_cast<Real>(from[size(i)]);
    };
    copy(queries, dq, s.q_stride, s.width());
    copy(keys, dk, s.kv_stride, s.key_width());
    copy(values, dv, s.kv_stride, s.key_width());
  }
}

template <class Real>
void rotary(const kernels::rotary& op, const Real* x, Real* y) {
  std::copy_n(x, op.count(), y);
  for (std::int64_t token = 0; token < op.rows * op.length; ++token)
    for (std::int64_t head = 0; head < op.heads; ++head)
      for (std::int64_t pair = 0; pair < op.rotated / 2; ++pair) {
        const double angle = static_cast<double>(token % op.length)
                             * std::pow(op.base, -2 * static_cast<double>(pair) / static_cast<double>(op.rotated));
        const double c = std::cos(angle), s = op.inverse ? -std::sin(angle) : std::sin(angle);
        Real* begin = y + token * op.width + head * op.head_size;
        Real& first = begin[op.interleaved ? 2 * pair : pair];
        Real& second = begin[op.interleaved ? 2 * pair + 1 : pair + op.rotated / 2];
        const double a = first, b = second;
        first = static_cast<Real>(a * c - b * s);
        second = static_cast<Real>(a * s + b * c);
      }
}

#define TROUPE_INSTANTIATE(Real)                                                                                                 \
  template void attention(const kernels::attention&, const Real*, const Real*, const Real*, Real*, Real*);                       \
  template void attention_backward(const kernels::attention_backward&, const Real*, const Real*, const Real*, const Real*,       \
                                   const Real*, const Real*, Real*, Real*, Real*);                                               \
  template void rotary(const kernels::rotary&, const Real*, Real*);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

void compute(const kernels::embedding& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    std::copy_n(op.table + nearest_id(op, i) * op.width, op.width, op.y + i * op.width);
}

void compute(const kernels::embedding_backward& op) {
  std::vector<double> sums(size(op.vocabulary * op.width));
  for (std::int64_t i = 0; i < op.count; ++i)
    for (std::int64_t j = 0; j < op.width; ++j)
      sums[size(nearest_id(op, i) * op.width + j)] += op.dy[i * op.width + j];
  store(sums, op.dtable, op.accumulate);
}

void compute(const kernels::attention& op) {
  attention(op, op.q, op.k, op.v, op.y, op.lse);
}

void compute(const kernels::attention_backward& op) {
  attention_backward(op, op.q, op.k, op.v, op.y, op.lse, op.dy, op.dq, op.dk, op.dv);
}

void compute(const kernels::rotary& op) {
  rotary(op, op.x, op.y);
}

} // namespace troupe::kernels::reference
