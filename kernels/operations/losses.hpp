// SPDX-License-Identifier: BSD-3-Clause
// Losses, fused with their gradients.
#pragma once

#include <cstdint>

namespace troupe::kernels {

// A loss gives a number for each prediction (row), and the gradient in the same pass where it is wanted. The gradient's factor is
// `scale` times `*device_scale`, which lies in the device's memory (null: 1) so that a recorded program can be replayed for
// batches that count differently many predictions.

/// A label that is ignored: loss, gradient and hit are 0.
inline constexpr std::int32_t ignored_label = -1;

/// loss(rows) = -sum_i t_i log softmax(logits(rows, classes))_i, where t = (1 - smoothing) onehot(label) + smoothing / classes
/// (Szegedy et al. 2016); dlogits (may be null) = scale * (softmax - t). `correct` (may be null, rows) = 1 where the largest
/// logit (the first of equals) is the label's. `dlogits` may be `logits`. 0 <= smoothing < 1. The label -1 is ignored; another
/// outside [0, classes) gives loss NaN.
struct softmax_cross_entropy {
  static constexpr auto name = "softmax_cross_entropy";
  const float* logits = nullptr;
  const std::int32_t* labels = nullptr;
  float scale = 1;
  float* loss = nullptr;
  float* dlogits = nullptr;
  std::int32_t* correct = nullptr;
  std::int64_t rows = 0, classes = 0;
  const float* device_scale = nullptr;
  float smoothing = 0;

  void inputs(auto each) const { each(logits, rows * classes), each(labels, rows), each(device_scale, 1); }
  void outputs(auto each) const { each(loss, rows), each(dlogits, rows * classes), each(correct, rows); }
};

/// loss(rows) = the mean over columns of (x - target)^2; dx (may be null) = scale * 2 (x - target) / columns. `dx` may be `x`.
struct mean_squared_error {
  static constexpr auto name = "mean_squared_error";
  const float* x = nullptr;
  const float* target = nullptr;
  float scale = 1;
  float* loss = nullptr;
  float* dx = nullptr;
  std::int64_t rows = 0, columns = 0;
  const float* device_scale = nullptr;

  void inputs(auto each) const { each(x, rows * columns), each(target, rows * columns), each(device_scale, 1); }
  void outputs(auto each) const { each(loss, rows), each(dx, rows * columns); }
};

/// Binary cross-entropy of logits x against targets in [0, 1]: loss(rows) = the mean over columns of
/// max(x, 0) - x target + ln(1 + e^-|x|); dx (may be null) = scale * (sigmoid(x) - target) / columns. `correct` (may be null,
/// rows) = 1 where x > 0 exactly in those columns whose target is above 1/2. `dx` may be `x`.
struct sigmoid_cross_entropy {
  static constexpr auto name = "sigmoid_cross_entropy";
  const float* x = nullptr;
  const float* target = nullptr;
  float scale = 1;
  float* loss = nullptr;
  float* dx = nullptr;
  std::int32_t* correct = nullptr;
  std::int64_t rows = 0, columns = 0;
  const float* device_scale = nullptr;

  void inputs(auto each) const { each(x, rows * columns), each(target, rows * columns), each(device_scale, 1); }
  void outputs(auto each) const { each(loss, rows), each(dx, rows * columns), each(correct, rows); }
};

} // namespace troupe::kernels
