// SPDX-License-Identifier: BSD-3-Clause
// Layer strings, the models they make, and their initial parameters.
#include "tensor/layers.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tensor/model.hpp"

namespace troupe {
namespace {

std::string refusal(std::vector<std::string> list, const shape& sample = {1, 28, 28}, int classes = 10) {
  auto m = model::build({std::move(list)}, {sample, classes});
  return m ? "" : m.error().message;
}

TEST(Layers, ConvolutionReadsEveryPart) {
  auto layer = layers::parse("conv 32 3x5 relu stride 2 pad 1");
  ASSERT_TRUE(layer);
  const auto& conv = std::get<layers::conv>(layer->kind);
  EXPECT_EQ(conv.channels, 32);
  EXPECT_EQ(conv.kernel_h, 3);
  EXPECT_EQ(conv.kernel_w, 5);
  EXPECT_EQ(conv.act, kernels::activation::relu);
  EXPECT_EQ(conv.stride, 2);
  EXPECT_EQ(conv.padding, 1);
}

TEST(Layers, BlanksDoNotMatter) {
  auto layer = layers::parse("  linear\t128   gelu ");
  ASSERT_TRUE(layer);
  EXPECT_EQ(std::get<layers::linear>(layer->kind).units, 128);
  EXPECT_EQ(std::get<layers::linear>(layer->kind).act, kernels::activation::gelu);
}

TEST(Layers, RefusalsQuoteTheTextAndSayWhatWouldBeRight) {
  EXPECT_EQ(layers::parse("linear").error().message,
            "\"linear\" needs a number of units from 1 to 16777216; write \"linear 128 relu\"");
  EXPECT_EQ(layers::parse("conv 3 3").error().message,
            "\"conv 3 3\" needs a kernel HxW; write \"conv 32 3x3 relu stride 1 pad 1\"");
  EXPECT_EQ(layers::parse("dropout 1").error().message, "\"dropout 1\" needs a rate in [0, 1); write \"dropout 0.5\"");
  EXPECT_NE(layers::parse("rnn 5").error().message.find("\"rnn 5\" begins with \"rnn\", which is no layer"), std::string::npos);
}

TEST(Layers, WrongStringsAreRefused) {
  for (const auto* text : {"",
                           "   ",
                           "linear 0",
                           "linear -3",
                           "linear 12x",
                           "linear 1e3",
                           "linear 99999999999999999999",
                           "linear 5 swish",
                           "linear 5 relu relu",
                           "conv",
                           "conv 3",
                           "conv 3 x3",
                           "conv 3 3x",
                           "conv 3 3x3x3",
                           "conv 3 3x3 stride",
                           "conv 3 3x3 stride 0",
                           "conv 3 3x3 pad -1",
                           "conv 3 3x3 pad 1 stride 2",
                           "pool",
                           "pool 0",
                           "pool 2 2",
                           "avgpool x",
                           "flatten 3",
                           "layernorm 5",
                           "dropout",
                           "dropout -0.1",
                           "dropout nan",
                           "dropout 0.5x",
                           "Relu",
                           "relu 2"})
    EXPECT_FALSE(layers::parse(text)) << text;
}

TEST(Layers, AnyTextIsReadOrRefusedWithItsQuotation) {
  const std::vector<std::string> words{"linear", "conv", "pool", "avgpool", "flatten", "layernorm", "dropout", "relu", "gelu",
                                       "stride", "pad",  "3x3",  "0.5",     "1",       "128",       "-1",      "x",    "",
                                       "\t",     "1x",   "\xff", "\"",      "999999",  "1e9",       "nan",     "inf"};
  std::mt19937 random{20240607};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto count = random() % 7; count > 0; --count)
      text += words[random() % words.size()] + (random() % 8 == 0 ? "" : " ");
    auto layer = layers::parse(text);
    accepted += layer ? 1 : 0;
    if (!layer) {
      EXPECT_EQ(layer.error().message.find('"' + text + '"'), 0U) << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(Model, MlpNamesAndPlacesItsParameters) {
  auto m = model::build({mlp_layers({32}, 10)}, {{1, 28, 28}, 10});
  ASSERT_TRUE(m);
  const auto& slots = m->layout().slots;
  ASSERT_EQ(slots.size(), 4U);
  EXPECT_EQ(slots[0].name, "linear1.weight");
  EXPECT_EQ(slots[0].dims, (shape{32, 784}));
  EXPECT_EQ(slots[1].name, "linear1.bias");
  EXPECT_EQ(slots[2].name, "linear2.weight");
  EXPECT_EQ(slots[3].offset, 32 * 784 + 32 + 320);
  EXPECT_EQ(m->layout().floats(), 32 * 784 + 32 + 320 + 16);
  EXPECT_EQ(m->forward().at(m->predictions()).to_string(), "(rows, 10)");
}

TEST(Model, LayersAreNumberedPerKind) {
  auto m =
      model::build({{"conv 4 3x3 relu", "layernorm", "conv 4 3x3", "flatten", "linear 8 tanh", "linear 10"}}, {{1, 8, 8}, 10});
  ASSERT_TRUE(m);
  std::vector<std::string> names;
  for (const auto& slot : m->layout().slots)
    names.push_back(slot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "layernorm1.weight", "layernorm1.bias", "conv2.weight",
                                             "conv2.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"}));
}

TEST(Model, BuildsFromCppToo) {
  auto text = model::build({{"conv 4 3x3 relu", "pool 2", "flatten", "linear 10"}}, {{1, 28, 28}, 10});
  auto cpp = model::build(std::vector<layers::any>{layers::conv{.channels = 4, .act = kernels::activation::relu},
                                                   layers::max_pool{2}, layers::flatten{}, layers::linear{10}},
                          {{1, 28, 28}, 10});
  ASSERT_TRUE(text && cpp);
  EXPECT_EQ(text->forward().nodes().size(), cpp->forward().nodes().size());
  EXPECT_EQ(text->layout().floats(), cpp->layout().floats());
}

TEST(Model, RefusalsNameTheLayerAndBothShapes) {
  EXPECT_EQ(refusal({"conv 32 3x3 relu", "linear 10"}),
            "layer 2 \"linear 10\": needs a flat input (rows, features), got (rows, 32, 26, 26); put \"flatten\" before it");
  EXPECT_EQ(refusal({"flatten", "conv 4 3x3"}),
            "layer 2 \"conv 4 3x3\": needs images (rows, C, H, W), got (rows, 784); write it before \"flatten\"");
  EXPECT_EQ(refusal({"pool 40"}),
            "layer 1 \"pool 40\": a 40x40 window with padding 0 does not fit into (rows, 1, 28, 28); take a smaller one");
  EXPECT_EQ(refusal({"flatten", "linear 12"}),
            "the last layer, layer 2 \"linear 12\", gives (rows, 12), but 10 classes need (rows, 10); end with \"linear 10\"");
  EXPECT_EQ(refusal({"flatten", "linear ten"}),
            "layer 2: \"linear ten\" needs a number of units from 1 to 16777216; write \"linear 128 relu\"");
  EXPECT_NE(refusal({}), "");
  EXPECT_NE(refusal({"linear 10"}, {0}), "");
  EXPECT_NE(refusal({"linear 1"}, {4}, 1), "");
}

TEST(Model, ExtentsThatOverflowAreRefused) {
  const std::string huge = "16777216";
  EXPECT_NE(refusal({"linear " + huge, "linear " + huge, "linear " + huge}, {784}), "");
  EXPECT_NE(refusal({"conv " + huge + " " + huge + "x" + huge}), "");
}

// -- initial parameters

struct moments {
  double mean = 0, deviation = 0, largest = 0;
};

moments moments_of(const float* values, std::int64_t count) {
  moments m;
  for (std::int64_t i = 0; i < count; ++i) {
    m.mean += values[i] / static_cast<double>(count);
    m.largest = std::max(m.largest, std::abs(static_cast<double>(values[i])));
  }
  for (std::int64_t i = 0; i < count; ++i)
    m.deviation += std::pow(values[i] - m.mean, 2) / static_cast<double>(count);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(Initialization, DeviationsAreThoseOfHeAndGlorot) {
  auto m = model::build({{"flatten", "linear 200 relu", "linear 100 tanh", "layernorm", "linear 10"}}, {{1, 28, 28}, 10});
  ASSERT_TRUE(m);
  const auto& slots = m->layout().slots;
  std::vector<float> flat(static_cast<std::size_t>(m->layout().floats()), -1.0F);
  initialize_parameters(m->layout(), 5, flat.data());

  auto he = moments_of(&flat[static_cast<std::size_t>(slots[0].offset)], slots[0].elements());
  EXPECT_NEAR(he.mean, 0, 0.001);
  EXPECT_NEAR(he.deviation, std::sqrt(2.0 / 784), 0.0005);
  // Uniform in [-b, b] has deviation b / sqrt(3).
  auto glorot = moments_of(&flat[static_cast<std::size_t>(slots[2].offset)], slots[2].elements());
  const double bound = std::sqrt(6.0 / 300);
  EXPECT_NEAR(glorot.mean, 0, 0.002);
  EXPECT_NEAR(glorot.deviation, bound / std::sqrt(3), 0.001);
  EXPECT_LE(glorot.largest, bound);
  for (std::int64_t i = 0; i < slots[1].elements(); ++i)
    EXPECT_EQ(flat[static_cast<std::size_t>(slots[1].offset + i)], 0.0F);
  for (std::int64_t i = 0; i < slots[4].elements(); ++i)
    EXPECT_EQ(flat[static_cast<std::size_t>(slots[4].offset + i)], 1.0F);
  for (auto gap = slots.back().offset + slots.back().elements(); gap < m->layout().floats(); ++gap)
    EXPECT_EQ(flat[static_cast<std::size_t>(gap)], 0.0F);
}

TEST(Initialization, SeedAloneDecides) {
  auto m = model::build({mlp_layers({16}, 10)}, {{1, 28, 28}, 10});
  ASSERT_TRUE(m);
  const auto count = static_cast<std::size_t>(m->layout().floats());
  std::vector<float> first(count), second(count), other(count);
  initialize_parameters(m->layout(), 5, first.data());
  initialize_parameters(m->layout(), 5, second.data());
  initialize_parameters(m->layout(), 6, other.data());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

} // namespace
} // namespace troupe
