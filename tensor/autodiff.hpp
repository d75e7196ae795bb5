// SPDX-License-Identifier: BSD-3-Clause
// Reverse-mode differentiation: appends to a graph the nodes that compute the gradients of its parameters.
#pragma once

#include <vector>

#include "tensor/graph.hpp"
#include "tensor/layout.hpp"

namespace troupe {

struct differentiation {
  /// Each gradient is added to what the slot's gradient is before the step.
  bool accumulate = false;
  /// The values inside a block (graph::begin_block) are not kept for the backward but computed a second time, once the gradient
  /// has come to the block's end (Chen et al. 2016). Of the last block they are kept: its backward comes first.
  bool recompute = false;
};

/// Appends the backward nodes of `loss`, the first result of a loss, and returns per parameter slot the value that holds d(mean
/// of loss over the predictions that count)/d(parameter), or what a statistic moves by; value_id::none where the loss does not
/// depend on it, and for frozen ones.
///
/// Only what leads to a parameter is differentiated: the first layer's input gets no gradient. A value that is read by
/// several nodes gets the sum of their gradients, and so does a node's each result. Every returned value is made by a node of its
/// own, never a view.
std::vector<value_id> differentiate(graph& g, value_id loss, const parameter_layout& layout, const differentiation& how = {});

} // namespace troupe
