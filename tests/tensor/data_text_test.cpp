// SPDX-License-Identifier: BSD-3-Clause
// Texts as data: which ids, which windows, and the place of every error.
#include "tensor/data/text.hpp"

#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using texts = std::vector<std::string>;
using ids = std::vector<std::uint16_t>;
using ints = std::vector<std::int32_t>;

TEST(EncodedText, CharactersAreNumberedInTheOrderOfTheirBytes) {
  const auto read = encode_text("b\u00e4a\u20acb", "characters"); // of one, two and three bytes
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->vocabulary, (texts{"a", "b", "\u00e4", "\u20ac"}));
  EXPECT_EQ(read->ids, (ids{1, 2, 0, 3, 1}));
}

TEST(EncodedText, BytesAreTheirOwnIds) {
  const auto read = encode_text("a\xff", "bytes");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->vocabulary.size(), 256U);
  EXPECT_EQ(read->ids, (ids{97, 255}));
}

TEST(EncodedText, WhatIsNoCharacterIsRefusedWithItsPlace) {
  // a lone continuation, an overlong slash, a surrogate, beyond Unicode, an end inside
  for (const char* text : {"ab\x80", "ab\xc0\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe2\x82"}) {
    const auto read = encode_text(text, "characters");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, "byte 2 is in no character of UTF-8; write data.vocabulary = \"bytes\", or convert the text");
  }
}

class Text : public data_files {
protected:
  result<data_pair> load(const std::string& text, std::int64_t context, std::int64_t stride = 0) const {
    return load_data({.source = "text", .path = write("a.txt", text), .context = context, .stride = stride}, 1);
  }
  std::string refusal(const result<data_pair>& read) const {
    EXPECT_FALSE(read);
    return read ? "" : read.error().message.substr(folder().string().size() + 1);
  }
};

TEST_F(Text, LabelsAreTheIdsThatFollow) {
  const auto data = load("abcabcabcabcabcabcabcabcabcabc", 2); // 27 train, 3 test
  ASSERT_TRUE(data) << data.error().message;
  const auto& format = data->train->format();
  EXPECT_EQ(format, (data_format{.sample = {2}, .classes = 3, .type = dtype::i32, .ids = 3, .labels = {2}}));
  ints x(4), labels(4);
  const std::vector<std::uint32_t> rows{1, 12};
  data->train->gather(rows, x.data(), labels.data());
  EXPECT_EQ(x, (ints{2, 0, 0, 1}));
  EXPECT_EQ(labels, (ints{0, 1, 1, 2}));
  EXPECT_EQ(data->train->size(), 13); // floor((27 - 1 - 2) / 2) + 1
  EXPECT_EQ(data->test->size(), 1);
}

TEST_F(Text, WindowsMayOverlap) {
  const auto data = load("abcabcabcabcabcabcabcabcabcabc", 2, 1);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->train->size(), 25);
  ints x(2), labels(2);
  data->train->gather(std::vector<std::uint32_t>{24}, x.data(), labels.data());
  EXPECT_EQ(x, (ints{0, 1}));
  EXPECT_EQ(labels, (ints{1, 2}));
}

TEST_F(Text, ContextsLongerThanTheTextAreRefused) {
  EXPECT_EQ(refusal(load("abcabcabcabcabcabcabc", 2)), // a tenth of 21 is 2
            "a.txt: its last tenth, the test half, has 2 ids, and a sample of data.context = 2 needs 3; take a longer text, or a "
            "shorter context");
  EXPECT_EQ(refusal(load("", 2)).substr(0, 18), "a.txt: its last te");
  EXPECT_EQ(refusal(load(std::string(100, 'a'), 2)), "a.txt: it has one character alone, and nothing is to be predicted");
  EXPECT_EQ(refusal(load("ab\x80", 2)).substr(0, 16), "a.txt: byte 2 is");
}

} // namespace
} // namespace troupe
