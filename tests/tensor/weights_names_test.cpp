// SPDX-License-Identifier: BSD-3-Clause
// Files of other programs: their names, types of numbers, masks, heads and turned matrices, and several files with an index.
#include "tensor/weights_names.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

/// A GPT of one block and width 2: its parameters, each with numbers of its own.
parameter_layout small_gpt() {
  parameter_layout layout;
  std::int64_t offset = 0;
  for (const auto& [name, dims] : {std::pair<const char*, shape>{"wte.weight", {3, 2}},
                                   {"wpe.weight", {4, 2}},
                                   {"h.0.ln_1.weight", {2}},
                                   {"h.0.attn.c_attn.weight", {6, 2}},
                                   {"h.0.attn.c_attn.bias", {6}},
                                   {"h.0.attn.c_proj.weight", {2, 2}},
                                   {"h.0.mlp.c_fc.weight", {8, 2}},
                                   {"h.0.mlp.c_proj.weight", {2, 8}}}) {
    layout.slots.push_back({name, dims, offset, {}});
    offset += align_up(dims.elements());
  }
  return layout;
}

class WeightsNames : public ::testing::Test {
protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "troupe-weights-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    std::iota(flat.begin(), flat.end(), -7.0F);
    for (const auto& slot : layout.slots) // gaps are zero, as in what is loaded
      std::fill(flat.begin() + slot.offset + slot.elements(), flat.begin() + slot.offset + align_up(slot.elements()), 0.0F);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string in_folder(const std::string& name) const { return (folder / name).string(); }
  std::string saved(const std::vector<tensor_to_save>& tensors, const std::string& name = "a.safetensors") const {
    const auto done = save_safetensors(in_folder(name), tensors, {});
    EXPECT_TRUE(done);
    return in_folder(name);
  }
  /// As Hugging Face's program writes them.
  std::vector<tensor_to_save> theirs() const { return with_huggingface_names(tensors_of(layout, flat.data())); }
  /// The parameters, or nothing and a refusal.
  std::optional<std::vector<float>> loaded(const std::string& path) {
    std::vector<float> into(flat.size(), -1.0F);
    const auto done = load_safetensors(path, layout, into.data());
    refusal = done ? "" : done.error().message.substr(path.size() + 2);
    return done ? std::optional(into) : std::nullopt;
  }

  fs::path folder;
  std::string refusal;
  const parameter_layout layout = small_gpt();
  std::vector<float> flat = std::vector<float>(static_cast<std::size_t>(layout.floats()));
};

TEST_F(WeightsNames, HuggingFacesMatricesAreInputsByOutputs) {
  const auto path = saved(theirs());
  const auto file = safetensors_file::open(path);
  ASSERT_TRUE(file);
  std::map<std::string, stored_tensor> by_name;
  for (const auto& each : file->tensors())
    by_name[each.name] = each;
  EXPECT_EQ(by_name.at("transformer.h.0.attn.c_attn.weight").dims, (shape{2, 6}));
  EXPECT_EQ(by_name.at("transformer.wte.weight").dims, (shape{3, 2}));
  std::vector<float> turned(16);
  ASSERT_TRUE(file->read(by_name.at("transformer.h.0.mlp.c_proj.weight"), turned.data())); // (8, 2); ours is (2, 8)
  const auto* ours = flat.data() + layout.slots.back().offset;
  EXPECT_THAT(turned, ElementsAre(ours[0], ours[8], ours[1], ours[9], ours[2], ours[10], ours[3], ours[11], ours[4], ours[12],
                                  ours[5], ours[13], ours[6], ours[14], ours[7], ours[15]));
  EXPECT_EQ(loaded(path), flat) << refusal;
}

