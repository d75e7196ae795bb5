// SPDX-License-Identifier: BSD-3-Clause
// Builds a model's graph and its parameters, layer by layer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/data_format.hpp"
#include "tensor/error.hpp"
#include "tensor/graph.hpp"
#include "tensor/layers.hpp"
#include "tensor/layout.hpp"

namespace troupe {

/// What a model is trained to lower.
struct loss_spec {
  std::string name = "cross-entropy"; ///< "cross-entropy" | "mse" | "bce"
  double label_smoothing = 0;         ///< of cross-entropy
  friend bool operator==(const loss_spec&, const loss_spec&) = default;
};

namespace layers {

/// A graph under construction. After the first misfit the builder has failed: whatever is added to it then is value_id::none, so
/// that a layer may be written as one expression. Then it is useless.
class builder {
public:
  explicit builder(const data_format& data);

  // -- for those that build a model

  /// Appends a layer to the newest one's result. `name` stands for it in messages.
  result<void> add(const any& layer, const std::string& name);
  /// Appends a list, whose layers are called by their names or, if they have none, `layer 3`.
  result<void> add(const std::vector<any>& list);
  /// Whoever has added nodes himself says what the newest result is.
  result<void> end_with(value_id predictions);
  /// Appends the loss over the newest result.
  result<void> finish(const loss_spec& loss);

  graph take_graph() { return std::move(graph_); }
  parameter_layout take_layout() { return std::move(layout_); }
  value_id input() const { return input_; }
  value_id labels() const { return labels_; }
  value_id last() const { return last_; }
  value_id loss() const { return loss_; }

  // -- for layers

  /// Where it fails: `(its layer): (message)`.
  value_id fail(std::string message);
  bool failed() const { return !message_.empty(); }

  const data_format& data() const { return data_; }
  const value& at(value_id v) const { return graph_.at(v); }
  /// Extents of a value without the rows.
  const shape& dims(value_id v) const { return graph_.at(v).dims; }
  value_id apply(ops::any op, std::vector<value_id> inputs);
  std::vector<value_id> apply_all(ops::any op, std::vector<value_id> inputs);
  value_id activated(value_id x, kernels::activation act);

  /// "linear3" for the third of that kind.
  std::string number(const std::string& kind);
  /// `given`: where it starts, instead of what `init` says.
  value_id add_parameter(const std::string& name, shape dims, initializer init, slot_kind kind = slot_kind::trained,
                         std::shared_ptr<const std::vector<float>> given = {});
  /// x W' + b with `name`.weight (units, inputs) and `name`.bias, over the last axis.
  value_id dense(value_id x, const std::string& name, std::int64_t units, initializer weight);
  /// The weight's initializer that suits the activation after a layer of so many inputs and outputs.
  static initializer weight_for(kernels::activation act, double fan_in, double fan_out);
  /// Norms of all but the first axis of images, and of the last axis of sequences, with `name`.weight and `name`.bias.
  value_id layernorm(value_id x, const std::string& name);
  value_id batchnorm(value_id x, const std::string& name);
  value_id conv(value_id x, const std::string& name, const layers::conv& like, bool bias, initializer weight);
  /// x itself where the rate is 0.
  value_id dropout(value_id x, double rate);
  /// Sums of (rows, length, features) with an lstm's or a gru's gates, in PyTorch's order. `suffix` ends the parameters' names.
  value_id recurrent(value_id x, const std::string& name, const std::string& suffix, std::int64_t units, bool is_lstm);
  /// The last place of (rows, length, width).
  value_id last_place(value_id x);
  value_id embedding(value_id ids, const std::string& name, std::int64_t width, double deviation);
  /// Names the dropout layers of one model apart.
  std::uint32_t next_stream() { return streams_++; }
  /// The table of the newest embedding, or none.
  value_id table() const { return table_; }

  /// What the layers of a body make of x.
  value_id run(const std::vector<any>& body, value_id x);
  /// The following nodes are the next block (graph::begin_block), until `end_block`. A block inside a block is none.
  void begin_block();
  void end_block();
  void begin_layer(const std::string& name);

private:
  value_id one(const any& layer, const std::string& name, value_id x);
  void check_loss(const loss_spec& loss, const std::string& last_layer);
  result<void> outcome() const;

  data_format data_;
  graph graph_;
  parameter_layout layout_;
  std::map<std::string, int> count_; ///< layers so far, per kind
  std::uint32_t streams_ = 0;
  int blocks_ = 0, block_depth_ = 0;
  std::string layer_, message_;
  value_id input_{}, labels_{}, last_{}, loss_ = value_id::none, table_ = value_id::none;
};

} // namespace layers
} // namespace troupe
