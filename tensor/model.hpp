// SPDX-License-Identifier: BSD-3-Clause
// A model: a graph with named parameters and a loss, built from a job file's layer list or from C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/error.hpp"
#include "tensor/graph.hpp"
#include "tensor/layers.hpp"
#include "tensor/layout.hpp"
#include "tensor/shape.hpp"

namespace troupe {

/// What a job file says of its model. Layers, one string each:
///   "linear N [act]"          "conv K HxW [act] [stride S] [pad P]"     act: a name of kernels/activation.hpp
///   "pool N" (max) | "avgpool N"   "flatten"   "layernorm"   "dropout RATE"   and the activations on their own
struct model_spec {
  std::vector<std::string> layers;
  friend bool operator==(const model_spec&, const model_spec&) = default;
};

/// The layer list of `kind = "mlp", hidden = [...]`: flatten, a relu layer per entry, a linear layer of `classes`.
std::vector<std::string> mlp_layers(const std::vector<int>& hidden, int classes);

/// A classifier's graph: input (rows, sample dims...), labels (rows), logits (rows, classes), loss (rows).
class model {
public:
  /// Builds and checks every shape; an error names the layer by number and text, and both shapes.
  static result<model> build(const model_spec& spec, const shape& sample, int classes);
  /// The same from C++: `model::build({layers::flatten{}, layers::linear{10}}, {1, 28, 28}, 10)`.
  static result<model> build(const std::vector<layers::any>& list, const shape& sample, int classes);

  const graph& forward() const { return graph_; }
  const parameter_layout& layout() const { return layout_; }
  const shape& sample() const { return sample_; }
  int classes() const { return classes_; }
  value_id input() const { return input_; }
  value_id labels() const { return labels_; }
  value_id logits() const { return logits_; }
  value_id loss() const { return loss_; }

private:
  static result<model> finish(layers::builder& built, const shape& sample, int classes);

  graph graph_;
  parameter_layout layout_;
  shape sample_;
  int classes_ = 0;
  value_id input_{}, labels_{}, logits_{}, loss_{};
};

/// Writes the initial parameters: every element is drawn from a counter-based generator keyed by (seed, slot, element),
/// so they are the same on every backend and in every process. `flat` has `layout.floats()` floats of host memory.
void initialize_parameters(const parameter_layout& layout, std::uint64_t seed, float* flat);

} // namespace troupe
