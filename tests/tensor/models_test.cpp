// SPDX-License-Identifier: BSD-3-Clause
// Lists with braces, layers of sequences, networks by their kind, losses: what they build and what they refuse.
#include "tensor/models.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tensor/model.hpp"
#include "tests/tensor/example_models.hpp"

namespace troupe {
namespace {

using testing::text;
using testing::tokens;

std::string refusal_of(const model_spec& spec, const data_format& data) {
  auto m = model::build(spec, data);
  return m ? "" : m.error().message;
}

std::vector<std::string> names_of(const model& m) {
  std::vector<std::string> names;
  for (const auto& slot : m.layout().slots)
    names.push_back(slot.name);
  return names;
}

const parameter_slot& slot(const model& m, const std::string& name) {
  return m.layout().slots.at(static_cast<std::size_t>(m.layout().find(name)));
}

// -- lists

TEST(LayerList, BracesHoldLayersThatMayHoldOthers) {
  auto list = layers::parse({"linear 4", "repeat 3 {", "residual {", "rmsnorm", "linear 4", "}", "relu", "}", "linear 3"});
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 3U);
  const auto& loop = std::get<layers::repeat>((*list)[1].kind);
  EXPECT_EQ(loop.times, 3);
  ASSERT_EQ(loop.body.size(), 2U);
  EXPECT_EQ(std::get<layers::residual>(loop.body[0].kind).body.size(), 2U);
  EXPECT_EQ(std::get<layers::residual>(loop.body[0].kind).body[1].name, "layer 5 \"linear 4\"");
  EXPECT_TRUE(std::holds_alternative<layers::activate>(loop.body[1].kind));
}

TEST(LayerList, EachRepetitionHasParametersOfItsOwn) {
  const auto m = model::build({{"linear 4", "repeat 2 {", "residual {", "linear 4", "}", "}", "linear 3"}}, {{5}, 3}).value();
  EXPECT_EQ(names_of(m), (std::vector<std::string>{"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
                                                   "linear3.weight", "linear3.bias", "linear4.weight", "linear4.bias"}));
  std::vector<int> blocks;
  for (const auto& n : m.forward().nodes())
    if (std::holds_alternative<ops::matmul>(n.op))
      blocks.push_back(n.block);
  EXPECT_EQ(blocks, (std::vector{no_block, 0, 1, no_block}));
}

TEST(LayerList, BuildsFromCppToo) {
  const std::vector<layers::any> list{layers::linear{4}, layers::repeat{2, {layers::residual{{layers::linear{4}}}}},
                                      layers::linear{3}};
  const auto cpp = model::build(list, {{5}, 3}).value();
  const auto words = model::build({{"linear 4", "repeat 2 {", "residual {", "linear 4", "}", "}", "linear 3"}}, {{5}, 3}).value();
  EXPECT_EQ(names_of(cpp), names_of(words));
  EXPECT_EQ(model::build({layers::linear{4}, layers::residual{{layers::linear{3}}}}, {{5}, 3}).error().message,
            "layer 2: its layers make (rows, 3) of (rows, 4), and a sum needs two of one shape; keep the extents");
}

TEST(LayerList, RefusalsSayWhichBraceIsWrong) {
  EXPECT_EQ(refusal_of({{"linear 4", "}", "linear 3"}}, {{5}, 3}),
            "layer 2 \"}\" closes nothing; write \"residual {\" or \"repeat 6 {\" before what it ends");
  EXPECT_EQ(refusal_of({{"repeat 2 {", "residual {", "linear 5", "}"}}, {{5}, 3}),
            "layer 1 \"repeat 2 {\" is not closed; write \"}\" after its layers");
  EXPECT_EQ(refusal_of({{"residual {", "}", "linear 3"}}, {{5}, 3}),
            "layer 1 \"residual {\" has no layers; write some before its \"}\"");
  EXPECT_EQ(refusal_of({{"residual"}}, {{5}, 3}),
            "layer 1: \"residual\" needs a brace; write \"residual {\", then its layers, then \"}\"");
  EXPECT_EQ(refusal_of({{"repeat {"}}, {{5}, 3}),
            "layer 1: \"repeat {\" needs a number of times from 1 to 10000; write \"repeat 6 {\"");
  EXPECT_EQ(refusal_of({{"residual {", "linear 7", "}", "linear 3"}}, {{5}, 3}),
            "layer 1 \"residual {\": its layers make (rows, 7) of (rows, 5), and a sum needs two of one shape; keep the extents");
  EXPECT_EQ(refusal_of({{"repeat 2 {", "linear 7", "conv 3 3x3", "}", "linear 3"}}, {{5}, 3}),
            "layer 3 \"conv 3 3x3\": needs images (rows, C, H, W), got (rows, 7); write it before \"flatten\"");
  const std::vector<std::string> deep(40, "residual {");
  EXPECT_EQ(refusal_of({deep}, {{5}, 3}), "layer 33 \"residual {\" stands inside 32 others; that is too deep");
  EXPECT_EQ(refusal_of({{"repeat 10000 {", "repeat 10000 {", "relu", "}", "}", "linear 3"}}, {{5}, 3}),
            "layer 3 \"relu\": the model has more than 1000000 operations");
}

TEST(LayerList, WordsForCorrections) {
  const auto words = layers::all_words();
  for (const auto* word :
       {"linear", "attention", "causal", "keys", "tied", "repeat", "{", "}", "all", "stride", "relu", "gelu-erf"})
    EXPECT_EQ(std::ranges::count(words, word), 1) << word;
  for (const auto* none : {"N", "act", "RATE", "HxW", "[act]"})
    EXPECT_EQ(std::ranges::count(words, none), 0) << none;
}

TEST(Layers, EveryExampleIsRead) {
  for (const auto* line : {"conv 8 3x3 relu stride 2 pad 1 dilation 2 groups 4",
                           "avgpool all",
                           "avgpool 2",
                           "rmsnorm",
                           "groupnorm 8",
                           "batchnorm",
                           "embedding 128",
                           "positions",
                           "attention 4",
                           "attention 8 causal keys 2 rotary dropout 0.1",
                           "lstm 256",
                           "lstm 256 last",
                           "gru 256",
                           "head",
                           "head tied",
                           "residual {",
                           "repeat 6 {",
                           "}",
                           "silu",
                           "gelu-erf"})
    EXPECT_TRUE(layers::parse(line)) << layers::parse(line).error().message;
  for (const auto* line :
       {"avgpool", "avgpool every", "groupnorm", "groupnorm 0", "embedding", "attention", "attention 0", "attention 4 keys",
        "attention 4 dropout 1", "attention 4 rotary causal", "lstm", "lstm 5 first", "head free", "residual { linear 3",
        "repeat 0 {", "repeat 6", "} }", "conv 8 3x3 groups 0", "conv 8 3x3 groups 2 pad 1"})
    EXPECT_FALSE(layers::parse(line)) << line;
}

TEST(Layers, RefusalsOfSequences) {
  const auto ids = text(8, 20);
  EXPECT_EQ(refusal_of({{"linear 20"}}, ids),
            "layer 1 \"linear 20\": needs numbers, and (rows, 8) holds ids; an \"embedding\" makes numbers of them");
  EXPECT_EQ(refusal_of({{"attention 4"}}, ids),
            "layer 1 \"attention 4\": needs sequences (rows, length, width), got (rows, 8); put an \"embedding\" before it");
  EXPECT_EQ(refusal_of({{"embedding 10", "attention 4 causal", "head tied"}}, ids),
            "layer 2 \"attention 4 causal\": 4 heads do not divide the width of (rows, 8, 10)");
  EXPECT_EQ(refusal_of({{"embedding 12", "attention 4 keys 3", "head tied"}}, ids),
            "layer 2 \"attention 4 keys 3\": 3 key heads do not divide 4 heads");
  EXPECT_EQ(refusal_of({{"embedding 12", "attention 4 rotary", "head tied"}}, ids),
            "layer 2 \"attention 4 rotary\": rotary positions need heads of an even number of elements, and 4 of 12 have 3");
  EXPECT_EQ(refusal_of({{"embedding 12", "linear 6", "head tied"}}, ids),
            "layer 3 \"head tied\": is tied to a table (20, 12), which does not make logits of 20 classes from (rows, 8, 6)");
  EXPECT_EQ(refusal_of({{"embedding 12"}}, {{5}, 3}),
            "layer 1 \"embedding 12\": needs ids, and (rows, 5) holds numbers; write it first, for data that has ids");
  EXPECT_EQ(refusal_of({{"linear 6", "head tied"}}, tokens(4, 5)),
            "layer 2 \"head tied\": is tied to the table of an \"embedding\", and there is none before it");
  EXPECT_EQ(refusal_of({{"embedding 12", "batchnorm", "head"}}, ids),
            "layer 2 \"batchnorm\": needs images (rows, C, H, W) or features (rows, N), got (rows, 8, 12); a sequence takes "
            "\"layernorm\"");
  EXPECT_EQ(refusal_of({{"conv 6 3x3 groups 4"}}, {{4, 8, 8}, 3}),
            "layer 1 \"conv 6 3x3 groups 4\": 4 groups do not divide the 4 channels of (rows, 4, 8, 8) and its own 6");
  EXPECT_EQ(refusal_of({{"conv 6 3x3", "groupnorm 4"}}, {{4, 8, 8}, 3}),
            "layer 2 \"groupnorm 4\": 4 groups do not divide the 6 channels of (rows, 6, 6, 6)");
  EXPECT_EQ(
      refusal_of({{"embedding 12", "linear 4"}}, ids),
      "the last layer, layer 2 \"linear 4\", gives (rows, 8, 4), but 20 classes need (rows, 8, 20); end with \"linear 20\"");
}

TEST(Layers, ParametersOfSequences) {
  const auto m =
      model::build({{"embedding 8", "positions", "attention 4 keys 2", "lstm 6", "gru 5", "head"}}, text(3, 11)).value();
  EXPECT_EQ(slot(m, "embedding1.weight").dims, (shape{11, 8}));
  EXPECT_EQ(slot(m, "positions1.weight").dims, (shape{3, 8}));
  EXPECT_EQ(slot(m, "attention1.qkv.weight").dims, (shape{16, 8}));
  EXPECT_EQ(slot(m, "attention1.proj.weight").dims, (shape{8, 8}));
  EXPECT_EQ(slot(m, "lstm1.weight_ih").dims, (shape{24, 8}));
  EXPECT_EQ(slot(m, "lstm1.weight_hh").dims, (shape{24, 6}));
  EXPECT_EQ(slot(m, "lstm1.bias_hh").dims, (shape{24}));
  EXPECT_EQ(slot(m, "gru1.weight_ih").dims, (shape{15, 6}));
  EXPECT_EQ(slot(m, "head1.weight").dims, (shape{11, 5}));
  EXPECT_EQ(m.forward().at(m.predictions()).to_string(), "(rows, 3, 11)");
}

TEST(Layers, RunningMomentsAreStatistics) {
  const auto m = model::build({{"conv 4 3x3", "batchnorm", "flatten", "linear 3"}}, {{1, 5, 5}, 3}).value();
  for (const auto& s : m.layout().slots)
    EXPECT_EQ(s.kind, s.name.find("running") == std::string::npos ? slot_kind::trained : slot_kind::statistic) << s.name;
  std::vector<float> flat(static_cast<std::size_t>(m.layout().floats()));
  initialize_parameters(m.layout(), 1, flat.data());
  EXPECT_EQ(flat[static_cast<std::size_t>(slot(m, "batchnorm1.running_mean").offset)], 0);
  EXPECT_EQ(flat[static_cast<std::size_t>(slot(m, "batchnorm1.running_var").offset)], 1);
  EXPECT_EQ(flat[static_cast<std::size_t>(slot(m, "batchnorm1.weight").offset)], 1);
}

// -- losses

TEST(Loss, BelongsToItsLabels) {
  const data_format numbers{.sample = {5}, .labels = {4}, .label_type = dtype::f32};
  EXPECT_EQ(refusal_of({.layers = {"linear 4"}}, numbers),
            "loss = \"cross-entropy\" is for classes, and the labels are numbers; write loss = \"mse\"");
  EXPECT_EQ(refusal_of({.layers = {"linear 3"}, .loss = {"mse"}}, numbers),
            "the last layer, layer 1 \"linear 3\", gives (rows, 3), but the labels need (rows, 4); end with \"linear 4\"");
  EXPECT_EQ(refusal_of({.layers = {"linear 3"}, .loss = {"bce"}}, {{5}, 3}),
            "loss = \"bce\" is for labels that are numbers, and the data has 3 classes; write loss = \"cross-entropy\"");
  EXPECT_EQ(refusal_of({.layers = {"linear 3"}, .loss = {"hinge"}}, {{5}, 3}),
            "loss = \"hinge\" is unknown; write \"cross-entropy\", \"mse\" or \"bce\"");
  EXPECT_EQ(refusal_of({.layers = {"linear 4"}, .loss = {"mse", 0.1}}, numbers),
            "label_smoothing = 0.1 is for classes, and loss = \"mse\" has none");
  EXPECT_EQ(refusal_of({.layers = {"linear 3"}, .loss = {.label_smoothing = 1}}, {{5}, 3}),
            "loss: label smoothing is in [0, 1), got 1");
  EXPECT_EQ(refusal_of({.layers = {"linear 4"}, .loss = {"mse"}}, numbers), "");
}

// -- networks

network_spec gpt(std::int64_t depth, std::int64_t heads, std::int64_t width) {
  return {.kind = "gpt", .depth = depth, .heads = heads, .width = width};
}

TEST(Network, GptHasTheNamesAndSizesOfGpt2) {
  // The 124M model: 124,439,808 parameters, as Hugging Face counts them.
  const auto m = model::build({.layers = {}, .network = gpt(12, 12, 768)}, text(1024, 50257)).value();
  std::int64_t elements = 0;
  for (const auto& s : m.layout().slots)
    elements += s.elements();
  EXPECT_EQ(elements, 124'439'808);
  EXPECT_EQ(m.layout().slots.size(), 2U + 12 * 12 + 2);
  EXPECT_EQ(m.layout().slots.front().name, "wte.weight");
  EXPECT_EQ(slot(m, "wpe.weight").dims, (shape{1024, 768}));
  EXPECT_EQ(slot(m, "h.11.attn.c_attn.weight").dims, (shape{2304, 768}));
  EXPECT_EQ(slot(m, "h.0.mlp.c_fc.bias").dims, (shape{3072}));
  EXPECT_EQ(slot(m, "h.3.mlp.c_proj.weight").dims, (shape{768, 3072}));
  EXPECT_EQ(m.layout().slots.back().name, "ln_f.bias");
  EXPECT_DOUBLE_EQ(slot(m, "h.0.attn.c_attn.weight").init.deviation, 0.02);
  EXPECT_DOUBLE_EQ(slot(m, "h.0.attn.c_proj.weight").init.deviation, 0.02 / std::sqrt(24));
  EXPECT_DOUBLE_EQ(slot(m, "h.5.mlp.c_proj.weight").init.deviation, 0.02 / std::sqrt(24));
  EXPECT_EQ(m.forward().at(m.predictions()).to_string(), "(rows, 1024, 50257)");
}

TEST(Network, ResnetHasTheSizeOfResNet20) {
  // 0.27 million (He et al. 2016), with 1x1 convolutions where a stage begins: 272,474 trained in PyTorch's usual form.
  const auto m = model::build({.layers = {}, .network = {.kind = "resnet", .depth = 20, .width = 16}}, {{3, 32, 32}, 10}).value();
  std::int64_t trained = 0, convolutions = 0;
  for (const auto& s : m.layout().slots) {
    trained += s.kind == slot_kind::trained ? s.elements() : 0;
    convolutions += s.dims.rank() == 4 ? 1 : 0;
  }
  const std::int64_t blocks = 7 * 9 * 16 * 16 - 9 * 13 * 16 + 9 * 16 * 32 + 5 * 9 * 32 * 32 + 9 * 32 * 64 + 5 * 9 * 64 * 64;
  const std::int64_t norms = 2 * (7 * 16 + 7 * 32 + 7 * 64), shortcuts = 16 * 32 + 32 * 64, head = 64 * 10 + 10;
  EXPECT_EQ(trained, blocks + norms + shortcuts + head);
  EXPECT_EQ(convolutions, 21);
  EXPECT_EQ(slot(m, "layer2.0.downsample.0.weight").dims, (shape{32, 16, 1, 1}));
  EXPECT_EQ(slot(m, "layer3.2.bn2.running_var").kind, slot_kind::statistic);
  EXPECT_EQ(slot(m, "fc.weight").dims, (shape{10, 64}));
}

TEST(Network, RecurrentOnesHaveTheNamesOfPyTorch) {
  const auto m =
      model::build({.layers = {}, .network = {.kind = "lstm", .depth = 2, .width = 6, .dropout = 0.1}}, text(5, 9)).value();
  EXPECT_EQ(names_of(m), (std::vector<std::string>{"embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0",
                                                   "lstm.bias_ih_l0", "lstm.bias_hh_l0", "lstm.weight_ih_l1", "lstm.weight_hh_l1",
                                                   "lstm.bias_ih_l1", "lstm.bias_hh_l1", "head.weight", "head.bias"}));
  const auto features = model::build({.layers = {}, .network = {.kind = "gru", .depth = 1, .width = 6}}, {{5, 4}, 3}).value();
  EXPECT_EQ(slot(features, "gru.weight_ih_l0").dims, (shape{18, 4}));
  EXPECT_EQ(features.forward().at(features.predictions()).to_string(), "(rows, 3)");
}

TEST(Network, BlocksAreNumbered) {
  const auto m = model::build({.layers = {}, .network = gpt(3, 2, 4)}, text(4, 5)).value();
  int last = no_block;
  for (const auto& n : m.forward().nodes())
    last = std::max(last, n.block);
  EXPECT_EQ(last, 2);
  EXPECT_EQ(m.forward().producer(m.predictions()).block, no_block);
}

TEST(Network, RefusalsNameTheKey) {
  const auto refused = [](const network_spec& network, const data_format& data) {
    return refusal_of({.layers = {}, .network = network}, data);
  };
  EXPECT_EQ(refused(gpt(2, 5, 12), text(4, 5)), "heads = 5 do not divide width = 12");
  EXPECT_EQ(refused(gpt(0, 2, 12), text(4, 5)), "a network of kind \"gpt\" needs a depth and a width from 1 on, got 0 and 12");
  EXPECT_EQ(
      refused(gpt(2, 2, 12), {{1, 28, 28}, 10}),
      "a gpt predicts the next of the ids in its input, and the data has (rows, 1, 28, 28) and 10 classes; take text or tokens");
  EXPECT_EQ(refused({.kind = "resnet", .depth = 19, .width = 16}, {{3, 32, 32}, 10}),
            "depth = 19 of a resnet must be 6n + 2: 8, 14, 20, 32, 44, 56, 110");
  EXPECT_EQ(refused({.kind = "resnet", .depth = 20, .width = 16}, text(4, 5)),
            "a resnet reads images (rows, C, H, W), and the data has (rows, 4)");
  EXPECT_EQ(
      refused({.kind = "lstm", .depth = 1, .width = 8}, {{3, 8, 8}, 10}),
      "a network of kind \"lstm\" reads (rows, length) of ids or (rows, length, features), and the data has (rows, 3, 8, 8)");
  EXPECT_EQ(refused({.kind = "rnn", .depth = 1, .width = 8}, text(4, 5)),
            "kind = \"rnn\" is unknown; write \"gpt\", \"lstm\", \"gru\", \"resnet\"");
  EXPECT_EQ(refused({.kind = "gpt", .depth = 1, .heads = 1, .width = 8, .dropout = 1}, text(4, 5)),
            "dropout = 1 must be at least 0 and below 1");
}

// -- graphs

TEST(ModelFromGraph, MisfitsAreNamed) {
  graph g;
  const auto x = *g.apply(ops::input{{4}}, {});
  const auto labels = *g.apply(ops::input{{}, dtype::i32}, {});
  const auto w = *g.apply(ops::parameter{0, {4, 3}}, {});
  const auto logits = *g.apply(ops::matmul{}, {x, w});
  const auto loss = *g.apply(ops::cross_entropy{}, {logits, labels});
  parameter_layout layout;
  const auto refused = [&](value_id input, value_id of_loss) {
    auto m = model::from_graph({.forward = g, .layout = layout, .input = input, .labels = labels, .loss = of_loss});
    return m ? "" : m.error().message;
  };
  EXPECT_EQ(refused(x, loss), "parameter 0 has no slot: there are 0");
  layout.slots.push_back({.name = "w", .dims = {3, 4}, .init = {}});
  EXPECT_EQ(refused(x, loss), "parameter 0 is (4, 3), and its slot w is (3, 4)");
  layout.slots[0].dims = {4, 3};
  EXPECT_EQ(refused(logits, loss), "the model's input (rows, 3) is not an input of the graph");
  EXPECT_EQ(refused(x, logits), "(rows, 3) is not the loss of a loss");
  EXPECT_EQ(refused(x, loss), "");
}

} // namespace
} // namespace troupe
