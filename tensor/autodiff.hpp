// SPDX-License-Identifier: BSD-3-Clause
// Reverse-mode differentiation: appends to a graph the nodes that compute the gradients of its parameters.
#pragma once

#include <vector>

#include "tensor/graph.hpp"

namespace troupe {

/// Appends the backward nodes of `loss`, the first result of a cross_entropy node, and returns per parameter slot the
/// value that holds d(mean of loss over the rows)/d(parameter); value_id::none where the loss does not depend on it.
///
/// Only what leads to a parameter is differentiated: the first layer's input gets no gradient. A value that is read by
/// several nodes gets the sum of their gradients. Every returned value is made by a node of its own, never a view.
std::vector<value_id> differentiate(graph& g, value_id loss, int slots);

} // namespace troupe
