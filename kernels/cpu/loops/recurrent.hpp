// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers: a small product and the gates for each step. What concerns all steps at once is cpu/recurrent.cpp's.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// Columns of a panel: a weight is packed so that the ones that a block of a product needs lie together.
constexpr std::int64_t panel_width = 2 * native_floats;

/// The state of one layer between steps, and its weight in panels.
class recurrence {
public:
  /// `inputs` and `outputs` of the product of a step.
  recurrence(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, float* scratch)
      : padded_rows_(padded(rows, block_rows)), inputs_(inputs), outputs_(padded(outputs, panel_width)),
        left_step_(row_apart(inputs_)), result_step_(row_apart(outputs_)) {
    scratch_parts parts{scratch};
    panels_ = parts.take(inputs_ * outputs_);
    left_ = parts.take(padded_rows_ * left_step_);
    result_ = parts.take(padded_rows_ * result_step_);
    __builtin_memset(left_, 0, static_cast<std::size_t>(padded_rows_ * left_step_) * sizeof(float));
    __builtin_memset(result_, 0, static_cast<std::size_t>(padded_rows_ * result_step_) * sizeof(float));
  }

  /// Products with the transpose of u(outputs, inputs), or with u(inputs, outputs).
  void pack_transpose_of(const float* u, std::int64_t outputs) {
    for (std::int64_t first = 0; first < outputs_; first += panel_width)
      pack_transposed(u + first * inputs_, inputs_, min(panel_width, outputs - first), inputs_, panels_ + first * inputs_,
                      panel_width, panel_width);
  }
  void pack(const float* u, std::int64_t outputs) {
    for (std::int64_t first = 0; first < outputs_; first += panel_width)
      pack_rows(u + first, outputs, inputs_, min(panel_width, outputs - first), 1, panels_ + first * inputs_, panel_width,
                inputs_);
  }

  /// What is multiplied next, and what came of the last product; a row each.
  float* left(std::int64_t row) { return left_ + row * left_step_; }
  float* result(std::int64_t row) { return result_ + row * result_step_; }

  void multiply() {
    for (std::int64_t first = 0; first < outputs_; first += panel_width)
      multiply_tile<false>(padded_rows_, panel_width, inputs_, {left_, left_step_, 1}, panels_ + first * inputs_, panel_width,
                           result_ + first, result_step_);
  }

private:
  std::int64_t padded_rows_, inputs_, outputs_, left_step_, result_step_;
  float *panels_, *left_, *result_;
};

/// One row and step of an LSTM. `a` is u h; p may be g.
inline void lstm_gates(const float* p, const float* a, const float* bias, const float* cells_before, float* g, float* cells,
                       float* y, float* h, std::int64_t width) {
  const auto units = [=](auto biased, auto has_before) {
#pragma GCC ivdep
    for (std::int64_t n = 0; n < width; ++n) {
      const auto sum = [=](std::int64_t part) {
        const std::int64_t at = part * width + n;
        return biased() ? p[at] + a[at] + bias[at] : p[at] + a[at];
      };
      const float i = sigmoid(sum(0)), f = sigmoid(sum(1)), candidate = tanh(sum(2)), o = sigmoid(sum(3));
      const float c = has_before() ? mul_add(f, cells_before[n], i * candidate) : i * candidate;
      g[n] = i;
      g[width + n] = f;
      g[2 * width + n] = candidate;
      g[3 * width + n] = o;
      cells[n] = c;
      y[n] = h[n] = o * tanh(c);
    }
  };
  const auto yes = [] { return true; };
  const auto no = [] { return false; };
  if (bias && cells_before)
    units(yes, yes);
  else if (bias)
    units(yes, no);
  else if (cells_before)
    units(no, yes);
  else
    units(no, no);
}

void run(const with_scratch<lstm>& work) {
  const lstm& op = work.op;
  const std::int64_t width = op.width;
  recurrence state(op.rows, width, 4 * width, work.scratch);
  state.pack_transpose_of(op.u, 4 * width);
  for (std::int64_t t = 0; t < op.length; ++t) {
    if (t > 0)
      state.multiply();
    for (std::int64_t row = 0; row < op.rows; ++row) {
      const std::int64_t unit = (row * op.length + t) * width;
      lstm_gates(op.projected + 4 * unit, state.result(row), op.bias, t > 0 ? op.cells + unit - width : nullptr,
                 op.gates + 4 * unit, op.cells + unit, op.y + unit, state.left(row), width);
    }
  }
}

/// One row and step backwards, see the reference; g may be dp. dc is what reaches the cells of this step, then those before it.
inline void lstm_gate_gradients(const float* g, const float* cells, const float* cells_before, const float* dy, const float* dh,
                                float* dc, float* dp, float* left, std::int64_t width) {
#pragma GCC ivdep
  for (std::int64_t n = 0; n < width; ++n) {
    const float i = g[n], f = g[width + n], candidate = g[2 * width + n], o = g[3 * width + n], h = tanh(cells[n]);
    const float dh_t = dy[n] + dh[n], dc_t = mul_add(dh_t * o, mul_add(-h, h, 1.0F), dc[n]);
    const float before = cells_before ? cells_before[n] : 0.0F;
    const float di = dc_t * candidate * i * (1.0F - i), df = dc_t * before * f * (1.0F - f);
    const float dg = dc_t * i * mul_add(-candidate, candidate, 1.0F), d_o = dh_t * h * o * (1.0F - o);
    dp[n] = left[n] = di;
    dp[width + n] = left[width + n] = df;
    dp[2 * width + n] = left[2 * width + n] = dg;
    dp[3 * width + n] = left[3 * width + n] = d_o;
    dc[n] = dc_t * f;
  }
}

