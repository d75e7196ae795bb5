// SPDX-License-Identifier: BSD-3-Clause
// Normalisations, softmax and losses.
#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/data_format.hpp"
#include "tests/tensor/interpreter/images.hpp"

namespace troupe::testing::interpreting {

class norms : public images {
public:
  using images::images;
  using images::operator();

  void operator()(const ops::layernorm& op) {
    const auto columns = x(1).size();
    for (std::size_t row = 0; row < y(1).size(); ++row) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < columns; ++i)
        mean += x(0)[row * columns + i] / static_cast<double>(columns);
      for (std::size_t i = 0; i < columns; ++i)
        variance += std::pow(x(0)[row * columns + i] - mean, 2) / static_cast<double>(columns);
      y(1)[row] = mean;
      y(2)[row] = 1 / std::sqrt(variance + static_cast<double>(op.epsilon));
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = x(1)[i] * (x(0)[row * columns + i] - mean) * y(2)[row] + x(2)[i];
    }
  }
  // With h = (x - mean) rstd and g = gamma dy:  dx = rstd (g - mean(g) - h mean(g h)).
  void operator()(const ops::layernorm_backward&) {
    const auto columns = x(1).size();
    const auto n = static_cast<double>(columns);
    for (std::size_t row = 0; row < x(2).size(); ++row) {
      double sum_g = 0, sum_gh = 0;
      auto h = [&](std::size_t i) { return (x(0)[row * columns + i] - x(2)[row]) * x(3)[row]; };
      auto g = [&](std::size_t i) { return x(1)[i] * x(4)[row * columns + i]; };
      for (std::size_t i = 0; i < columns; ++i) {
        sum_g += g(i);
        sum_gh += g(i) * h(i);
        y(1)[i] += x(4)[row * columns + i] * h(i);
        y(2)[i] += x(4)[row * columns + i];
      }
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = x(3)[row] * (g(i) - sum_g / n - h(i) * sum_gh / n);
    }
  }

  void operator()(const ops::rmsnorm& op) {
    const auto columns = x(1).size();
    for (std::size_t row = 0; row < y(1).size(); ++row) {
      double square = 0;
      for (std::size_t i = 0; i < columns; ++i)
        square += x(0)[row * columns + i] * x(0)[row * columns + i] / static_cast<double>(columns);
      y(1)[row] = 1 / std::sqrt(square + static_cast<double>(op.epsilon));
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = x(1)[i] * x(0)[row * columns + i] * y(1)[row];
    }
  }
  // With h = x rstd and g = gamma dy:  dx = rstd (g - h mean(g h)).
  void operator()(const ops::rmsnorm_backward&) {
    const auto columns = x(1).size();
    for (std::size_t row = 0; row < x(2).size(); ++row) {
      const double rstd = x(2)[row];
      double mean = 0;
      for (std::size_t i = 0; i < columns; ++i) {
        const auto at = row * columns + i;
        mean += x(1)[i] * x(3)[at] * x(0)[at] * rstd / static_cast<double>(columns);
        y(1)[i] += x(3)[at] * x(0)[at] * rstd;
      }
      for (std::size_t i = 0; i < columns; ++i) {
        const auto at = row * columns + i;
        y()[at] = rstd * (x(1)[i] * x(3)[at] - x(0)[at] * rstd * mean);
      }
    }
  }

  void operator()(const ops::groupnorm& op) {
    const groups_of_channels set{*this, op.groups};
    normalize(set, op.epsilon);
  }
  void operator()(const ops::groupnorm_backward& op) { denormalize(groups_of_channels{*this, op.groups}); }

  void operator()(const ops::batchnorm& op) {
    if (!given_.training)
      return (*this)(ops::batchnorm_inference{op.epsilon});
    normalize(channels_of_batch{*this}, op.epsilon);
    const auto n = static_cast<double>(x(0).size() / x(1).size());
    for (std::size_t c = 0; c < x(1).size(); ++c) {
      const double variance = 1 / (y(2)[c] * y(2)[c]) - static_cast<double>(op.epsilon);
      y(3)[c] = static_cast<double>(op.momentum) * (x(3)[c] - y(1)[c]);
      y(4)[c] = static_cast<double>(op.momentum) * (x(4)[c] - (n > 1 ? variance * n / (n - 1) : 0));
    }
  }
  void operator()(const ops::batchnorm_inference& op) {
    for (std::size_t i = 0; i < y().size(); ++i) {
      const auto c = channel_of(i);
      y()[i] = x(1)[c] * (x(0)[i] - x(3)[c]) / std::sqrt(x(4)[c] + static_cast<double>(op.epsilon)) + x(2)[c];
    }
  }
  void operator()(const ops::batchnorm_backward&) { denormalize(channels_of_batch{*this}); }

  void operator()(const ops::softmax&) {
    const auto columns = static_cast<std::size_t>(last_of(0));
    for (std::size_t row = 0; row < y().size() / columns; ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i)
        sum += std::exp(x(0)[row * columns + i]);
      for (std::size_t i = 0; i < columns; ++i)
        y()[row * columns + i] = std::exp(x(0)[row * columns + i]) / sum;
    }
  }
  void operator()(const ops::softmax_backward&) {
    const auto columns = static_cast<std::size_t>(last_of(0));
    for (std::size_t i = 0; i < y().size(); ++i) {
      double sum = 0;
      for (std::size_t j = i / columns * columns; j < (i / columns + 1) * columns; ++j)
        sum += x(0)[j] * x(1)[j];
      y()[i] = x(0)[i] * (x(1)[i] - sum);
    }
  }

  void operator()(const ops::cross_entropy& op) {
    const auto classes = x(0).size() / y().size();
    const double smoothing = op.smoothing, counted = counted_predictions(g_, n_->outputs[0], given_);
    for (std::size_t row = 0; row < y().size(); ++row) {
      if (x(1)[row] == ignored_label)
        continue;
      const auto* z = x(0).data() + row * classes;
      const auto label = static_cast<std::size_t>(x(1)[row]);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c)
        sum += std::exp(z[c]);
      for (std::size_t c = 0; c < classes; ++c) {
        const double t = (c == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
        y()[row] += t * (std::log(sum) - z[c]);
        y(1)[row * classes + c] = (std::exp(z[c]) / sum - t) / counted;
      }
      y(2)[row] = std::max_element(z, z + classes) == z + label ? 1 : 0;
    }
  }
  void operator()(const ops::mean_squared_error&) {
    const auto columns = x(0).size() / y().size();
    const double each = 1 / static_cast<double>(columns);
    for (std::size_t i = 0; i < x(0).size(); ++i) {
      const double off = x(0)[i] - x(1)[i];
      y()[i / columns] += each * off * off;
      y(1)[i] = each * 2 * off / static_cast<double>(y().size());
    }
  }
  void operator()(const ops::sigmoid_cross_entropy&) {
    const auto columns = x(0).size() / y().size();
    const double each = 1 / static_cast<double>(columns);
    std::ranges::fill(y(2), 1.0);
    for (std::size_t i = 0; i < x(0).size(); ++i) {
      const double p = 1 / (1 + std::exp(-x(0)[i])), t = x(1)[i];
      y()[i / columns] -= each * (t * std::log(p) + (1 - t) * std::log(1 - p));
      y(1)[i] = each * (p - t) / static_cast<double>(y().size());
      if ((x(0)[i] > 0) != (t > 0.5))
        y(2)[i / columns] = 0;
    }
  }

