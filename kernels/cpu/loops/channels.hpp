// SPDX-License-Identifier: BSD-3-Clause
// Normalisations of channels over (rows, channels, inner) and their gradients: group norm, batch norm.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// y = (x - mean) * (rstd * gamma) + beta over a line of one channel.
inline void normalise_line(const float* x, float* y, std::int64_t n, float mean, float scale, float beta) {
  map(y, n, false, [=](std::int64_t i) { return mul_add(x[i] - mean, scale, beta); });
}

/// What one line adds to the sums over dy and over dy * xhat.
struct line_sums {
  float dy = 0, dy_xhat = 0;
  void add(const float* x, const float* gradient, std::int64_t n, float mean, float rstd) {
    dy += sum_of(gradient, n);
    dy_xhat += sum_lanes(x, gradient, n, [mean](f32x16 v, f32x16 d) { return (v - mean) * d; }) * rstd;
  }
};

/// dx = scale * (dy - mean_dy - xhat * mean_dy_xhat) over a line, where the means are those of dy gamma, divided by gamma.
inline void gradient_line(const float* x, const float* dy, float* dx, std::int64_t n, float mean, float rstd, float scale,
                          float from_mean, float from_xhat) {
  const float slope = from_xhat * rstd;
  map(dx, n, false, [=](std::int64_t i) { return mul_add(dy[i], scale, -mul_add(x[i] - mean, slope, from_mean)); });
}

void run(const groupnorm& op) {
  if (op.inner == 1 && op.groups == 1)
    return run(layernorm{op.x, op.gamma, op.beta, op.epsilon, op.y, op.mean, op.rstd, op.rows, op.channels});
  const std::int64_t channels = op.channels / op.groups, elements = channels * op.inner;
  const float inverse = 1.0F / static_cast<float>(elements);
  for (std::int64_t set = 0; set < op.rows * op.groups; ++set) {
    const float* x = op.x + set * elements;
    float* y = op.y + set * elements;
    const float m = sum_of(x, elements) * inverse;
    const float variance = sum_lanes(x, elements, m, [m](f32x16 v) { return (v - m) * (v - m); }) * inverse;
    const float s = 1.0F / __builtin_sqrtf(variance + op.epsilon);
    op.mean[set] = m;
    op.rstd[set] = s;
    const std::int64_t first = set % op.groups * channels;
    for (std::int64_t c = 0; c < channels; ++c)
      normalise_line(x + c * op.inner, y + c * op.inner, op.inner, m, s * op.gamma[first + c], op.beta[first + c]);
  }
}

void run(const groupnorm_backward& op) {
  if (op.inner == 1 && op.groups == 1)
    return run(layernorm_backward{op.x, op.gamma, op.mean, op.rstd, op.dy, op.dx, op.dgamma, op.dbeta, op.rows, op.channels,
                                  op.accumulate});
  const std::int64_t channels = op.channels / op.groups, inner = op.inner, elements = channels * inner;
  const float inverse = 1.0F / static_cast<float>(elements);
  for (std::int64_t c = 0; c < op.channels && !op.accumulate; ++c)
    op.dgamma[c] = op.dbeta[c] = 0;
  for (std::int64_t set = 0; set < op.rows * op.groups; ++set) {
    const float *x = op.x + set * elements, *dy = op.dy + set * elements;
    float* dx = op.dx + set * elements;
    const float m = op.mean[set], s = op.rstd[set];
    const std::int64_t first = set % op.groups * channels;
    float mean_g = 0, mean_g_xhat = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      line_sums sums;
      sums.add(x + c * inner, dy + c * inner, inner, m, s);
      op.dbeta[first + c] += sums.dy;
      op.dgamma[first + c] += sums.dy_xhat;
      mean_g = mul_add(op.gamma[first + c], sums.dy, mean_g);
      mean_g_xhat = mul_add(op.gamma[first + c], sums.dy_xhat, mean_g_xhat);
    }
    for (std::int64_t c = 0; c < channels; ++c)
      gradient_line(x + c * inner, dy + c * inner, dx + c * inner, inner, m, s, s * op.gamma[first + c], s * mean_g * inverse,
                    s * mean_g_xhat * inverse);
  }
}

