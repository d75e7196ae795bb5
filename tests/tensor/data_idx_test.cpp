// SPDX-License-Identifier: BSD-3-Clause
// The IDX reader: what it reads, and everything that it refuses.
#include "tensor/data/idx.hpp"

#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;

class Idx : public data_files {
protected:
  /// Two training images of 2 x 2 and one test image.
  void write_folder() const {
    write("train-images-idx3-ubyte", idx_header({2, 2, 2}) + bytes{1, 2, 3, 4, 5, 6, 7, 8});
    write("train-labels-idx1-ubyte", idx_header({2}) + bytes{7, 0});
    write_gz("t10k-images-idx3-ubyte.gz", idx_header({1, 2, 2}) + bytes{9, 10, 11, 255});
    write_gz("t10k-labels-idx1-ubyte.gz", idx_header({1}) + bytes{9});
  }
};

TEST_F(Idx, ExtentsAndBytesAreRead) {
  auto array = read_idx(write("a", idx_header({1, 2, 3}) + bytes{1, 2, 3, 4, 5, 6}), 3);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->extents, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(array->bytes, (bytes{1, 2, 3, 4, 5, 6}));
}

TEST_F(Idx, GzipIsToldFromItsContentNotItsName) {
  auto content = idx_header({3}) + bytes{7, 8, 9};
  EXPECT_EQ(read_idx(write_gz("packed.gz", content), 1)->bytes, (bytes{7, 8, 9}));
  EXPECT_EQ(read_idx(write_gz("packed", content), 1)->bytes, (bytes{7, 8, 9}));
  EXPECT_EQ(read_idx(write("plain.gz", content), 1)->bytes, (bytes{7, 8, 9}));
}

TEST_F(Idx, ExtentOfZeroIsAnEmptyArray) {
  auto array = read_idx(write("a", idx_header({0, 28, 28})), 3);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_TRUE(array->bytes.empty());
}

TEST_F(Idx, MissingFileIsRefused) {
  EXPECT_EQ(message_of(read_idx(folder() / "a", 1)),
            (folder() / "a").string() + ": no such file; data.path, or data.test_path, says where the data is");
}

TEST_F(Idx, FolderIsNotAFile) {
  EXPECT_EQ(message_of(read_idx(folder(), 1)),
            folder().string() + ": not a regular file; data.path names one, or for idx and cifar10 the folder that holds them");
}

TEST_F(Idx, EmptyFileIsTruncated) {
  auto path = write("a", bytes{});
  EXPECT_EQ(message_of(read_idx(path, 1)), path.string() + ": truncated: 0 bytes, an IDX header of rank 1 has 8");
}

TEST_F(Idx, HeaderCutShortIsTruncated) {
  for (std::size_t size = 4; size < 16; ++size) {
    auto header = idx_header({1, 1, 1});
    header.resize(size);
    EXPECT_NE(message_of(read_idx(write("a", header), 3)).find("truncated"), std::string::npos) << size;
  }
}

TEST_F(Idx, OtherMagicIsRefusedWithTheOneExpected) {
  auto labels = write("labels", idx_header({1}) + bytes{1});
  EXPECT_EQ(message_of(read_idx(labels, 3)),
            labels.string() + ": begins with 0x00000801, not with 0x00000803 (IDX, unsigned bytes, 3 dimensions)");
  auto floats = idx_header({1}) + bytes{0, 0, 0, 0};
  floats[2] = 0x0D;
  EXPECT_NE(message_of(read_idx(write("floats", floats), 1)).find("begins with 0x00000d01"), std::string::npos);
}

TEST_F(Idx, OneByteTooFewIsRefused) {
  auto plain = write("a", idx_header({2, 3}) + bytes{1, 2, 3, 4, 5});
  EXPECT_EQ(message_of(read_idx(plain, 2)), plain.string() + ": the header claims 2 x 3 = 6 bytes, the file can hold 5 at most");
  auto packed = write_gz("b", idx_header({2, 3}) + bytes{1, 2, 3, 4, 5});
  EXPECT_EQ(message_of(read_idx(packed, 2)), packed.string() + ": truncated: the header claims 2 x 3 = 6 bytes, 5 follow it");
}

TEST_F(Idx, OneByteTooManyIsRefused) {
  auto content = idx_header({2, 2}) + bytes{1, 2, 3, 4, 5};
  for (const auto& path : {write("a", content), write_gz("b", content)})
    EXPECT_EQ(message_of(read_idx(path, 2)), path.string() + ": too long: the header claims 2 x 2 = 4 bytes, more follow it");
}

