// SPDX-License-Identifier: BSD-3-Clause
// Embedding, attention, rotary positions, recurrent layers.
#pragma once

#include <cmath>

#include "kernels/random.hpp"
#include "tests/tensor/interpreter/norms.hpp"

namespace troupe::testing::interpreting {

class sequences : public norms {
public:
  using norms::norms;
  using norms::operator();

  void operator()(const ops::embedding&) {
    const auto width = static_cast<std::size_t>(shape_of(1).dims[1]);
    for (std::size_t i = 0; i < y().size(); ++i)
      y()[i] = x(1)[static_cast<std::size_t>(x(0)[i / width]) * width + i % width];
  }
  void operator()(const ops::embedding_backward& op) {
    const auto width = static_cast<std::size_t>(op.table[1]);
    for (std::size_t i = 0; i < x(1).size(); ++i)
      y()[static_cast<std::size_t>(x(0)[i / width]) * width + i % width] += x(1)[i];
  }

  void operator()(const ops::attention& op) {
    const attention_view v{*this, op, n_->inputs.size() == 1};
    v.each_query([&](auto row, auto h, auto i) {
      const auto p = v.probabilities(row, h, i);
      double sum = 0;
      for (std::int64_t j = 0; j < v.length; ++j)
        sum += v.sees(i, j) ? std::exp(v.score(row, h, i, j)) : 0;
      at(y(1), (row * op.heads + h) * v.length + i) = std::log(sum);
      for (std::int64_t j = 0; j < v.length; ++j)
        for (std::int64_t e = 0; e < v.head; ++e)
          at(y(), v.query(row, h, i, e)) += at(p, j) * v.mask(row, h, i, j) * v.v(row, h, j, e);
    });
  }
  // With P the probabilities, M the mask: dV = (P M)' dO, dP = M (dO V'), dS = P (dP - rowsum(P dP)), dQ = s dS K, dK = s dS' Q.
  void operator()(const ops::attention_backward& op) {
    const bool together = n_->outputs.size() == 1;
    const attention_view v{*this, op.forward, together};
    const auto& dy = x(n_->inputs.size() - 1);
    v.each_query([&](auto row, auto h, auto i) {
      const auto p = v.probabilities(row, h, i);
      array dp(p.size());
      double sum = 0;
      for (std::int64_t j = 0; j < v.length; ++j) {
        for (std::int64_t e = 0; e < v.head; ++e) {
          const double out = at(dy, v.query(row, h, i, e)), m = v.mask(row, h, i, j);
          at(dp, j) += m * out * v.v(row, h, j, e);
          at(y(together ? 0 : 2), v.place_of_value(row, h, j, e)) += at(p, j) * m * out;
        }
        sum += at(p, j) * at(dp, j);
      }
      for (std::int64_t j = 0; j < v.length; ++j)
        for (std::int64_t e = 0; e < v.head; ++e) {
          const double ds = at(p, j) * (at(dp, j) - sum) * v.scale;
          at(y(0), v.place_of_query(row, h, i, e)) += ds * v.k(row, h, j, e);
          at(y(together ? 0 : 1), v.place_of_key(row, h, j, e)) += ds * v.q(row, h, i, e);
        }
    });
  }

  void operator()(const ops::rotary& op) {
    y() = x(0);
    const auto length = shape_of(0).dims[0], width = shape_of(0).dims[1], half = op.head_size / 2;
    for (std::int64_t token = 0; token < given_.rows * length; ++token)
      for (std::int64_t h = 0; h < op.heads; ++h)
        for (std::int64_t i = 0; i < half; ++i) {
          const double turn = static_cast<double>(token % length)
                              * std::pow(op.base, -2 * static_cast<double>(i) / static_cast<double>(op.head_size))
                              * (op.inverse ? -1 : 1);
          const auto begin = token * width + h * op.head_size;
          const auto a = begin + (op.interleaved ? 2 * i : i), b = begin + (op.interleaved ? 2 * i + 1 : i + half);
          at(y(), a) = at(x(0), a) * std::cos(turn) - at(x(0), b) * std::sin(turn);
          at(y(), b) = at(x(0), a) * std::sin(turn) + at(x(0), b) * std::cos(turn);
        }
  }

