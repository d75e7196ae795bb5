// SPDX-License-Identifier: BSD-3-Clause
// A model: a graph with named parameters and a loss, built from a job file's layer list or from C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/data_format.hpp"
#include "tensor/error.hpp"
#include "tensor/graph.hpp"
#include "tensor/layers.hpp"
#include "tensor/layout.hpp"
#include "tensor/models.hpp"
#include "tensor/shape.hpp"

namespace troupe {

class foreign_computer;

/// What a job file says of its model: layers, one string each, in the words of layers.hpp; a network by its kind; or an ONNX
/// file.
struct model_spec {
  std::vector<std::string> layers;
  network_spec network{};
  std::string onnx{}; ///< path; its graph, from its weights
  loss_spec loss{};
  friend bool operator==(const model_spec&, const model_spec&) = default;
};

/// The layer list of `kind = "mlp", hidden = [...]`: flatten, a relu layer per entry, a linear layer of `classes`.
std::vector<std::string> mlp_layers(const std::vector<int>& hidden, int classes);

/// A graph with the values that a plan looks for: input (rows, sample), labels (rows, ...), predictions (rows, ..., classes), and
/// loss (rows, ...), one for each prediction.
class model {
public:
  /// Builds and checks every shape; an error names the layer by number and text, and both shapes.
  static result<model> build(const model_spec& spec, const data_format& data);
  /// The same from C++: `model::build({layers::flatten{}, layers::linear{10}}, {{1, 28, 28}, 10})`.
  static result<model> build(const std::vector<layers::any>& list, const data_format& data, const loss_spec& loss = {});

  /// Any graph: `input` and `labels` are its two inputs, `loss` the first result of a loss. Every parameter has a slot of the
  /// same extents in `layout`.
  struct parts {
    graph forward;
    parameter_layout layout;
    value_id input{}, labels{}, loss{};
  };
  static result<model> from_graph(parts of);

  /// A model without a graph, that `by` computes: each row is the number of a sample (foreign.hpp), and each row is one
  /// prediction. Only plans and parameters can be had of it: its graph is no more than the inputs.
  static model foreign(parameter_layout layout, std::shared_ptr<foreign_computer> by);

  /// Null: the graph is the model.
  const std::shared_ptr<foreign_computer>& computed_by() const { return computed_by_; }
  const graph& forward() const { return parts_.forward; }
  const parameter_layout& layout() const { return parts_.layout; }
  /// How parameters are stepped may still be chosen (choose_slots); their places are settled.
  parameter_layout& layout() { return parts_.layout; }
  value_id input() const { return parts_.input; }
  value_id labels() const { return parts_.labels; }
  value_id predictions() const { return forward().producer(loss()).inputs[0]; }
  value_id loss() const { return parts_.loss; }
  const shape& sample() const { return forward().at(input()).dims; }
  /// Of one row; the loss has one for each.
  const shape& label_shape() const { return forward().at(labels()).dims; }
  std::int64_t row_predictions() const { return forward().at(loss()).dims.elements(); }

private:
  explicit model(parts of) : parts_(std::move(of)) {}

  parts parts_;
  std::shared_ptr<foreign_computer> computed_by_;
};

/// Writes the initial parameters: every element is drawn from a counter-based generator keyed by (seed, slot, element),
/// so they are the same on every backend and in every process. `flat` has `layout.floats()` floats of host memory.
void initialize_parameters(const parameter_layout& layout, std::uint64_t seed, float* flat);

} // namespace troupe
