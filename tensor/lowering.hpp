// SPDX-License-Identifier: BSD-3-Clause
// From a graph to a list of instructions: what runs, in which order, and what is fused.
#pragma once

#include <vector>

#include "tensor/graph.hpp"

namespace troupe {

/// The nodes that `wanted` depends on, in an order in which every input is made before it is read, and
/// every node runs after those that it is told to follow. Among those that are
/// ready, one that makes a value of `early` comes first, then the one that was added first: with the parameters' gradients
/// as `early`, each is made as soon as its inputs are there, before the backward pass goes on to the layer below.
std::vector<node> order_nodes(const graph& g, const std::vector<value_id>& wanted, const std::vector<value_id>& early);

/// Merges matmul + add_bias + activation and conv2d + relu into the first of them, which a backend computes in one pass.
/// Where another node reads the input of a matmul's activation (the backward of gelu, say), that becomes the second result.
/// In the backward a node whose result is added to a sum that nothing reads afterwards adds it itself (node::sums), where a
/// backend can. Values of `wanted` stay results.
std::vector<node> fuse_epilogues(const graph& g, std::vector<node> ordered, const std::vector<value_id>& wanted);

/// Outside training dropout is the identity, and a batch norm goes by its running statistics.
std::vector<node> for_evaluation(const graph& g, std::vector<node> ordered);

} // namespace troupe
