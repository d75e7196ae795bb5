// SPDX-License-Identifier: BSD-3-Clause
// Layers: the meaning of a job file's strings, and their nodes in a model's graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/data_format.hpp"
#include "tensor/error.hpp"
#include "tensor/graph.hpp"
#include "tensor/layout.hpp"

namespace troupe::layers {

/// y = act(x W' + b) over the last axis of (rows, features) or (rows, length, features). The weight is stored as (units, inputs),
/// as PyTorch does; README.md has the times of both orders.
struct linear {
  std::int64_t units = 0;
  kernels::activation act = kernels::activation::none;
  friend bool operator==(const linear&, const linear&) = default;
};
/// y = act(conv(x) + b), weight (channels, C, kernel_h, kernel_w).
struct conv {
  std::int64_t channels = 0, kernel_h = 3, kernel_w = 3;
  kernels::activation act = kernels::activation::none;
  std::int64_t stride = 1, padding = 0;
  friend bool operator==(const conv&, const conv&) = default;
};
/// Windows of size x size that do not overlap; a rest that does not fill a window is left out.
struct max_pool {
  std::int64_t size = 2;
  friend bool operator==(const max_pool&, const max_pool&) = default;
};
struct avg_pool {
  std::int64_t size = 2;
  friend bool operator==(const avg_pool&, const avg_pool&) = default;
};
/// (rows, C, H, W) -> (rows, C H W).
struct flatten {
  friend bool operator==(const flatten&, const flatten&) = default;
};
/// Over all features of a sample, with a learnt scale and shift per feature.
struct layernorm {
  friend bool operator==(const layernorm&, const layernorm&) = default;
};
struct dropout {
  double rate = 0.5;
  friend bool operator==(const dropout&, const dropout&) = default;
};
struct activate {
  kernels::activation act = kernels::activation::relu;
  friend bool operator==(const activate&, const activate&) = default;
};

using any = std::variant<linear, conv, max_pool, avg_pool, flatten, layernorm, dropout, activate>;

/// Reads one string of a job file's list (see model_spec). The error quotes the text and says what would be right.
result<any> parse(std::string_view text);

/// Builds a graph layer by layer. Parameters are named `layer.parameter`, the layers numbered per kind: "linear2.weight".
class builder {
public:
  explicit builder(const data_format& data);

  /// Appends one layer; `name` stands for it in messages: `layer 2 "linear 10"`. After an error the builder is useless.
  result<void> add(const any& layer, const std::string& name);
  /// Appends the loss over the last layer's result.
  result<void> finish(int classes);

  graph take_graph() { return std::move(graph_); }
  parameter_layout take_layout() { return std::move(layout_); }
  value_id input() const { return input_; }
  value_id labels() const { return labels_; }
  value_id last() const { return last_; }
  value_id loss() const { return loss_; }

private:
  friend struct layer_rules;

  value_id add_parameter(const std::string& name, shape dims, initializer init);
  std::string number(const std::string& kind);

  graph graph_;
  parameter_layout layout_;
  std::map<std::string, int> count_; ///< layers so far, per kind
  value_id input_{}, labels_{}, last_{}, loss_ = value_id::none;
};

} // namespace troupe::layers
