// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers, as plain loops: one row, step and unit at a time.
#include "kernels/reference/compute.hpp"

#include <cmath>

namespace troupe::kernels::reference {

namespace {

/// The arrays of a layer of `parts` gates, by (row, step, unit).
template <class Real>
class recurrence {
public:
  recurrence(const auto& op, std::int64_t parts, const Real* u, const Real* y)
      : length_(op.length), width_(op.width), parts_(parts), u_(u), y_(y) {}

  std::int64_t unit(std::int64_t row, std::int64_t step, std::int64_t i) const { return (row * length_ + step) * width_ + i; }
  std::int64_t gate(std::int64_t row, std::int64_t step, std::int64_t part, std::int64_t i) const {
    return ((row * length_ + step) * parts_ + part) * width_ + i;
  }
  /// h_{t-1}; 0 before the first step.
  double before(std::int64_t row, std::int64_t step, std::int64_t i) const {
    return step > 0 ? static_cast<double>(y_[unit(row, step - 1, i)]) : 0.0;
  }
  /// u h_{t-1} + bias of one gate's unit.
  double recurrent(const Real* bias, std::int64_t row, std::int64_t step, std::int64_t part, std::int64_t i) const {
    double result = bias ? static_cast<double>(bias[part * width_ + i]) : 0.0;
    for (std::int64_t j = 0; j < width_; ++j)
      result += u_[(part * width_ + i) * width_ + j] * before(row, step, j);
    return result;
  }

private:
  std::int64_t length_, width_, parts_;
  const Real* u_;
  const Real* y_;
};

/// Of the recurrent side: what reaches u, bias and the step before, from the gradient of a_t.
template <class Real>
class recurrent_gradients {
public:
  recurrent_gradients(const recurrence<Real>& at, std::int64_t parts, std::int64_t width, const Real* u)
      : at_(at), parts_(parts), width_(width), u_(u), du_(size(parts * width * width)), dbias_(size(parts * width)) {}

