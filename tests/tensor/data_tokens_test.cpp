// SPDX-License-Identifier: BSD-3-Clause
// Token files: ids, headers, and the place of every error.
#include "tensor/data/tokens.hpp"

#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using ints = std::vector<std::int32_t>;

template <class Id>
bytes packed(const std::vector<Id>& ids) {
  bytes out(ids.size() * sizeof(Id));
  std::memcpy(out.data(), ids.data(), out.size());
  return out;
}

bytes header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> words(256, 0);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return packed(words);
}

template <class Id>
std::vector<Id> counting(std::size_t count) {
  std::vector<Id> ids(count);
  for (std::size_t i = 0; i < count; ++i)
    ids[i] = static_cast<Id>(i);
  return ids;
}

class Tokens : public data_files {
protected:
  result<data_pair> load(const bytes& content, data_spec spec = {}) const {
    spec.source = "tokens";
    spec.path = write("a.bin", content);
    spec.context = spec.context == 64 ? 2 : spec.context;
    spec.vocabulary_size = spec.vocabulary_size == 0 ? 100 : spec.vocabulary_size;
    return load_data(spec, 1);
  }
  std::string refusal(const result<data_pair>& read) const { return message_of(read).substr(folder().string().size() + 1); }

  static ints first_window(const data_set& half) {
    ints x(2), labels(2);
    half.gather(std::vector<std::uint32_t>{0}, x.data(), labels.data());
    x.push_back(labels[1]);
    return x;
  }
};

TEST_F(Tokens, AreWindowsOfIds) {
  const auto data = load(packed(counting<std::uint16_t>(60)));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train->format(), (data_format{.sample = {2}, .classes = 100, .type = dtype::i32, .ids = 100, .labels = {2}}));
  EXPECT_EQ(data->train->size(), (54 - 1 - 2) / 2 + 1);
  EXPECT_EQ(first_window(*data->train), (ints{0, 1, 2}));
  EXPECT_EQ(first_window(*data->test), (ints{54, 55, 56}));
  EXPECT_EQ(data->words, nullptr);
}

TEST_F(Tokens, MayHaveFourBytesAndALlmcHeaderAndATestFile) {
  const auto wide = load(packed(counting<std::uint32_t>(60)), {.token_type = "uint32"}).value();
  EXPECT_EQ(first_window(*wide.test), (ints{54, 55, 56}));
  const auto headed = load(header(20240520, 1, 60) + packed(counting<std::uint16_t>(60))).value();
  EXPECT_EQ(first_window(*headed.test), (ints{54, 55, 56}));
  data_spec spec;
  spec.test_path = write("b.bin", packed(std::vector<std::uint16_t>{7, 8, 9}));
  const auto apart = load(packed(counting<std::uint16_t>(60)), spec).value();
  EXPECT_EQ(apart.train->size(), (60 - 1 - 2) / 2 + 1);
  EXPECT_EQ(first_window(*apart.test), (ints{7, 8, 9}));
  EXPECT_EQ(apart.test->size(), 1);
}

TEST_F(Tokens, AnIdBeyondTheVocabularyIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(load(packed(std::vector<std::uint16_t>{1, 2, 100, 3}))),
            "a.bin: the id at byte 4 is 100, and data.vocabulary_size = 100; is data.token_type right?");
  EXPECT_EQ(refusal(load(header(20240520, 1, 2) + packed(std::vector<std::uint16_t>{1, 200}))),
            "a.bin: the id at byte 1026 is 200, and data.vocabulary_size = 100; is data.token_type right?");
  EXPECT_EQ(refusal(load(packed(std::vector<std::uint32_t>{1, 0xFFFFFFFF}), {.token_type = "uint32"})),
            "a.bin: the id at byte 4 is 4294967295, and data.vocabulary_size = 100; is data.token_type right?");
}

TEST_F(Tokens, MayBeginAsAPackedFileDoes) {
  auto ids = counting<std::uint16_t>(60);
  ids[0] = 0x8B1F;
  EXPECT_EQ(first_window(*load(packed(ids), {.vocabulary_size = 50000}).value().train), (ints{0x8B1F, 1, 2}));
}

TEST_F(Tokens, TruncatedFilesAreRefused) {
  auto odd = packed(counting<std::uint16_t>(60));
  odd.pop_back();
  EXPECT_EQ(refusal(load(odd)), "a.bin: has 119 bytes, and an id has 2; is it truncated, or data.token_type another?");
  EXPECT_EQ(
      refusal(load(header(20240520, 1, 61) + packed(counting<std::uint16_t>(60)))),
      "a.bin: its header says 61 ids, for which a file has 1146 bytes, and it has 1144; is it truncated, or data.token_type "
      "another?");
  EXPECT_EQ(refusal(load(header(20240520, 2, 60) + packed(counting<std::uint16_t>(60)))),
            "a.bin: its header is of version 2; 1 is known");
  EXPECT_EQ(refusal(load({})).substr(0, 18), "a.bin: its last te");
}

TEST_F(Tokens, ContextsLongerThanAFileAreRefused) {
  data_spec spec;
  spec.test_path = write("b.bin", packed(std::vector<std::uint16_t>{7, 8}));
  EXPECT_EQ(refusal(load(packed(counting<std::uint16_t>(60)), spec)),
            "b.bin: it has 2 ids, and a sample of data.context = 2 needs 3; take a longer text, or a shorter context");
  EXPECT_EQ(refusal(load(packed(counting<std::uint16_t>(60)), {.context = 6})),
            "a.bin: its last tenth, the test half, has 6 ids, and a sample of data.context = 6 needs 7; take a longer text, or a "
            "shorter context");
}

TEST_F(Tokens, AFileThatBecomesShorterIsAnError) {
  const auto data = load(packed(counting<std::uint16_t>(60))).value();
  ASSERT_EQ(::truncate((folder() / "a.bin").c_str(), 40), 0);
  ints x(2), labels(2);
  EXPECT_THROW(data.test->gather(std::vector<std::uint32_t>{0}, x.data(), labels.data()), std::runtime_error);
}

TEST_F(Tokens, WrongKeysAreRefused) {
  data_spec spec{.source = "tokens", .path = write("a.bin", packed(counting<std::uint16_t>(60)))};
  EXPECT_EQ(message_of(load_data(spec, 1)), "data.vocabulary_size = 0; it is 2 to 16777216: how many ids there are");
  spec.vocabulary_size = 100;
  spec.token_type = "int8";
  EXPECT_EQ(message_of(load_data(spec, 1)), "data.token_type = \"int8\"; it is \"uint16\" or \"uint32\"");
}

} // namespace
} // namespace troupe
