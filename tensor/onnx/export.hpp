// SPDX-License-Identifier: BSD-3-Clause
// A model of ours as an ONNX graph.
#pragma once

#include <string>

#include "tensor/error.hpp"
#include "tensor/model.hpp"
#include "tensor/onnx/document.hpp"

namespace troupe::onnx {

/// The model from its input to its predictions, any number of rows, with these parameters (layout().floats() of them) as
/// initializers of their names, in their order. What ONNX has not is written as several nodes, in the way that an import puts
/// together again. An error names the operation that has no such form.
result<document> export_model(const model& net, const float* flat, const std::string& name);

} // namespace troupe::onnx