  /// da(parts width) of one row and step; adds u' da to dh.
  void add(std::int64_t row, std::int64_t step, const std::vector<double>& da, std::vector<double>& dh) {
    for (std::int64_t k = 0; k < parts_ * width_; ++k) {
      dbias_[size(k)] += da[size(k)];
      for (std::int64_t j = 0; j < width_; ++j) {
        du_[size(k * width_ + j)] += da[size(k)] * at_.before(row, step, j);
        dh[size(j)] += da[size(k)] * u_[k * width_ + j];
      }
    }
  }
  void store_into(Real* du, Real* dbias, bool accumulate) const {
    store(du_, du, accumulate);
    store(dbias_, dbias, accumulate);
  }

private:
  const recurrence<Real>& at_;
  std::int64_t parts_, width_;
  const Real* u_;
  std::vector<double> du_, dbias_;
};

} // namespace

template <class Real>
void lstm(const kernels::lstm& op, const Real* projected, const Real* u, const Real* bias, Real* y, Real* gates, Real* cells) {
  const recurrence<Real> at(op, 4, u, y);
  for (std::int64_t row = 0; row < op.rows; ++row)
    for (std::int64_t t = 0; t < op.length; ++t)
      for (std::int64_t n = 0; n < op.width; ++n) {
        double a[4];
        for (std::int64_t part = 0; part < 4; ++part)
          a[part] = projected[at.gate(row, t, part, n)] + at.recurrent(bias, row, t, part, n);
        const double i = sigmoid(a[0]), f = sigmoid(a[1]), g = std::tanh(a[2]), o = sigmoid(a[3]);
        const double c = f * (t > 0 ? static_cast<double>(cells[at.unit(row, t - 1, n)]) : 0.0) + i * g;
        const double kept[4] = {i, f, g, o};
        for (std::int64_t part = 0; part < 4; ++part)
          gates[at.gate(row, t, part, n)] = static_cast<Real>(kept[part]);
        cells[at.unit(row, t, n)] = static_cast<Real>(c);
        y[at.unit(row, t, n)] = static_cast<Real>(o * std::tanh(c));
      }
}

/// With dh and dc what reaches a step: do = dh tanh(c), dc += dh o (1 - tanh(c)^2), di = dc g, df = dc c_{t-1}, dg = dc i, each
/// times its function's slope; dc_{t-1} = dc f.
template <class Real>
void lstm_backward(const kernels::lstm_backward& op, const Real* u, const Real* y, const Real* gates, const Real* cells,
                   const Real* dy, Real* dprojected, Real* du, Real* dbias) {
  const recurrence<Real> at(op, 4, u, y);
  recurrent_gradients<Real> recurrent(at, 4, op.width, u);
  for (std::int64_t row = 0; row < op.rows; ++row) {
    std::vector<double> dh(size(op.width)), dc(size(op.width)), da(size(4 * op.width));
    for (std::int64_t t = op.length - 1; t >= 0; --t) {
      for (std::int64_t n = 0; n < op.width; ++n) {
        const auto gate = [&](std::int64_t part) { return static_cast<double>(gates[at.gate(row, t, part, n)]); };
        const double i = gate(0), f = gate(1), g = gate(2), o = gate(3), h = std::tanh(cells[at.unit(row, t, n)]);
        const double before = t > 0 ? static_cast<double>(cells[at.unit(row, t - 1, n)]) : 0.0;
        const double dh_t = dy[at.unit(row, t, n)] + dh[size(n)], dc_t = dc[size(n)] + dh_t * o * (1 - h * h);
        da[size(n)] = dc_t * g * i * (1 - i);
        da[size(op.width + n)] = dc_t * before * f * (1 - f);
        da[size(2 * op.width + n)] = dc_t * i * (1 - g * g);
        da[size(3 * op.width + n)] = dh_t * h * o * (1 - o);
        dc[size(n)] = dc_t * f;
      }
      std::fill(dh.begin(), dh.end(), 0.0);
      recurrent.add(row, t, da, dh);
      store(da, dprojected + at.gate(row, t, 0, 0));
    }
  }
  recurrent.store_into(du, dbias, op.accumulate);
}

template <class Real>
void gru(const kernels::gru& op, const Real* projected, const Real* u, const Real* bias, Real* y, Real* gates, Real* candidates) {
  const recurrence<Real> at(op, 3, u, y);
  for (std::int64_t row = 0; row < op.rows; ++row)
    for (std::int64_t t = 0; t < op.length; ++t)
      for (std::int64_t i = 0; i < op.width; ++i) {
        const auto p = [&](std::int64_t part) { return static_cast<double>(projected[at.gate(row, t, part, i)]); };
        const double r = sigmoid(p(0) + at.recurrent(bias, row, t, 0, i)), z = sigmoid(p(1) + at.recurrent(bias, row, t, 1, i));
        const double candidate = at.recurrent(bias, row, t, 2, i), n = std::tanh(p(2) + r * candidate);
        const double kept[3] = {r, z, n};
        for (std::int64_t part = 0; part < 3; ++part)
          gates[at.gate(row, t, part, i)] = static_cast<Real>(kept[part]);
        candidates[at.unit(row, t, i)] = static_cast<Real>(candidate);
        y[at.unit(row, t, i)] = static_cast<Real>((1 - z) * n + z * at.before(row, t, i));
      }
}

/// With dh what reaches a step: dn = dh (1 - z) (1 - n^2), dz = dh (h_{t-1} - n) z (1 - z), dr = dn a_n r (1 - r); the recurrent
/// side gets dr, dz, r dn, and dh_{t-1} = dh z + u' of those.
template <class Real>
void gru_backward(const kernels::gru_backward& op, const Real* u, const Real* y, const Real* gates, const Real* candidates,
                  const Real* dy, Real* dprojected, Real* du, Real* dbias) {
  const recurrence<Real> at(op, 3, u, y);
  recurrent_gradients<Real> recurrent(at, 3, op.width, u);
  for (std::int64_t row = 0; row < op.rows; ++row) {
    std::vector<double> dh(size(op.width)), dp(size(3 * op.width)), da(size(3 * op.width));
    for (std::int64_t t = op.length - 1; t >= 0; --t) {
      for (std::int64_t i = 0; i < op.width; ++i) {
        const auto gate = [&](std::int64_t part) { return static_cast<double>(gates[at.gate(row, t, part, i)]); };
        const double r = gate(0), z = gate(1), n = gate(2), dh_t = dy[at.unit(row, t, i)] + dh[size(i)];
        const double dn = dh_t * (1 - z) * (1 - n * n);
        dp[size(i)] = da[size(i)] = dn * candidates[at.unit(row, t, i)] * r * (1 - r);
        dp[size(op.width + i)] = da[size(op.width + i)] = dh_t * (at.before(row, t, i) - n) * z * (1 - z);
        dp[size(2 * op.width + i)] = dn;
        da[size(2 * op.width + i)] = dn * r;
        dh[size(i)] = dh_t * z;
      }
      recurrent.add(row, t, da, dh);
      store(dp, dprojected + at.gate(row, t, 0, 0));
    }
  }
  recurrent.store_into(du, dbias, op.accumulate);
}

#define TROUPE_INSTANTIATE(Real)                                                                                                 \
  template void lstm(const kernels::lstm&, const Real*, const Real*, const Real*, Real*, Real*, Real*);                          \
  template void lstm_backward(const kernels::lstm_backward&, const Real*, const Real*, const Real*, const Real*, const Real*,    \
                              Real*, Real*, Real*);                                                                              \
  template void gru(const kernels::gru&, const Real*, const Real*, const Real*, Real*, Real*, Real*);                            \
  template void gru_backward(const kernels::gru_backward&, const Real*, const Real*, const Real*, const Real*, const Real*,      \
                             Real*, Real*, Real*);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

void compute(const kernels::lstm& op) {
  lstm(op, op.projected, op.u, op.bias, op.y, op.gates, op.cells);
}

void compute(const kernels::lstm_backward& op) {
  lstm_backward(op, op.u, op.y, op.gates, op.cells, op.dy, op.dprojected, op.du, op.dbias);
}

void compute(const kernels::gru& op) {
  gru(op, op.projected, op.u, op.bias, op.y, op.gates, op.candidates);
}

void compute(const kernels::gru_backward& op) {
  gru_backward(op, op.u, op.y, op.gates, op.candidates, op.dy, op.dprojected, op.du, op.dbias);
}

} // namespace troupe::kernels::reference
