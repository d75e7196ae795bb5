// SPDX-License-Identifier: BSD-3-Clause
// Losses with their gradients, a row at a time.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

inline float gradient_factor(float scale, const float* device_scale) {
  return device_scale ? scale * *device_scale : scale;
}

void run(const softmax_cross_entropy& op) {
  const std::int64_t classes = op.classes;
  const float scale = gradient_factor(op.scale, op.device_scale);
  const float smooth = op.smoothing / static_cast<float>(classes), certain = 1.0F - op.smoothing;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float* x = op.logits + r * classes;
    float* dx = op.dlogits ? op.dlogits + r * classes : nullptr;
    const std::int64_t label = op.labels[r];
    if (label == ignored_label) {
      op.loss[r] = 0;
      if (op.correct)
        op.correct[r] = 0;
      if (dx)
        __builtin_memset(dx, 0, static_cast<std::size_t>(classes) * sizeof(float));
      continue;
    }
    const bool known = label >= 0 && label < classes;
    const float peak = max_of(x, classes), at_label = known ? x[label] : 0.0F; // read before dx, which may be x
    if (op.correct) {
      std::int64_t first = 0;
      while (first < classes && x[first] != peak) // ends at `classes` when the row holds NaN
        ++first;
      op.correct[r] = known && first == label;
    }
    const float distances = smooth == 0 ? 0 : sum_lanes(x, classes, peak, [peak](f32x16 v) { return v - peak; });
    const float total_exp = sum_exp(x, classes, peak, dx);
    op.loss[r] = known ? log(total_exp) - certain * (at_label - peak) - smooth * distances : __builtin_nanf("");
    if (!dx)
      continue;
    const float factor = scale / total_exp, everywhere = scale * smooth;
    map(dx, classes, false, [=](std::int64_t i) { return mul_add(dx[i], factor, -everywhere); });
    if (known)
      dx[label] -= scale * certain;
  }
}

void run(const mean_squared_error& op) {
  const std::int64_t columns = op.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  const float factor = 2.0F * gradient_factor(op.scale, op.device_scale) * inverse;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float *x = op.x + r * columns, *target = op.target + r * columns;
    float total = 0;
    alignas(64) float difference[block_size];
    for (std::int64_t begin = 0; begin < columns; begin += block_size) {
      const std::int64_t count = min(block_size, columns - begin);
      map(difference, count, false, [=](std::int64_t i) { return x[begin + i] - target[begin + i]; });
      total += sum_lanes(difference, count, 0.0F, [](f32x16 v) { return v * v; });
      if (op.dx)
        map(op.dx + r * columns + begin, count, false, [=, &difference](std::int64_t i) { return difference[i] * factor; });
    }
    op.loss[r] = total * inverse;
  }
}

void run(const sigmoid_cross_entropy& op) {
  const std::int64_t columns = op.columns;
  const float inverse = 1.0F / static_cast<float>(columns), factor = gradient_factor(op.scale, op.device_scale) * inverse;
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const float *x = op.x + r * columns, *target = op.target + r * columns;
    float total = 0;
    std::int32_t misses = 0;
    alignas(64) float loss[block_size];
    for (std::int64_t begin = 0; begin < columns; begin += block_size) {
      const std::int64_t count = min(block_size, columns - begin);
      map(loss, count, false, [=](std::int64_t i) {
        const float logit = x[begin + i];
        return mul_add(-logit, target[begin + i], relu(logit)) + log(1.0F + exp(-__builtin_fabsf(logit)));
      });
      total += sum_of(loss, count);
      for (std::int64_t i = begin; i < begin + count; ++i)
        misses |= (x[i] > 0) != (target[i] > 0.5F) ? 1 : 0;
      if (op.dx)
        map(op.dx + r * columns + begin, count, false,
            [=](std::int64_t i) { return (sigmoid(x[begin + i]) - target[begin + i]) * factor; });
    }
    op.loss[r] = total * inverse;
    if (op.correct)
      op.correct[r] = misses == 0;
  }
}
