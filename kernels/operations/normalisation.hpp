// SPDX-License-Identifier: BSD-3-Clause
// Normalisations and softmax, with their backwards.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Over the last axis of x(rows, columns): y = gamma * (x - mean) * rstd + beta; mean and rstd (rows) are written.
struct layernorm {
  static constexpr auto name = "layernorm";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5F;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns), each(gamma, columns), each(beta, columns); }
  void outputs(auto each) const { each(y, rows * columns), each(mean, rows), each(rstd, rows); }
};

/// dx(rows, columns) is overwritten; dgamma and dbeta (columns) too, or they are accumulated. mean and rstd are the forward's. dx
/// may be dy.
struct layernorm_backward {
  static constexpr auto name = "layernorm_backward";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  std::int64_t rows = 0, columns = 0;
  bool accumulate = false;

  void inputs(auto each) const {
    each(x, rows * columns), each(gamma, columns), each(mean, rows), each(rstd, rows), each(dy, rows * columns);
    each(accumulate ? dgamma : nullptr, columns), each(accumulate ? dbeta : nullptr, columns);
  }
  void outputs(auto each) const { each(dx, rows * columns), each(dgamma, columns), each(dbeta, columns); }
};

/// Over the last axis of x(rows, columns): y = gamma * x * rstd, rstd = 1 / sqrt(mean of x^2 + epsilon) (Zhang & Sennrich 2019);
/// rstd (rows) is written.
struct rmsnorm {
  static constexpr auto name = "rmsnorm";
  const float* x = nullptr;
  const float* gamma = nullptr;
  float epsilon = 1e-5F;
  float* y = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns), each(gamma, columns); }
  void outputs(auto each) const { each(y, rows * columns), each(rstd, rows); }
};

/// dx(rows, columns) is overwritten; dgamma (columns) too, or it is accumulated. rstd is the forward's. dx may be dy.
struct rmsnorm_backward {
  static constexpr auto name = "rmsnorm_backward";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;
  std::int64_t rows = 0, columns = 0;
  bool accumulate = false;

  void inputs(auto each) const {
    each(x, rows * columns), each(gamma, columns), each(rstd, rows), each(dy, rows * columns);
    each(accumulate ? dgamma : nullptr, columns);
  }
  void outputs(auto each) const { each(dx, rows * columns), each(dgamma, columns); }
};

/// x(rows, channels, inner) in groups of neighbouring channels (Wu & He 2018): y = gamma * (x - mean) * rstd + beta, with mean
/// and biased variance over a group's channels and `inner`; gamma and beta (channels); mean and rstd (rows, groups) are written.
/// `groups` divides channels; as many groups as channels make an instance norm, one makes a layer norm over all features.
struct groupnorm {
  static constexpr auto name = "groupnorm";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5F;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0, channels = 0, inner = 1, groups = 1;

  constexpr std::int64_t count() const { return rows * channels * inner; }
  void inputs(auto each) const { each(x, count()), each(gamma, channels), each(beta, channels); }
  void outputs(auto each) const { each(y, count()), each(mean, rows * groups), each(rstd, rows * groups); }
};

/// dx is overwritten; dgamma and dbeta (channels) too, or they are accumulated. mean and rstd are the forward's. dx may be dy.
struct groupnorm_backward {
  static constexpr auto name = "groupnorm_backward";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  std::int64_t rows = 0, channels = 0, inner = 1, groups = 1;
  bool accumulate = false;

  constexpr std::int64_t count() const { return rows * channels * inner; }
  void inputs(auto each) const {
    each(x, count()), each(gamma, channels), each(mean, rows * groups), each(rstd, rows * groups), each(dy, count());
    each(accumulate ? dgamma : nullptr, channels), each(accumulate ? dbeta : nullptr, channels);
  }
  void outputs(auto each) const { each(dx, count()), each(dgamma, channels), each(dbeta, channels); }
};

/// Training form over x(rows, channels, inner) (Ioffe & Szegedy 2015): y = gamma * (x - mean) * rstd + beta, with mean and biased
/// variance of each channel over rows and `inner`. mean and rstd (channels) are written for the backward.
///
/// running_mean and running_variance (channels) are statistics: parameters whose "gradient" is what they move by. So
///   mean_step = weight * momentum * (running_mean - batch mean), variance_step = weight * momentum * (running_variance - batch
///   variance, unbiased),
/// and a step at rate 1 gives (1 - momentum) * running + momentum * batch. `weight` is this batch's part of a step of several
/// (1: all of it); `accumulate` adds to the steps that are there. The unbiased variance of one element is taken to be 0.
struct batchnorm {
  static constexpr auto name = "batchnorm";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float epsilon = 1e-5F, momentum = 0.1F, weight = 1;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  float* mean_step = nullptr;
  float* variance_step = nullptr;
  std::int64_t rows = 0, channels = 0, inner = 1;
  bool accumulate = false;

  constexpr std::int64_t count() const { return rows * channels * inner; }
  void inputs(auto each) const {
    each(x, count()), each(gamma, channels), each(beta, channels), each(running_mean, channels), each(running_variance, channels);
    each(accumulate ? mean_step : nullptr, channels), each(accumulate ? variance_step : nullptr, channels);
  }
  void outputs(auto each) const {
    each(y, count()), each(mean, channels), each(rstd, channels), each(mean_step, channels), each(variance_step, channels);
  }
};

/// Evaluation form over x(rows, channels, inner): y = gamma * (x - running_mean) / sqrt(running_variance + epsilon) + beta.
struct batchnorm_inference {
  static constexpr auto name = "batchnorm_inference";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float epsilon = 1e-5F;
  float* y = nullptr;
  std::int64_t rows = 0, channels = 0, inner = 1;

  constexpr std::int64_t count() const { return rows * channels * inner; }
  void inputs(auto each) const {
    each(x, count()), each(gamma, channels), each(beta, channels), each(running_mean, channels), each(running_variance, channels);
  }
  void outputs(auto each) const { each(y, count()); }
};

/// Backward of the training form: dx is overwritten; dgamma and dbeta (channels) too, or they are accumulated. mean and rstd are
/// the forward's. dx may be dy.
struct batchnorm_backward {
  static constexpr auto name = "batchnorm_backward";
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  std::int64_t rows = 0, channels = 0, inner = 1;
  bool accumulate = false;

  constexpr std::int64_t count() const { return rows * channels * inner; }
  void inputs(auto each) const {
    each(x, count()), each(gamma, channels), each(mean, channels), each(rstd, channels), each(dy, count());
    each(accumulate ? dgamma : nullptr, channels), each(accumulate ? dbeta : nullptr, channels);
  }
  void outputs(auto each) const { each(dx, count()), each(dgamma, channels), each(dbeta, channels); }
};

/// Over the last axis of x(rows, columns).
struct softmax {
  static constexpr auto name = "softmax";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(x, rows * columns); }
  void outputs(auto each) const { each(y, rows * columns); }
};

/// dx = y (dy - sum over the row of dy y), where y(rows, columns) is the forward's result. dx may be dy or y.
struct softmax_backward {
  static constexpr auto name = "softmax_backward";
  const float* y = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  std::int64_t rows = 0, columns = 0;

  void inputs(auto each) const { each(y, rows * columns), each(dy, rows * columns); }
  void outputs(auto each) const { each(dx, rows * columns); }
};

} // namespace troupe::kernels
