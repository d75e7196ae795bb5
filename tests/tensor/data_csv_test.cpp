// SPDX-License-Identifier: BSD-3-Clause
// The CSV reader: where the label stands, what a header is, and the place of every error.
#include "tensor/data/csv.hpp"

#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using ints = std::vector<std::int32_t>;
using floats = std::vector<float>;

class Csv : public data_files {
protected:
  result<labelled_rows> read(const std::string& text) const { return read_csv(write("a.csv", text)); }
  /// The error of reading `text`, without the folder's name.
  std::string refusal(const std::string& text) const {
    auto reason = message_of(read(text));
    auto prefix = folder().string() + "/";
    EXPECT_TRUE(reason.starts_with(prefix)) << reason;
    return reason.substr(prefix.size());
  }
};

TEST_F(Csv, LastColumnIsTheLabel) {
  auto rows = read("1,2.5,0\n-3e2,+4,2\n");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->columns, 2);
  EXPECT_EQ(rows->classes, 3);
  EXPECT_EQ(rows->values, (floats{1, 2.5F, -300, 4}));
  EXPECT_EQ(rows->labels, (ints{0, 2}));
}

TEST_F(Csv, ColumnNamedLabelIsTheLabel) {
  auto rows = read("label,1,2\n1,10,20\n0,30,40\n");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->values, (floats{10, 20, 30, 40}));
  EXPECT_EQ(rows->labels, (ints{1, 0}));
}

TEST_F(Csv, LineWithoutANumberIsAHeader) {
  auto rows = read("width,height,kind\n1,2,1\n");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->labels, (ints{1}));
}

// A typing error in the first row must not pass for a header and lose the row.
TEST_F(Csv, LineWithOneNumberIsNoHeader) {
  EXPECT_EQ(refusal("1,2x,1\n1,2,1\n"), "a.csv:1:3: '2x' is not a number (finite, 32 bits)");
}

TEST_F(Csv, QuotesBlanksReturnsByteOrderMarkAndEmptyLinesAreAccepted) {
  auto rows = read("\xEF\xBB\xBF\"wide, and high\",\"label\"\r\n\r\n 1.5 ,\t\"3\"\r\n\n\"2\", 0");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->values, (floats{1.5F, 2}));
  EXPECT_EQ(rows->labels, (ints{3, 0}));
}

TEST_F(Csv, RaggedRowIsRefused) {
  EXPECT_EQ(refusal("1,2,0\n1,0\n"), "a.csv:2:1: 2 fields; the lines before have 3");
  EXPECT_EQ(refusal("1,2,0\n1,2,3,0\n"), "a.csv:2:1: 4 fields; the lines before have 3");
  EXPECT_EQ(refusal("1,2,0\n1,2,0,\n"), "a.csv:2:1: 4 fields; the lines before have 3");
}

TEST_F(Csv, WhatIsNoFiniteNumberIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("a,b\n1,0\nabc,0\n"), "a.csv:3:1: 'abc' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,,0\n"), "a.csv:2:3: '' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1, nan,0\n"), "a.csv:2:4: 'nan' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,-inf,0\n"), "a.csv:2:3: '-inf' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,1e39,0\n"), "a.csv:2:3: '1e39' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,1e999,0\n"), "a.csv:2:3: '1e999' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,2 3,0\n"), "a.csv:2:3: '2 3' is not a number (finite, 32 bits)");
  EXPECT_EQ(refusal("1,2,0\n1,\"2,0\n"), "a.csv:2:1: 2 fields; the lines before have 3"); // the quote never ends
  EXPECT_EQ(refusal("1,0\n" + std::string(99, 'x') + ",0\n"),
            "a.csv:2:1: '" + std::string(40, 'x') + "...' is not a number (finite, 32 bits)");
}

TEST_F(Csv, LabelsAreIntegersFromZero) {
  for (const std::string label : {"-1", "1.0", "10000", "99999999999", "x", ""})
    EXPECT_EQ(refusal("1,0\n1," + label + "\n"), "a.csv:2:3: '" + label + "' is not a label; labels are integers from 0 to 9999");
  EXPECT_EQ(read("1,9999\n")->classes, 10000);
}

TEST_F(Csv, FileWithoutRowsIsRefused) {
  EXPECT_EQ(refusal(""), "a.csv:1:1: no rows");
  EXPECT_EQ(refusal("\n\n"), "a.csv:2:1: no rows");
  EXPECT_EQ(refusal("a,b,label\n"), "a.csv:1:1: no rows");
}

TEST_F(Csv, OneColumnIsRefused) {
  EXPECT_EQ(refusal("1\n2\n"), "a.csv:1:1: one column; a label and at least one number are needed");
}

TEST_F(Csv, EveryByteIsHandled) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto text = "1,0\n" + std::string(3, static_cast<char>(byte)) + ",0\n";
    if (byte >= '0' && byte <= '9')
      EXPECT_TRUE(read(text)) << byte;
    else
      EXPECT_TRUE(refusal(text).starts_with("a.csv:")) << byte;
  }
}

TEST_F(Csv, LastTenthIsTheTest) {
  std::string text;
  for (int i = 0; i < 29; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 3) + "\n";
  auto files = read_csv_files(write("a.csv", text), {});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->train.labels.size(), 27U);
  EXPECT_EQ(files->test.values, (floats{27, 28}));
  EXPECT_EQ(files->test.labels, (ints{0, 1}));
  EXPECT_EQ(files->test.classes, 3);
}

TEST_F(Csv, OneRowIsTooFewForATest) {
  EXPECT_EQ(read_csv_files(write("a.csv", "1,0\n2,0\n"), {})->test.values, (floats{2}));
  EXPECT_NE(message_of(read_csv_files(write("a.csv", "1,0\n"), {})).find("one row cannot be both"), std::string::npos);
}

TEST_F(Csv, TestFileMustFitTheTrainingFile) {
  auto train = write("train.csv", "1,2,0\n3,4,1\n");
  auto ok = read_csv_files(train, write("test.csv", "5,6,0\n"));
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(ok->test.classes, 2);
  EXPECT_EQ(message_of(read_csv_files(train, write("test.csv", "5,0\n"))),
            (folder() / "test.csv").string() + ": 1 columns beside the label, " + train.string() + " has 2");
  EXPECT_EQ(message_of(read_csv_files(train, write("test.csv", "5,6,2\n"))),
            (folder() / "test.csv").string() + ": labels up to 2, those of " + train.string() + " go up to 1");
}

} // namespace
} // namespace troupe