private:
  // -- norms over sets of elements, with a scale and a shift per channel

  std::size_t channel_of(std::size_t i) const {
    const auto inner = elements(shape_of(0).dims) / x(1).size();
    return i / inner % x(1).size();
  }
  struct groups_of_channels {
    const state& self;
    std::int64_t groups;
    std::size_t operator()(std::size_t i) const {
      const auto features = elements(self.shape_of(0).dims), per_group = features / static_cast<std::size_t>(groups);
      return i / features * static_cast<std::size_t>(groups) + i % features / per_group;
    }
  };
  struct channels_of_batch {
    const norms& self;
    std::size_t operator()(std::size_t i) const { return self.channel_of(i); }
  };
  template <class Set>
  void normalize(Set set, float epsilon) {
    const auto n = static_cast<double>(x(0).size() / y(1).size());
    array variance(y(1).size());
    for (std::size_t i = 0; i < x(0).size(); ++i)
      y(1)[set(i)] += x(0)[i] / n;
    for (std::size_t i = 0; i < x(0).size(); ++i)
      variance[set(i)] += std::pow(x(0)[i] - y(1)[set(i)], 2) / n;
    for (std::size_t s = 0; s < variance.size(); ++s)
      y(2)[s] = 1 / std::sqrt(variance[s] + static_cast<double>(epsilon));
    for (std::size_t i = 0; i < x(0).size(); ++i)
      y()[i] = x(1)[channel_of(i)] * (x(0)[i] - y(1)[set(i)]) * y(2)[set(i)] + x(2)[channel_of(i)];
  }
  // As of layernorm, over each set: dx = rstd (g - mean(g) - h mean(g h)).
  template <class Set>
  void denormalize(Set set) {
    const auto n = static_cast<double>(x(0).size() / x(2).size());
    array sum_g(x(2).size()), sum_gh(x(2).size());
    auto h = [&](std::size_t i) { return (x(0)[i] - x(2)[set(i)]) * x(3)[set(i)]; };
    auto g = [&](std::size_t i) { return x(1)[channel_of(i)] * x(4)[i]; };
    for (std::size_t i = 0; i < x(0).size(); ++i) {
      sum_g[set(i)] += g(i);
      sum_gh[set(i)] += g(i) * h(i);
      y(1)[channel_of(i)] += x(4)[i] * h(i);
      y(2)[channel_of(i)] += x(4)[i];
    }
    for (std::size_t i = 0; i < x(0).size(); ++i)
      y()[i] = x(3)[set(i)] * (g(i) - sum_g[set(i)] / n - h(i) * sum_gh[set(i)] / n);
  }
};

} // namespace troupe::testing::interpreting
