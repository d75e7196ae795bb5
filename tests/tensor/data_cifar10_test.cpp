// SPDX-License-Identifier: BSD-3-Clause
// The reader of CIFAR-10's binary version.
#include "tensor/data/cifar10.hpp"

#include <fmt/format.h>

#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;

class Cifar10 : public data_files {
protected:
  /// A record whose red, green and blue planes hold `label`, `label` + 1 and `label` + 2.
  static bytes record(std::uint8_t label) {
    auto plane = [](int value) { return bytes(1024, static_cast<std::uint8_t>(value)); };
    return bytes{label} + plane(label) + plane(label + 1) + plane(label + 2);
  }
  void write_folder() const {
    for (std::uint8_t i = 1; i <= 5; ++i)
      write(fmt::format("data_batch_{}.bin", i), record(i));
    write("test_batch.bin", record(0) + record(9));
  }
};

TEST_F(Cifar10, BatchesAreReadInOrder) {
  write_folder();
  auto files = read_cifar10_folder(folder());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->train.sample, (shape{3, 32, 32}));
  EXPECT_EQ(files->train.labels, (bytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(files->test.labels, (bytes{0, 9}));
  EXPECT_EQ(files->train.pixels.size(), 5U * 3072);
  EXPECT_EQ(files->train.pixels[3072 * 4 + 1023], 5); // last red pixel of batch 5
  EXPECT_EQ(files->train.pixels[3072 * 4 + 1024], 6); // first green one
}

TEST_F(Cifar10, MissingBatchIsNamed) {
  write_folder();
  std::filesystem::remove(folder() / "data_batch_4.bin");
  EXPECT_EQ(message_of(read_cifar10_folder(folder())),
            (folder() / "data_batch_4.bin").string() + ": no such file; data.path, or data.test_path, says where the data is");
}

TEST_F(Cifar10, RecordCutShortIsRefused) {
  write_folder();
  auto cut = record(3);
  cut.pop_back();
  auto path = write("data_batch_3.bin", cut);
  EXPECT_EQ(message_of(read_cifar10_folder(folder())),
            path.string() + ": 3072 bytes; a CIFAR-10 file holds whole records of 3073 (a label and 3 x 32 x 32 pixels)");
}

TEST_F(Cifar10, EmptyFileIsRefused) {
  write_folder();
  write("test_batch.bin", bytes{});
  EXPECT_NE(message_of(read_cifar10_folder(folder())).find("test_batch.bin: 0 bytes"), std::string::npos);
}

TEST_F(Cifar10, LabelOfTenIsRefusedWithItsPlace) {
  write_folder();
  auto path = write("data_batch_2.bin", record(1) + record(10));
  EXPECT_EQ(message_of(read_cifar10_folder(folder())), path.string() + ": label 10 of record 1 (byte 3073); labels are 0 to 9");
}

} // namespace
} // namespace troupe
