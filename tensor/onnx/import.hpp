// SPDX-License-Identifier: BSD-3-Clause
// An ONNX graph as a model of ours.
#pragma once

#include <string>
#include <vector>

#include "tensor/builder.hpp"
#include "tensor/error.hpp"
#include "tensor/onnx/document.hpp"

namespace troupe::onnx {

/// Adds a file's graph to a builder, from its one input to its one output, which is what the model predicts. Initializers become
/// parameters of their names, in the order of the file, that begin at the file's values; running means and variances of batch
/// norms become statistics. Arithmetic on shapes is folded, the number of rows staying symbolic. Taken-apart GELU, SiLU, layer
/// norm and attention become one operation each. An error names the node and, of an operator that is not read, those that are.
result<void> add_graph(layers::builder& b, document from);

/// The operators that are read, in the order of the alphabet.
std::vector<std::string> operators();

/// add_graph of a file.
result<void> add_file(layers::builder& b, const std::string& path);

} // namespace troupe::onnx
