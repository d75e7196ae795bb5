// SPDX-License-Identifier: BSD-3-Clause
// The dataflow graph: operations as nodes, tensors as edges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/error.hpp"
#include "tensor/ops.hpp"
#include "tensor/shape.hpp"

namespace troupe {

/// An edge of a graph: a tensor that one node makes and others read.
enum class value_id : std::int32_t { none = -1 };
/// A node of a graph. Nodes are numbered in the order in which they were added, so inputs always have smaller numbers.
enum class node_id : std::int32_t {};

/// What is known of a tensor before it exists. The number of rows (samples of a batch) stays symbolic: a graph is built
/// once and runs with any number of rows.
struct value {
  shape dims;           ///< without the rows
  bool per_row = false; ///< whether the leading dimension is the rows of the batch
  dtype type = dtype::f32;
  node_id producer{};

  std::int64_t elements(std::int64_t rows) const { return (per_row ? rows : 1) * dims.elements(); }
  std::string to_string() const; ///< "(rows, 784)" or "(10, 784)"
};

/// No segment.
inline constexpr int no_block = -1;

/// One operation. `inputs` and `outputs` are as the op's comment in ops.hpp lists them; `layer` is the layer that added it.
struct node {
  ops::any op;
  std::vector<value_id> inputs, outputs;
  std::string layer;
  int block = no_block;            ///< of a checkpointed segment (differentiation::recompute)
  std::vector<node_id> after = {}; ///< control edges: nodes that run before this one though it reads nothing of theirs
  /// By result, filled in by the plan's fusion alone: a sum that the node adds its result to, in that sum's memory; or none.
  std::vector<value_id> sums = {};
  /// The sum that result `index` is added to, or none.
  value_id sum_of(std::size_t index) const { return index < sums.size() ? sums[index] : value_id::none; }
};

/// Nodes and values in the order of their making. Append-only; a copy is independent.
///
/// Invariant: every node's inputs exist and fit it, because add() refuses others.
class graph {
public:
  /// Names the layer that the following nodes belong to, for messages: `layer 2 "linear 10"`.
  void begin_layer(std::string name) { layer_ = std::move(name); }
  /// The following nodes are a segment that a plan may compute a second time, for the backward, instead of keeping its values;
  /// with `no_block` they are none. Segments are numbered from 0 in the order of the graph.
  void begin_block(int block) { block_ = block; }

  /// Appends a node and infers the shapes of its results. Where the inputs do not fit: errc::bad_model, naming the layer
  /// and both shapes.
  result<node_id> add(ops::any op, std::vector<value_id> inputs);
  /// The same, for the first result.
  result<value_id> apply(ops::any op, std::vector<value_id> inputs);

  /// Node `later` runs after node `earlier`, which was added before it.
  void follow(node_id later, node_id earlier);

  const std::vector<node>& nodes() const { return nodes_; }
  const std::vector<value>& values() const { return values_; }
  const node& at(node_id id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const value& at(value_id id) const { return values_[static_cast<std::size_t>(id)]; }
  const node& producer(value_id id) const { return at(at(id).producer); }
  value_id output(node_id id, std::size_t index = 0) const { return at(id).outputs[index]; }

private:
  std::vector<node> nodes_;
  std::vector<value> values_;
  std::string layer_;
  int block_ = no_block;
};

/// Whether the value is there before anything runs.
bool is_source(const ops::any& op);
/// Whether its results are losses, the gradient of their mean and, as a rule, hits.
bool is_loss(const ops::any& op);

/// Window of a convolution or pooling over images of `image` = (C, H, W), for `rows` of them.
kernels::window2d window_over(const shape& image, std::int64_t rows, std::int64_t kernel_h, std::int64_t kernel_w,
                              std::int64_t stride, std::int64_t padding, std::int64_t dilation = 1, std::int64_t groups = 1);

/// A value as the matrix that matmul sees: all extents but the last, multiplied, by the last.
struct matrix_extents {
  std::int64_t rows = 0, columns = 0;
};
matrix_extents as_matrix(const value& v, std::int64_t rows);

} // namespace troupe