TEST_F(Idx, LargestClaimsAreRefusedBeforeAnythingIsAllocated) {
  constexpr std::uint32_t most = 0xFFFFFFFF;
  for (const auto& header : {idx_header({most, most, most}), idx_header({most, 1, 1}), idx_header({65536, 65536, 1})})
    for (const auto& path : {write("a", header + bytes{1}), write_gz("b", header + bytes{1})}) {
      auto reason = message_of(read_idx(path, 3));
      EXPECT_TRUE(reason.find("more than is read of any file") != std::string::npos
                  || reason.find("can hold") != std::string::npos)
          << reason;
    }
}

// Deflate packs 1032 bytes into one at most, so a small file cannot hold what this one claims.
TEST_F(Idx, ClaimBeyondWhatGzipCanPackIsRefused) {
  auto path = write_gz("a", idx_header({60000, 28, 28}) + bytes(1000, 0));
  EXPECT_NE(message_of(read_idx(path, 3)).find("the header claims 60000 x 28 x 28 = 47040000 bytes, the file can hold"),
            std::string::npos);
}

TEST_F(Idx, BombIsReadNoFurtherThanItsClaim) {
  auto path = write_gz("a", idx_header({4}) + bytes(50'000'000, 0));
  EXPECT_NE(message_of(read_idx(path, 1)).find("too long: the header claims 4 = 4 bytes"), std::string::npos);
}

TEST_F(Idx, GzipCutShortIsRefusedWhereverItIsCut) {
  auto path = write_gz(
      "a", idx_header({256}) + [] {
        bytes varied(256);
        for (std::size_t i = 0; i < varied.size(); ++i)
          varied[i] = static_cast<std::uint8_t>(i * 167 ^ i >> 3);
        return varied;
      }());
  ASSERT_TRUE(read_idx(path, 1));
  for (auto size = std::filesystem::file_size(path); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(read_idx(path, 1)) << size << " bytes";
  }
}

TEST_F(Idx, GzipWithADamagedByteIsRefused) {
  auto path = write_gz("a", idx_header({2000}) + bytes(2000, 9));
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(-6, std::ios::end); // in the checksum
  file.put('!');
  file.close();
  EXPECT_NE(message_of(read_idx(path, 1)).find("damaged gzip file"), std::string::npos);
}

TEST_F(Idx, FolderIsReadPlainOrPacked) {
  write_folder();
  auto files = read_idx_folder(folder());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->train.sample, (shape{1, 2, 2}));
  EXPECT_EQ(files->train.pixels, (bytes{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(files->train.labels, (bytes{7, 0}));
  EXPECT_EQ(files->test.pixels, (bytes{9, 10, 11, 255}));
  EXPECT_EQ(files->test.labels, (bytes{9}));
  EXPECT_EQ(files->train.classes, 10);
}

TEST_F(Idx, MissingFolderAndMissingFileAreNamed) {
  EXPECT_NE(message_of(read_idx_folder(folder() / "none")).find("none: no such folder"), std::string::npos);
  write_folder();
  std::filesystem::remove(folder() / "t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(message_of(read_idx_folder(folder())),
            folder().string() + ": neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz is in this folder");
}

TEST_F(Idx, LabelOfTenIsRefusedWithItsPlace) {
  write_folder();
  auto path = write("train-labels-idx1-ubyte", idx_header({2}) + bytes{9, 10});
  EXPECT_EQ(message_of(read_idx_folder(folder())), path.string() + ": label 10 of sample 1 (byte 9); labels are 0 to 9");
}

TEST_F(Idx, LabelsMustBeAsManyAsImages) {
  write_folder();
  auto path = write("train-labels-idx1-ubyte", idx_header({3}) + bytes{1, 2, 3});
  EXPECT_EQ(message_of(read_idx_folder(folder())),
            path.string() + ": 3 labels for the 2 images of " + (folder() / "train-images-idx3-ubyte").string());
}

TEST_F(Idx, NoImagesIsNoDataSet) {
  write_folder();
  write("train-images-idx3-ubyte", idx_header({0, 28, 28}));
  write("train-labels-idx1-ubyte", idx_header({0}));
  EXPECT_NE(message_of(read_idx_folder(folder())).find("holds no pixels: its extents are 0 x 28 x 28"), std::string::npos);
}

TEST_F(Idx, TestImagesOfAnotherSizeAreRefused) {
  write_folder();
  write("t10k-images-idx3-ubyte", idx_header({1, 1, 4}) + bytes{1, 2, 3, 4});
  EXPECT_EQ(message_of(read_idx_folder(folder())), folder().string() + ": training images are 2 x 2, test images 1 x 4");
}

} // namespace
} // namespace troupe