TEST_F(WeightsNames, PrefixesOfOtherProgramsAreLeftOut) {
  for (const std::string prefix : {"", "transformer.", "module.", "_orig_mod.transformer.", "module._orig_mod."}) {
    auto tensors = tensors_of(layout, flat.data());
    for (auto& each : tensors)
      each.name.insert(0, prefix);
    EXPECT_EQ(loaded(saved(tensors)), flat) << prefix << ": " << refusal;
  }
}

TEST_F(WeightsNames, MasksAndCountersAreNoParameters) {
  auto tensors = theirs();
  const std::vector<float> mask(16, 1.0F);
  tensors.push_back({"transformer.h.0.attn.bias", {1, 1, 4, 4}, mask.data()});
  tensors.push_back({"transformer.h.0.attn.masked_bias", {}, mask.data()});
  tensors.push_back({"bn1.num_batches_tracked", {}, mask.data()});
  EXPECT_EQ(loaded(saved(tensors)), flat) << refusal;
  tensors.push_back({"transformer.h.1.ln_1.weight", {2}, mask.data()});
  EXPECT_FALSE(loaded(saved(tensors)));
  EXPECT_EQ(refusal, "has a tensor \"transformer.h.1.ln_1.weight\" that the model does not have");
}

TEST_F(WeightsNames, HeadMayBeTheTableAgainAndNothingElse) {
  auto tensors = theirs();
  auto table = std::vector<float>(flat.begin(), flat.begin() + 6);
  tensors.push_back({"lm_head.weight", {3, 2}, table.data()});
  EXPECT_EQ(loaded(saved(tensors)), flat) << refusal;
  table[5] += 1;
  EXPECT_FALSE(loaded(saved(tensors)));
  EXPECT_EQ(refusal, "tensor \"lm_head.weight\" is not \"wte.weight\" again, and the model's head is");
}

TEST_F(WeightsNames, TwoOfOneNameAreRefused) {
  auto tensors = tensors_of(layout, flat.data());
  tensors.push_back({"transformer.wte.weight", {3, 2}, flat.data()});
  EXPECT_FALSE(loaded(saved(tensors)));
  EXPECT_EQ(refusal, "has two tensors \"wte.weight\"; the second as \"transformer.wte.weight\"");
}

TEST_F(WeightsNames, FileOfAnotherWidthIsRefusedByBothShapes) {
  auto tensors = theirs();
  const std::vector<float> wide(48);
  tensors[3].dims = {4, 12};
  tensors[3].data = wide.data();
  tensors[3].transposed = false;
  EXPECT_FALSE(loaded(saved(tensors)));
  EXPECT_EQ(refusal, "tensor \"transformer.h.0.attn.c_attn.weight\" is (12, 4) turned, the model's is (6, 2)");
}

TEST_F(WeightsNames, NamesThatAreTheModelsOwnStay) {
  parameter_layout own{{{"transformer.weight", {2}, 0, {}}}};
  const auto path = saved(tensors_of(own, flat.data()));
  std::vector<float> into(16);
  EXPECT_TRUE(load_safetensors(path, own, into.data()));
  EXPECT_EQ(into[1], flat[1]);
}

// -- types of numbers

struct half_case {
  float value, as_f16, as_bf16;
};

TEST_F(WeightsNames, HalvesAreRoundedToTheNearestEven) {
  const auto infinite = std::numeric_limits<float>::infinity();
  const std::vector<half_case> cases{
      {1, 1, 1},
      {-0.1F, -0.0999755859375F, -0.10009765625F},
      {65504, 65504, 65536},            // the largest of binary16
      {65520, infinite, 65536},         // half way beyond it
      {2049, 2048, 2048},               // half way between two, to the even one
      {2051, 2052, 2048},               // likewise; in bfloat16 far below half way
      {0x1p-24F, 0x1p-24F, 0x1p-24F},   // the smallest of binary16
      {0x1p-25F, 0, 0x1p-25F},          // half way to it, to the even one
      {1.00390625F, 1.00390625F, 1.0F}, // half way between two of bfloat16
      {infinite, infinite, infinite},
  };
  parameter_layout one{{{"w", {static_cast<std::int64_t>(cases.size())}, 0, {}}}};
  std::vector<float> values(16);
  std::ranges::transform(cases, values.begin(), &half_case::value);
  for (const auto type : {stored_type::f16, stored_type::bf16}) {
    auto tensors = tensors_of(one, values.data());
    tensors[0].type = type;
    std::vector<float> into(16);
    ASSERT_TRUE(load_safetensors(saved(tensors), one, into.data()));
    for (std::size_t i = 0; i < cases.size(); ++i)
      EXPECT_EQ(into[i], type == stored_type::f16 ? cases[i].as_f16 : cases[i].as_bf16) << cases[i].value;
  }
}