  // a = projected + u h + bias; (i, f, g, o) of a; c' = f c + i g; h' = o tanh(c').
  void operator()(const ops::lstm&) {
    each_step([&](const step& s) {
      for (std::int64_t j = 0; j < s.width; ++j) {
        double gate[4];
        for (std::int64_t k = 0; k < 4; ++k) {
          const double a = at(x(0), s.gate(4, k, j)) + recurrence(s, k * s.width + j);
          at(y(1), s.gate(4, k, j)) = gate[k] = k == 2 ? std::tanh(a) : sigmoid(a);
        }
        at(y(2), s.at(j)) = gate[1] * (s.t > 0 ? at(y(2), s.before(j)) : 0) + gate[0] * gate[2];
        at(y(), s.at(j)) = gate[3] * std::tanh(at(y(2), s.at(j)));
      }
    });
  }
  void operator()(const ops::lstm_backward&) {
    array dc(x(1).size()), dh = x(4);
    each_step_back([&](const step& s) {
      for (std::int64_t j = 0; j < s.width; ++j) {
        const double i = at(x(2), s.gate(4, 0, j)), f = at(x(2), s.gate(4, 1, j)), g = at(x(2), s.gate(4, 2, j)),
                     o = at(x(2), s.gate(4, 3, j)), c = std::tanh(at(x(3), s.at(j))),
                     c_before = s.t > 0 ? at(x(3), s.before(j)) : 0;
        const double d = at(dc, s.at(j)) + at(dh, s.at(j)) * o * (1 - c * c);
        at(y(), s.gate(4, 0, j)) = d * g * i * (1 - i);
        at(y(), s.gate(4, 1, j)) = d * c_before * f * (1 - f);
        at(y(), s.gate(4, 2, j)) = d * i * (1 - g * g);
        at(y(), s.gate(4, 3, j)) = at(dh, s.at(j)) * c * o * (1 - o);
        if (s.t > 0)
          at(dc, s.before(j)) += d * f;
      }
      for (std::int64_t k = 0; k < 4 * s.width; ++k)
        through_weights(s, k, at(y(), s.gate(4, 0, 0) + k), dh);
    });
  }

  // r, z = sigmoid(projected + u h + bias), n = tanh(projected + r (u h + bias)); h' = (1 - z) n + z h.
  void operator()(const ops::gru&) {
    each_step([&](const step& s) {
      for (std::int64_t j = 0; j < s.width; ++j) {
        const double r = sigmoid(at(x(0), s.gate(3, 0, j)) + recurrence(s, j));
        const double z = sigmoid(at(x(0), s.gate(3, 1, j)) + recurrence(s, s.width + j));
        const double candidate = recurrence(s, 2 * s.width + j);
        const double n = std::tanh(at(x(0), s.gate(3, 2, j)) + r * candidate);
        at(y(1), s.gate(3, 0, j)) = r;
        at(y(1), s.gate(3, 1, j)) = z;
        at(y(1), s.gate(3, 2, j)) = n;
        at(y(2), s.at(j)) = candidate;
        at(y(), s.at(j)) = (1 - z) * n + z * (s.t > 0 ? at(y(), s.before(j)) : 0);
      }
    });
  }
  void operator()(const ops::gru_backward&) {
    array dh = x(4);
    each_step_back([&](const step& s) {
      array da(static_cast<std::size_t>(3 * s.width)); // of u h + bias
      for (std::int64_t j = 0; j < s.width; ++j) {
        const double r = at(x(2), s.gate(3, 0, j)), z = at(x(2), s.gate(3, 1, j)), n = at(x(2), s.gate(3, 2, j)),
                     candidate = at(x(3), s.at(j)), h = s.t > 0 ? at(x(1), s.before(j)) : 0, d = at(dh, s.at(j));
        const double dn = d * (1 - z) * (1 - n * n);
        at(y(), s.gate(3, 0, j)) = at(da, j) = dn * candidate * r * (1 - r);
        at(y(), s.gate(3, 1, j)) = at(da, s.width + j) = d * (h - n) * z * (1 - z);
        at(y(), s.gate(3, 2, j)) = dn;
        at(da, 2 * s.width + j) = dn * r;
        if (s.t > 0)
          at(dh, s.before(j)) += d * z;
      }
      for (std::int64_t k = 0; k < 3 * s.width; ++k)
        through_weights(s, k, at(da, k), dh);
    });
  }

private:
  static double sigmoid(double a) { return 1 / (1 + std::exp(-a)); }

  // -- recurrence: x(0) or x(2) are gates, the state before step t is that of t - 1, and 0 at first