/// What the running statistics move by, see batchnorm. `biased` is the variance over `elements`.
inline void step_statistics(const batchnorm& op, std::int64_t c, float mean, float biased, float elements) {
  const float unbiased = elements > 1 ? biased * (elements / (elements - 1.0F)) : 0.0F, factor = op.weight * op.momentum;
  const float of_mean = factor * (op.running_mean[c] - mean), of_variance = factor * (op.running_variance[c] - unbiased);
  op.mean_step[c] = op.accumulate ? op.mean_step[c] + of_mean : of_mean;
  op.variance_step[c] = op.accumulate ? op.variance_step[c] + of_variance : of_variance;
}

/// The columns of x(rows, channels), a block at a time.
inline void batchnorm_columns(const batchnorm& op) {
  const auto elements = static_cast<float>(op.rows);
  alignas(64) float means[block_size], variances[block_size];
  for (std::int64_t begin = 0; begin < op.channels; begin += block_size) {
    const std::int64_t count = min(block_size, op.channels - begin);
    const float *x = op.x + begin, *gamma = op.gamma + begin, *beta = op.beta + begin;
    sum_block(x, op.rows, op.channels, count, means);
    map(means, count, false, [&](std::int64_t i) { return means[i] / elements; });
    for (std::int64_t i = 0; i < count; ++i)
      variances[i] = 0;
    for (std::int64_t r = 0; r < op.rows; ++r)
      map(variances, count, false,
          [&, row = x + r * op.channels](std::int64_t i) { return mul_add(row[i] - means[i], row[i] - means[i], variances[i]); });
    for (std::int64_t i = 0; i < count; ++i) {
      const float variance = variances[i] / elements;
      op.mean[begin + i] = means[i];
      op.rstd[begin + i] = 1.0F / __builtin_sqrtf(variance + op.epsilon);
      step_statistics(op, begin + i, means[i], variance, elements);
    }
    const float* rstd = op.rstd + begin;
    for (std::int64_t r = 0; r < op.rows; ++r)
      map(op.y + begin + r * op.channels, count, false,
          [&, row = x + r * op.channels](std::int64_t i) { return mul_add(row[i] - means[i], rstd[i] * gamma[i], beta[i]); });
  }
}

void run(const batchnorm& op) {
  if (op.inner == 1)
    return batchnorm_columns(op);
  const std::int64_t inner = op.inner, step = op.channels * inner;
  const auto elements = static_cast<float>(op.rows * inner);
  for (std::int64_t c = 0; c < op.channels; ++c) {
    const float* x = op.x + c * inner;
    float* y = op.y + c * inner;
    // Double between lines: a channel may have millions of elements.
    double total = 0, squares = 0;
    for (std::int64_t r = 0; r < op.rows; ++r)
      total += static_cast<double>(sum_of(x + r * step, inner));
    const auto m = static_cast<float>(total / static_cast<double>(elements));
    for (std::int64_t r = 0; r < op.rows; ++r)
      squares += static_cast<double>(sum_lanes(x + r * step, inner, m, [m](f32x16 v) { return (v - m) * (v - m); }));
    const auto variance = static_cast<float>(squares / static_cast<double>(elements));
    const float s = 1.0F / __builtin_sqrtf(variance + op.epsilon);
    op.mean[c] = m;
    op.rstd[c] = s;
    step_statistics(op, c, m, variance, elements);
    for (std::int64_t r = 0; r < op.rows; ++r)
      normalise_line(x + r * step, y + r * step, inner, m, s * op.gamma[c], op.beta[c]);
  }
}