void run(const with_scratch<lstm_backward>& work) {
  const lstm_backward& op = work.op;
  const std::int64_t width = op.width;
  scratch_parts parts{work.scratch};
  float* dc = parts.take(op.rows * width);
  __builtin_memset(dc, 0, static_cast<std::size_t>(op.rows * width) * sizeof(float));
  recurrence state(op.rows, 4 * width, width, parts.next);
  state.pack(op.u, width);
  for (std::int64_t t = op.length - 1; t >= 0; --t) {
    for (std::int64_t row = 0; row < op.rows; ++row) {
      const std::int64_t unit = (row * op.length + t) * width;
      lstm_gate_gradients(op.gates + 4 * unit, op.cells + unit, t > 0 ? op.cells + unit - width : nullptr, op.dy + unit,
                          state.result(row), dc + row * width, op.dprojected + 4 * unit, state.left(row), width);
    }
    if (t > 0)
      state.multiply();
  }
}

/// One row and step of a GRU. `a` is u h, where the bias is still missing; p may be g; h is that of the step before, then this
/// one.
inline void gru_gates(const float* p, const float* a, const float* bias, float* g, float* candidates, float* y, float* h,
                      std::int64_t width) {
  const auto units = [=](auto biased) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      const auto recurrent = [=](std::int64_t part) {
        return biased() ? a[part * width + i] + bias[part * width + i] : a[part * width + i];
      };
      const float r = sigmoid(p[i] + recurrent(0)), z = sigmoid(p[width + i] + recurrent(1)), candidate = recurrent(2);
      const float n = tanh(mul_add(r, candidate, p[2 * width + i]));
      g[i] = r;
      g[width + i] = z;
      g[2 * width + i] = n;
      candidates[i] = candidate;
      y[i] = h[i] = mul_add(z, h[i] - n, n);
    }
  };
  if (bias)
    units([] { return true; });
  else
    units([] { return false; });
}

void run(const with_scratch<gru>& work) {
  const gru& op = work.op;
  const std::int64_t width = op.width;
  recurrence state(op.rows, width, 3 * width, work.scratch);
  state.pack_transpose_of(op.u, 3 * width);
  for (std::int64_t t = 0; t < op.length; ++t) {
    if (t > 0)
      state.multiply();
    for (std::int64_t row = 0; row < op.rows; ++row) {
      const std::int64_t unit = (row * op.length + t) * width;
      gru_gates(op.projected + 3 * unit, state.result(row), op.bias, op.gates + 3 * unit, op.candidates + unit, op.y + unit,
                state.left(row), width);
    }
  }
}

/// One row and step backwards; g may be dp. `through` is what reaches h of this step past the product, then that of the step
/// before; `recurrent` the gradient of the recurrent side.
inline void gru_gate_gradients(const float* g, const float* candidates, const float* y_before, const float* dy, const float* dh,
                               float* through, float* dp, float* recurrent, float* left, std::int64_t width) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < width; ++i) {
    const float r = g[i], z = g[width + i], n = g[2 * width + i], dh_t = dy[i] + dh[i] + through[i];
    const float before = y_before ? y_before[i] : 0.0F;
    const float dn = dh_t * (1.0F - z) * mul_add(-n, n, 1.0F), dz = dh_t * (before - n) * z * (1.0F - z);
    const float dr = dn * candidates[i] * r * (1.0F - r);
    dp[i] = recurrent[i] = left[i] = dr;
    dp[width + i] = recurrent[width + i] = left[width + i] = dz;
    dp[2 * width + i] = dn;
    recurrent[2 * width + i] = left[2 * width + i] = dn * r;
    through[i] = dh_t * z;
  }
}

void run(const with_scratch<gru_backward>& work) {
  const gru_backward& op = work.op;
  const std::int64_t width = op.width;
  scratch_parts parts{work.scratch};
  float* recurrent = parts.take(3 * op.count()); // read by cpu/recurrent.cpp: first
  float* through = parts.take(op.rows * width);
  __builtin_memset(through, 0, static_cast<std::size_t>(op.rows * width) * sizeof(float));
  recurrence state(op.rows, 3 * width, width, parts.next);
  state.pack(op.u, width);
  for (std::int64_t t = op.length - 1; t >= 0; --t) {
    for (std::int64_t row = 0; row < op.rows; ++row) {
      const std::int64_t unit = (row * op.length + t) * width;
      gru_gate_gradients(op.gates + 3 * unit, op.candidates + unit, t > 0 ? op.y + unit - width : nullptr, op.dy + unit,
                         state.result(row), through + row * width, op.dprojected + 3 * unit, recurrent + 3 * unit,
                         state.left(row), width);
    }
    if (t > 0)
      state.multiply();
  }
}
