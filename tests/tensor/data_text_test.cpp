// SPDX-License-Identifier: BSD-3-Clause
// Texts as data: which ids, which windows, and the place of every error.
#include "tensor/data/text.hpp"

#include <unistd.h>

#include "tensor/data/vocabulary.hpp"
#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using texts = std::vector<std::string>;
using ints = std::vector<std::int32_t>;

TEST(Vocabulary, CharactersAreNumberedInTheOrderOfTheirBytes) {
  const auto words = vocabulary::of_characters(texts{"a", "b", "\u00e4", "\u20ac", "\U0001f600"}).value();
  EXPECT_EQ(words.ids("b\u00e4a\u20ac\U0001f600b").value(), (ints{1, 2, 0, 3, 4, 1}));
  EXPECT_EQ(words.characters(), (texts{"a", "b", "\u00e4", "\u20ac", "\U0001f600"}));
  EXPECT_EQ(words.text(3), "\u20ac");
  EXPECT_EQ(message_of(words.ids("ab\u00e5")), "the character \"\u00e5\", U+00E5, is not among the 5 of the vocabulary");
  EXPECT_EQ(message_of(words.ids("a\xff")), "byte 1 is in no character of UTF-8");
}

TEST(Vocabulary, BytesAreTheirOwnIds) {
  const auto words = vocabulary::of_bytes();
  EXPECT_EQ(words.size(), 256);
  EXPECT_EQ(words.ids("a\xff").value(), (ints{97, 255}));
  EXPECT_EQ(words.text(255), "\xff");
}

TEST(Vocabulary, WhatIsNoListOfCharactersIsRefused) {
  EXPECT_EQ(message_of(vocabulary::of_characters(texts{"a", "bc"})), "id 1 of the vocabulary is not one character");
  EXPECT_EQ(message_of(vocabulary::of_characters(texts{"a", ""})), "id 1 of the vocabulary is not one character");
  EXPECT_EQ(message_of(vocabulary::of_characters(texts{"b", "a"})), "id 1 of the vocabulary is not behind the one before it");
  EXPECT_EQ(message_of(vocabulary::of_characters(texts{})), "the vocabulary is empty");
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
  EXPECT_EQ(load("abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc", 2, 1)->test->size(), 2)
      << "each id is predicted once";
  ints x(2), labels(2);
  data->train->gather(std::vector<std::uint32_t>{24}, x.data(), labels.data());
  EXPECT_EQ(x, (ints{0, 1}));
  EXPECT_EQ(labels, (ints{1, 2}));
}

/// All ids of a half whose windows lie one behind the other, and the id after the last.
ints all_of(const data_set& half) {
  const auto context = half.sample()[0];
  ints x(static_cast<std::size_t>(context)), labels(x), all;
  for (std::uint32_t row = 0; row < half.size(); ++row) {
    half.gather({&row, 1}, x.data(), labels.data());
    all.insert(all.end(), x.begin(), x.end());
  }
  all.push_back(labels.back());
  return all;
}

TEST_F(Text, IdsAreFoundAmongCharactersOfSeveralBytes) {
  const texts kinds{"a", "\u00e4", "\u20ac", "\U0001f600", "b"};
  const ints ids{0, 2, 3, 4, 1};
  std::string text;
  ints expected;
  for (std::size_t i = 0; i < 3000; ++i) {
    const auto kind = (i * i % 7 + i / 3) % 5;
    text += kinds[kind];
    expected.push_back(ids[kind]);
  }
  const auto data = load(text, 1).value();
  const auto train = all_of(*data.train), test = all_of(*data.test);
  EXPECT_EQ(train, ints(expected.begin(), expected.begin() + 2700));
  EXPECT_EQ(test, ints(expected.begin() + 2700, expected.end()));
  EXPECT_EQ(data.words->characters(), (texts{"a", "b", "\u00e4", "\u20ac", "\U0001f600"}));
  const auto windows = load(text, 280, 17).value(); // from one kept place over the next
  ints x(280), labels(280);
  for (const std::uint32_t row : {0U, 40U, static_cast<std::uint32_t>(windows.train->size() - 1)}) {
    windows.train->gather({&row, 1}, x.data(), labels.data());
    const auto first = expected.begin() + row * 17;
    EXPECT_EQ(x, ints(first, first + 280)) << row;
    EXPECT_EQ(labels, ints(first + 1, first + 281)) << row;
  }
}