  struct step {
    std::int64_t row, t, length, width;
    std::int64_t at(std::int64_t j) const { return (row * length + t) * width + j; }
    std::int64_t before(std::int64_t j) const { return at(j) - width; }
    std::int64_t gate(std::int64_t gates, std::int64_t k, std::int64_t j) const {
      return (row * length + t) * gates * width + k * width + j;
    }
  };
  template <class F>
  void each_step(F f) const {
    const auto& dims = result(0).dims;
    for (std::int64_t row = 0; row < given_.rows; ++row)
      for (std::int64_t t = 0; t < dims[0]; ++t)
        f(step{row, t, dims[0], dims[1]});
  }
  template <class F>
  void each_step_back(F f) const {
    const auto& dims = shape_of(1).dims;
    for (std::int64_t row = 0; row < given_.rows; ++row)
      for (auto t = dims[0] - 1; t >= 0; --t)
        f(step{row, t, dims[0], dims[1]});
  }
  /// Element k of u h + bias, with the h before step s.
  double recurrence(const step& s, std::int64_t k) {
    double sum = at(x(2), k);
    for (std::int64_t j = 0; s.t > 0 && j < s.width; ++j)
      sum += at(x(1), k * s.width + j) * at(y(), s.before(j));
    return sum;
  }
  /// The gradient of element k of u h + bias goes to u, the bias, and the h before.
  void through_weights(const step& s, std::int64_t k, double d, array& dh) {
    at(y(2), k) += d;
    for (std::int64_t j = 0; s.t > 0 && j < s.width; ++j) {
      at(y(1), k * s.width + j) += d * at(x(1), s.before(j));
      at(dh, s.before(j)) += d * at(x(0), k * s.width + j);
    }
  }

  /// Queries, keys and values of a node, in one tensor or apart.
  struct attention_view {
    attention_view(const state& self, const ops::attention& op, bool together)
        : self(self), op(op), length(self.shape_of(0).dims[0]), width(self.shape_of(0).dims[1]),
          head(width / (together ? op.heads + 2 * op.key_heads : op.heads)), together(together),
          scale(1 / std::sqrt(static_cast<double>(head))) {}

    std::int64_t key_head(std::int64_t h) const { return h / (op.heads / op.key_heads); }
    std::int64_t query(std::int64_t row, std::int64_t h, std::int64_t i, std::int64_t e) const {
      return ((row * length + i) * op.heads + h) * head + e;
    }
    std::int64_t place_of_query(std::int64_t row, std::int64_t h, std::int64_t i, std::int64_t e) const {
      return (row * length + i) * width + h * head + e;
    }
    std::int64_t place_of_key(std::int64_t row, std::int64_t h, std::int64_t j, std::int64_t e) const {
      const auto place = key_head(h) * head + e;
      return together ? (row * length + j) * width + op.heads * head + place : (row * length + j) * op.key_heads * head + place;
    }
    std::int64_t place_of_value(std::int64_t row, std::int64_t h, std::int64_t j, std::int64_t e) const {
      return place_of_key(row, h, j, e) + (together ? op.key_heads * head : 0);
    }
    double q(std::int64_t row, std::int64_t h, std::int64_t i, std::int64_t e) const {
      return at(self.x(0), place_of_query(row, h, i, e));
    }
    double k(std::int64_t row, std::int64_t h, std::int64_t j, std::int64_t e) const {
      return at(self.x(together ? 0 : 1), place_of_key(row, h, j, e));
    }
    double v(std::int64_t row, std::int64_t h, std::int64_t j, std::int64_t e) const {
      return at(self.x(together ? 0 : 2), place_of_value(row, h, j, e));
    }
    bool sees(std::int64_t i, std::int64_t j) const { return !op.causal || j <= i; }
    double score(std::int64_t row, std::int64_t h, std::int64_t i, std::int64_t j) const {
      double sum = 0;
      for (std::int64_t e = 0; e < head; ++e)
        sum += q(row, h, i, e) * k(row, h, j, e) * scale;
      return sum;
    }
    array probabilities(std::int64_t row, std::int64_t h, std::int64_t i) const {
      array p(static_cast<std::size_t>(length));
      double sum = 0;
      for (std::int64_t j = 0; j < length; ++j)
        sum += at(p, j) = sees(i, j) ? std::exp(score(row, h, i, j)) : 0;
      for (auto& each : p)
        each /= sum;
      return p;
    }
    double mask(std::int64_t row, std::int64_t h, std::int64_t i, std::int64_t j) const {
      if (op.rate == 0 || !self.given_.training)
        return 1;
      const auto key = self.given_.key.of_layer(op.stream).of_row(static_cast<std::uint64_t>(row));
      const bool keep = kernels::random_uniform(key, static_cast<std::uint64_t>((h * length + i) * length + j)) >= op.rate;
      return keep ? 1 / (1 - static_cast<double>(op.rate)) : 0;
    }
    template <class F>
    void each_query(F f) const {
      for (std::int64_t row = 0; row < self.given_.rows; ++row)
        for (std::int64_t h = 0; h < op.heads; ++h)
          for (std::int64_t i = 0; i < length; ++i)
            f(row, h, i);
    }

    const state& self;
    const ops::attention& op;
    std::int64_t length, width, head;
    bool together;
    double scale;
  };
};

} // namespace troupe::testing::interpreting
