// SPDX-License-Identifier: BSD-3-Clause
// Reading CIFAR-10's binary records.
#include "tensor/data/cifar10.hpp"

#include <fmt/format.h>

#include "tensor/data/byte_source.hpp"

namespace troupe {

namespace {

constexpr std::int64_t channels = 3, side = 32, classes = 10;
constexpr std::size_t pixel_bytes = channels * side * side;
constexpr std::size_t record_bytes = 1 + pixel_bytes;

/// Appends a file's records to `images`.
result<void> append(const std::filesystem::path& path, labelled_images& images) {
  auto bytes = read_whole_file(path);
  if (!bytes)
    return bytes.error();
  auto refuse = [&](const std::string& why) { return error{errc::bad_data, fmt::format("{}: {}", path.string(), why)}; };
  if (bytes->empty() || bytes->size() % record_bytes != 0)
    return refuse(fmt::format("{} bytes; a CIFAR-10 file holds whole records of {} (a label and 3 x 32 x 32 pixels)",
                              bytes->size(), record_bytes));
  for (std::size_t at = 0; at < bytes->size(); at += record_bytes) {
    const auto* record = bytes->data() + at;
    if (record[0] >= classes)
      return refuse(fmt::format("label {} of record {} (byte {}); labels are 0 to 9", record[0], at / record_bytes, at));
    images.labels.push_back(record[0]);
    images.pixels.insert(images.pixels.end(), record + 1, record + record_bytes);
  }
  return {};
}

} // namespace

std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= 5; ++i)
    files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  files.push_back(folder / "test_batch.bin");
  return files;
}

result<image_halves> read_cifar10_folder(const std::filesystem::path& folder) {
  const labelled_images none{{channels, side, side}, classes, {}, {}};
  image_halves halves{none, none};
  const auto files = cifar10_files(folder);
  for (const auto& file : files)
    if (auto done = append(file, &file == &files.back() ? halves.test : halves.train); !done)
      return done.error();
  return halves;
}

} // namespace troupe