TEST_F(Text, CharactersAreReadOverTheBordersOfPieces) {
  std::string text = "a"; // of a mebibyte each: one lies within a character
  for (int i = 0; i < 600'000; ++i)
    text += "\u00e4";
  const auto data = load(text, 100);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train->size(), (540'001 - 1 - 100) / 100 + 1);
  EXPECT_EQ(data->words->size(), 2);
}

TEST_F(Text, WhatIsNoCharacterIsRefusedWithItsPlace) {
  // a lone continuation, an overlong slash, a surrogate, beyond Unicode, an end inside
  for (const char* text : {"ab\x80", "ab\xc0\xaf", "ab\xe0\x80\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe2\x82"})
    EXPECT_EQ(refusal(load(text, 2)),
              "a.txt: byte 2 is in no character of UTF-8; write data.vocabulary = \"bytes\", or convert the text")
        << text;
}

TEST_F(Text, PackedTextsAreUnpacked) {
  const bytes plain(400, 'a');
  const auto path = write_gz("a.gz", plain + bytes(100, 'b'));
  const auto data = load_data({.source = "text", .path = path, .context = 4}, 1);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train->size(), (450 - 1 - 4) / 4 + 1);
  EXPECT_EQ(all_of(*data->test), ints(49, 1));
}

TEST_F(Text, ATextMayBeLargerThanMemory) {
  constexpr std::int64_t size = std::int64_t{1} << 40;
  const auto path = write("a.txt", std::string("abc"));
  if (::truncate(path.c_str(), size) != 0)
    GTEST_SKIP() << "this file system has no files of a tebibyte";
  const auto data =
      load_data({.source = "text", .path = path, .vocabulary = "bytes", .context = 4, .stride = std::int64_t{1} << 20}, 1);
  ASSERT_TRUE(data) << data.error().message;
  ints x(4), labels(4);
  data->train->gather(std::vector<std::uint32_t>{0}, x.data(), labels.data());
  EXPECT_EQ(x, (ints{'a', 'b', 'c', 0}));
  data->test->gather(std::vector<std::uint32_t>{static_cast<std::uint32_t>(data->test->size() - 1)}, x.data(), labels.data());
  EXPECT_EQ(x, (ints(4, 0)));
  EXPECT_EQ(
      refusal(load_data({.source = "text", .path = path, .vocabulary = "bytes", .context = 4, .stride = 1}, 1)),
      "a.txt: its last tenth, the test half, has 27487790694 samples, and an epoch numbers 4294967295 at most; give a larger "
      "data.stride");
}

TEST_F(Text, AFileThatChangesIsAnError) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "ab\u00e4";
  ints x(4), labels(4);
  const std::uint32_t last = 60;
  const auto gathered = [&](const data_pair& data) -> std::string {
    try {
      data.train->gather({&last, 1}, x.data(), labels.data());
      return "";
    } catch (const std::runtime_error& e) {
      return std::string(e.what()).substr(folder().string().size() + 1);
    }
  };
  for (const char* vocabulary : {"characters", "bytes"}) {
    const data_spec spec{.source = "text", .path = write("a.txt", text), .vocabulary = vocabulary, .context = 4};
    const auto data = load_data(spec, 1).value();
    EXPECT_EQ(gathered(data), "");
    ASSERT_EQ(::truncate(spec.path.c_str(), 100), 0);
    EXPECT_NE(gathered(data).find(" any more, and had 400 when it was opened"), std::string::npos) << vocabulary;
  }
  const auto data = load(text, 4).value();
  write("a.txt", std::string(400, 'c'));
  EXPECT_EQ(gathered(data).substr(0, 31), "a.txt: byte 0 has changed since");
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