void run(const batchnorm_inference& op) {
  const std::int64_t inner = op.inner;
  const auto scale = [&](std::int64_t c) { return op.gamma[c] / __builtin_sqrtf(op.running_variance[c] + op.epsilon); };
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float* x = op.x + r * op.channels * inner;
    float* y = op.y + r * op.channels * inner;
    if (inner == 1)
      map(y, op.channels, false, [&](std::int64_t c) { return mul_add(x[c] - op.running_mean[c], scale(c), op.beta[c]); });
    else
      for (std::int64_t c = 0; c < op.channels; ++c)
        normalise_line(x + c * inner, y + c * inner, inner, op.running_mean[c], scale(c), op.beta[c]);
  }
}

inline void batchnorm_backward_columns(const batchnorm_backward& op) {
  const float inverse = 1.0F / static_cast<float>(op.rows);
  alignas(64) float sums[block_size], products[block_size];
  for (std::int64_t begin = 0; begin < op.channels; begin += block_size) {
    const std::int64_t count = min(block_size, op.channels - begin);
    const float *x = op.x + begin, *dy = op.dy + begin, *gamma = op.gamma + begin;
    const float *mean = op.mean + begin, *rstd = op.rstd + begin;
    for (std::int64_t i = 0; i < count; ++i)
      sums[i] = products[i] = 0;
    for (std::int64_t r = 0; r < op.rows; ++r) {
      const float *row = x + r * op.channels, *d = dy + r * op.channels;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        sums[i] += d[i];
        products[i] = mul_add((row[i] - mean[i]) * rstd[i], d[i], products[i]);
      }
    }
    float *dgamma = op.dgamma + begin, *dbeta = op.dbeta + begin;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      dbeta[i] = op.accumulate ? dbeta[i] + sums[i] : sums[i];
      dgamma[i] = op.accumulate ? dgamma[i] + products[i] : products[i];
    }
    for (std::int64_t r = 0; r < op.rows; ++r)
      map(op.dx + begin + r * op.channels, count, false,
          [&, row = x + r * op.channels, d = dy + r * op.channels](std::int64_t i) {
            const float xhat = (row[i] - mean[i]) * rstd[i];
            return gamma[i] * rstd[i] * (d[i] - inverse * mul_add(xhat, products[i], sums[i]));
          });
  }
}

/// dx = gamma rstd / N * (N dy - sum(dy) - xhat sum(dy xhat)).
void run(const batchnorm_backward& op) {
  if (op.inner == 1)
    return batchnorm_backward_columns(op);
  const std::int64_t inner = op.inner, step = op.channels * inner;
  const auto elements = static_cast<double>(op.rows * inner);
  for (std::int64_t c = 0; c < op.channels; ++c) {
    const float *x = op.x + c * inner, *dy = op.dy + c * inner, m = op.mean[c], s = op.rstd[c];
    float* dx = op.dx + c * inner;
    double of_dy = 0, of_dy_xhat = 0;
    for (std::int64_t r = 0; r < op.rows; ++r) {
      line_sums sums;
      sums.add(x + r * step, dy + r * step, inner, m, s);
      of_dy += static_cast<double>(sums.dy);
      of_dy_xhat += static_cast<double>(sums.dy_xhat);
    }
    const float scale = s * op.gamma[c];
    const float from_mean = scale * static_cast<float>(of_dy / elements),
                from_xhat = scale * static_cast<float>(of_dy_xhat / elements);
    for (std::int64_t r = 0; r < op.rows; ++r)
      gradient_line(x + r * step, dy + r * step, dx + r * step, inner, m, s, scale, from_mean, from_xhat);
    op.dbeta[c] = op.accumulate ? op.dbeta[c] + static_cast<float>(of_dy) : static_cast<float>(of_dy);
    op.dgamma[c] = op.accumulate ? op.dgamma[c] + static_cast<float>(of_dy_xhat) : static_cast<float>(of_dy_xhat);
  }
}