TEST_F(WeightsNames, WhatIsNoNumberStaysNone) {
  parameter_layout one{{{"w", {1}, 0, {}}}};
  for (const auto type : {stored_type::f16, stored_type::bf16}) {
    std::vector<float> values(16, std::bit_cast<float>(0x7f80'0001U)); // its upper half alone would be infinite
    auto tensors = tensors_of(one, values.data());
    tensors[0].type = type;
    ASSERT_TRUE(load_safetensors(saved(tensors), one, values.data()));
    EXPECT_TRUE(std::isnan(values[0]));
  }
}

TEST_F(WeightsNames, TurnedMatricesOfHalvesKeepTheirPlaces) {
  auto tensors = theirs();
  for (auto& each : tensors)
    each.type = stored_type::bf16; // the numbers are small integers
  EXPECT_EQ(loaded(saved(tensors)), flat) << refusal;
}

// -- several files

class WeightsIndex : public WeightsNames {
protected:
  std::string index(const std::string& text) const {
    std::ofstream{in_folder("model.safetensors.index.json")} << text;
    return in_folder("model.safetensors.index.json");
  }
};

TEST_F(WeightsIndex, TensorsAreReadFromTheFilesThatItNames) {
  auto tensors = theirs();
  std::string map;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    map += (i == 0 ? "\"" : ", \"") + tensors[i].name + "\": \"" + (i % 2 == 0 ? "even" : "odd") + ".safetensors\"";
  std::vector<tensor_to_save> even, odd;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    (i % 2 == 0 ? even : odd).push_back(tensors[i]);
  saved(even, "even.safetensors");
  saved(odd, "odd.safetensors");
  EXPECT_EQ(loaded(index(R"({"metadata": {"total_size": 1}, "weight_map": {)" + map + "}}")), flat) << refusal;
}

TEST_F(WeightsIndex, BrokenOnesAreRefusedByName) {
  saved(theirs());
  const auto with = [&](const std::string& text) {
    const auto opened = safetensors_file::open(index(text));
    return opened ? std::string{"opened"} : opened.error().message.substr(folder.string().size() + 1);
  };
  const std::string no_index = "model.safetensors.index.json: is no index of safetensors files";
  EXPECT_THAT(with(""), ::testing::StartsWith(no_index));
  EXPECT_THAT(with("[]"), ::testing::StartsWith(no_index));
  EXPECT_THAT(with(R"({"weight_map": 1})"), ::testing::StartsWith(no_index));
  EXPECT_EQ(with(R"({"weight_map": {"a": "../b.safetensors"}})"),
            "model.safetensors.index.json: tensor \"a\" is in no file of the index's folder");
  EXPECT_EQ(with(R"({"weight_map": {"a": 1}})"),
            "model.safetensors.index.json: tensor \"a\" is in no file of the index's folder");
  EXPECT_EQ(with(R"({"weight_map": {"a": "a.safetensors"}})"),
            "model.safetensors.index.json: tensor \"a\" is not in a.safetensors");
  EXPECT_THAT(with(R"({"weight_map": {"a": "none.safetensors"}})"), ::testing::StartsWith("none.safetensors: cannot open it"));
}

} // namespace
} // namespace troupe
