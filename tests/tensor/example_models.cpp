// SPDX-License-Identifier: BSD-3-Clause
// The list.
#include "tests/tensor/example_models.hpp"

#include "tests/tensor/interpreter.hpp"

namespace troupe::testing {

data_format tokens(std::int64_t length, std::int64_t features) {
  return {.sample = {length, features}, .classes = 3, .labels = {length}};
}

data_format text(std::int64_t length, std::int64_t vocabulary) {
  return {.sample = {length}, .classes = static_cast<int>(vocabulary), .type = dtype::i32, .ids = vocabulary, .labels = {length}};
}

std::vector<example_model> example_models() {
  const data_format flat{{20}, 3}, image{{1, 8, 8}, 3}, two_channels{{2, 6, 5}, 3};
  const data_format numbers{.sample = {5}, .labels = {4}, .label_type = dtype::f32};
  const data_format number_each{.sample = {3, 4}, .labels = {3}, .label_type = dtype::f32};
  std::vector<example_model> all{
      // -- features
      {"linear", {{"linear 3"}}, flat},
      {"mlp", {{"flatten", "linear 11 relu", "linear 7 relu", "linear 3"}}, {{1, 4, 4}, 3}},
      {"activations", {every_activation()}, {{6}, 3}},
      {"norm_and_dropout", {{"linear 8", "layernorm", "relu", "dropout 0.3", "linear 6", "dropout 0.5", "linear 3"}}, flat},
      {"layernorm_first", {{"layernorm", "linear 3"}}, {{5}, 3}},
      {"rmsnorm", {{"linear 6", "rmsnorm", "linear 3"}}, {{5}, 3}},
      {"batchnorm_of_features", {{"linear 5", "batchnorm", "relu", "linear 3"}}, {{5}, 3}},
      {"residual", {{"linear 6", "residual {", "linear 6 relu", "linear 6", "}", "linear 3"}}, {{5}, 3}},
      {"residuals",
       {{"linear 6", "residual {", "layernorm", "linear 6 relu", "dropout 0.2", "}", "residual {", "linear 6 tanh", "}",
         "linear 3"}},
       {{5}, 3}},
      {"repeated", {{"linear 6", "repeat 3 {", "residual {", "rmsnorm", "linear 6 silu", "}", "}", "linear 3"}}, {{5}, 3}},
      {"label_smoothing", {.layers = {"linear 6 relu", "linear 3"}, .loss = {.label_smoothing = 0.1}}, {{5}, 3}},
      {"mse", {.layers = {"linear 6 tanh", "linear 4"}, .loss = {"mse"}}, numbers},
      {"mse_of_one_number",
       {.layers = {"linear 6 tanh", "linear 1"}, .loss = {"mse"}},
       {.sample = {5}, .label_type = dtype::f32}},
      {"mse_at_each_place", {.layers = {"gru 4", "flatten", "linear 3"}, .loss = {"mse"}}, number_each},
      {"bce", {.layers = {"linear 6 tanh", "linear 4"}, .loss = {"bce"}}, numbers},
      // -- images
      {"cnn", {{"conv 3 3x3 relu", "conv 4 3x3 relu", "pool 2", "flatten", "linear 6 relu", "linear 3"}}, image},
      {"cnn_strided",
       {{"conv 3 3x2 relu stride 2 pad 1", "avgpool 2", "conv 4 2x2 pad 1", "gelu", "flatten", "linear 3"}},
       {{2, 9, 8}, 3}},
      {"conv_layernorm", {{"conv 3 2x2", "layernorm", "tanh", "flatten", "dropout 0.1", "linear 3"}}, two_channels},
      {"conv_groups", {{"conv 4 1x1", "conv 6 3x3 relu pad 1 groups 2", "avgpool all", "linear 3"}}, two_channels},
      {"conv_depthwise", {{"conv 3 1x1 relu", "conv 3 3x3 pad 2 dilation 2 groups 3", "flatten", "linear 3"}}, two_channels},
      {"pool_then_conv", {{"conv 2 2x2", "pool 2", "conv 2 2x2 relu", "avgpool 2", "flatten", "linear 3"}}, {{1, 7, 7}, 3}},
      {"batchnorm_of_images", {{"conv 3 3x3", "batchnorm", "relu", "avgpool all", "linear 3"}}, two_channels},
      {"groupnorm", {{"conv 4 2x2", "groupnorm 2", "relu", "flatten", "linear 3"}}, two_channels},
      // -- sequences
      {"tokens", {{"linear 6 gelu", "layernorm", "dropout 0.2", "linear 5", "tanh", "linear 3"}}, tokens(4, 5)},
      {"tokens_to_one_label", {{"linear 6 relu", "rmsnorm", "avgpool all", "linear 3"}}, {{4, 5}, 3}},
      {"transformer",
       {{"embedding 6", "positions", "repeat 2 {", "residual {", "layernorm", "attention 2 causal", "}", "residual {",
         "layernorm", "linear 8 gelu", "linear 6", "}", "}", "layernorm", "head tied"}},
       text(4, 5)},
      {"attention", {{"linear 6", "attention 3", "flatten", "linear 3"}}, {{4, 5}, 3}},
      {"attention_with_everything", {{"embedding 8", "attention 4 causal keys 2 rotary dropout 0.3", "head"}}, text(5, 4)},
      {"lstm", {{"lstm 4", "lstm 3 last", "linear 3"}}, {{4, 3}, 3}},
      {"gru", {{"embedding 3", "gru 4", "dropout 0.2", "gru 3", "head"}}, text(4, 5)},
      // -- networks
      {"gpt", {.layers = {}, .network = {.kind = "gpt", .depth = 2, .heads = 2, .width = 6, .dropout = 0.1}}, text(4, 5)},
      {"lstm_network", {.layers = {}, .network = {.kind = "lstm", .depth = 2, .width = 4, .dropout = 0.2}}, text(3, 5)},
      {"gru_network", {.layers = {}, .network = {.kind = "gru", .depth = 1, .width = 4}}, {{4, 3}, 3}},
      {"resnet", {.layers = {}, .network = {.kind = "resnet", .depth = 8, .width = 2}}, {{1, 8, 8}, 3}, false},
  };
  return all;
}

} // namespace troupe::testing
