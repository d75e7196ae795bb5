// SPDX-License-Identifier: BSD-3-Clause
// The plain reference of a graph: every op as its definition says, in double, one value after the other, nothing reused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/graph.hpp"
#include "tensor/layout.hpp"

namespace troupe::testing {

/// What a graph computes from. Its first input is x, its second the labels.
struct interpreter_inputs {
  std::int64_t rows = 1;
  std::vector<std::vector<double>> parameters; ///< per slot
  std::vector<double> x;
  std::vector<double> labels;
  kernels::random_key key = {}; ///< of dropout
  bool training = true;
};

/// Every activation after a linear layer and alone, and three results.
inline std::vector<std::string> every_activation() {
  std::vector<std::string> layers;
  for (const auto& each : kernels::activations)
    for (const char* before : {"linear 8 ", ""})
      layers.push_back(before + std::string(each.name));
  layers.push_back("linear 3");
  return layers;
}

/// Predictions of a loss whose label is not ignored.
double counted_predictions(const graph& g, value_id loss, const interpreter_inputs& inputs);

/// Every value of the graph, in the order of their numbers.
std::vector<std::vector<double>> interpret(const graph& g, const interpreter_inputs& inputs);

/// The slots of a flat array in double.
std::vector<std::vector<double>> slots_of(const parameter_layout& layout, const float* flat);

} // namespace troupe::testing
