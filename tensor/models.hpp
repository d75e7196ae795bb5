// SPDX-License-Identifier: BSD-3-Clause
// Whole models by a few numbers: GPT, recurrent networks, residual networks of images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/builder.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// The numbers of a model. What does not belong to its kind is 0.
struct network_spec {
  /// "gpt" | "lstm" | "gru" | "resnet"; empty: none
  std::string kind{};
  std::int64_t depth = 0; ///< gpt: blocks; lstm, gru: layers; resnet: its layers with weights, 6n + 2, 20 say
  std::int64_t heads = 0; ///< gpt
  std::int64_t width = 0; ///< gpt: of the stream; lstm, gru: units; resnet: channels of the first stage
  double dropout = 0;     ///< gpt: of attention, of what is added to the stream and of the embedding; lstm, gru: between layers
  friend bool operator==(const network_spec&, const network_spec&) = default;
};

/// The names of the kinds.
std::vector<std::string> network_kinds();

/// Adds a network's layers to a builder. Parameters have the names of the usual implementations in PyTorch:
///   gpt     Radford et al. 2019: wte, wpe, h.N.{ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj}, ln_f; the head is
///   tied.
///           Weights N(0, 0.02), those that end a branch divided by sqrt(2 depth). All but norms and biases are (units, inputs).
///   lstm, gru   embedding (of ids), lstm.weight_ih_l0 and so on, head
///   resnet  He et al. 2016 for small images, with batch norms: conv1, bn1, layer1.0.{conv1, bn1, conv2, bn2},
///   layer2.0.downsample
///           (a 1x1 convolution and its norm, where a stage begins), ..., fc
/// Blocks of a gpt and of a resnet are blocks of the graph. An error names the key that is wrong.
result<void> add_network(layers::builder& b, const network_spec& spec);

} // namespace troupe
