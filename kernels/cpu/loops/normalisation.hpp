// SPDX-License-Identifier: BSD-3-Clause
// Normalisations of rows and their gradients: layer norm, RMS norm.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

void run(const layernorm& op) {
  const float *x = op.x, *gamma = op.gamma, *beta = op.beta;
  float* y = op.y;
  const std::int64_t columns = op.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  for (std::int64_t r = 0; r < op.rows; ++r, x += columns, y += columns) {
    const float m = sum_of(x, columns) * inverse;
    // The variance from the differences, in a second pass over a row that is in the cache: E[x^2] - m^2 would cancel.
    const float variance = sum_lanes(x, columns, m, [m](f32x16 v) { return (v - m) * (v - m); }) * inverse;
    const float s = 1.0F / __builtin_sqrtf(variance + op.epsilon);
    op.mean[r] = m;
    op.rstd[r] = s;
    map(y, columns, false, [=](std::int64_t i) { return mul_add((x[i] - m) * s, gamma[i], beta[i]); });
  }
}

/// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)); dgamma = sum over rows of
/// dy xhat, dbeta of dy.
void run(const layernorm_backward& op) {
  const float *x = op.x, *gamma = op.gamma, *dy = op.dy;
  float *dx = op.dx, *dgamma = op.dgamma, *dbeta = op.dbeta;
  const std::int64_t columns = op.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  for (std::int64_t i = 0; i < columns && !op.accumulate; ++i)
    dgamma[i] = dbeta[i] = 0;
  for (std::int64_t r = 0; r < op.rows; ++r, x += columns, dy += columns, dx += columns) {
    const float m = op.mean[r], s = op.rstd[r];
    f32x16 sum_g = {}, sum_g_xhat = {};
    for (std::int64_t i = 0; i < columns; i += 16) {
      const std::int64_t count = min(16, columns - i);
      const bool whole = count == 16;
      const f32x16 g = whole ? load(dy + i) * load(gamma + i) : load_part(dy + i, count, 0) * load_part(gamma + i, count, 0);
      const f32x16 xhat = ((whole ? load(x + i) : load_part(x + i, count, m)) - m) * s;
      sum_g += g;
      sum_g_xhat += g * xhat;
    }
    const float mean_g = total(sum_g) * inverse, mean_g_xhat = total(sum_g_xhat) * inverse;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < columns; ++i) {
      const float xhat = (x[i] - m) * s, d = dy[i];
      dgamma[i] = mul_add(d, xhat, dgamma[i]);
      dbeta[i] += d;
      dx[i] = s * (mul_add(d, gamma[i], -mean_g) - xhat * mean_g_xhat);
    }
  }
}

void run(const rmsnorm& op) {
  const float *x = op.x, *gamma = op.gamma;
  float* y = op.y;
  const std::int64_t columns = op.columns;
  for (std::int64_t r = 0; r < op.rows; ++r, x += columns, y += columns) {
    const float squares = sum_lanes(x, columns, 0.0F, [](f32x16 v) { return v * v; });
    const float s = 1.0F / __builtin_sqrtf(squares / static_cast<float>(columns) + op.epsilon);
    op.rstd[r] = s;
    map(y, columns, false, [=](std::int64_t i) { return x[i] * s * gamma[i]; });
  }
}

/// With xhat = x rstd and g = dy gamma: dx = rstd (g - xhat mean(g xhat)); dgamma = sum over rows of dy xhat.
void run(const rmsnorm_backward& op) {
  const float *x = op.x, *gamma = op.gamma, *dy = op.dy;
  float *dx = op.dx, *dgamma = op.dgamma;
  const std::int64_t columns = op.columns;
  for (std::int64_t i = 0; i < columns && !op.accumulate; ++i)
    dgamma[i] = 0;
  for (std::int64_t r = 0; r < op.rows; ++r, x += columns, dy += columns, dx += columns) {
    const float s = op.rstd[r];
    f32x16 sum = {};
    for (std::int64_t i = 0; i < columns; i += 16) {
      const std::int64_t count = min(16, columns - i);
      sum += count == 16 ? load(dy + i) * load(gamma + i) * load(x + i)
                         : load_part(dy + i, count, 0) * load_part(gamma + i, count, 0) * load_part(x + i, count, 0);
    }
    const float mean_g_xhat = total(sum) * s / static_cast<float>(columns);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < columns; ++i) {
      const float xhat = x[i] * s, d = dy[i];
      dgamma[i] = mul_add(d, xhat, dgamma[i]);
      dx[i] = s * mul_add(d, gamma[i], -xhat * mean_g_xhat);
    }
  }
}
