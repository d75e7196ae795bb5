// SPDX-License-Identifier: BSD-3-Clause
// Reading IDX files, trusting nothing in them.
#include "tensor/data/idx.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/data/byte_source.hpp"

namespace troupe {

namespace {

constexpr int label_classes = 10;
constexpr std::uint32_t unsigned_bytes = 8; ///< the element type

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | std::uint32_t{at[3]};
}

/// Product of the extents, held just above max_data_bytes so that it cannot overflow.
std::uint64_t capped_product(const std::vector<std::uint32_t>& extents) {
  if (std::ranges::find(extents, 0U) != extents.end())
    return 0;
  std::uint64_t product = 1;
  for (auto extent : extents)
    product = std::min(product * extent, max_data_bytes + 1); // (2^32 + 1) (2^32 - 1) still fits
  return product;
}

/// `folder`/`name`, or with .gz behind it where only that is there.
std::filesystem::path likely_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  const auto plain = folder / name, packed = folder / (name + ".gz");
  return !std::filesystem::exists(plain, ignored) && std::filesystem::exists(packed, ignored) ? packed : plain;
}

result<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return error{errc::bad_data,
                 fmt::format("{}: no such folder; data.path names the one that holds the IDX files", folder.string())};
  if (auto path = likely_file(folder, name); std::filesystem::exists(path, ignored))
    return path;
  return error{errc::bad_data, fmt::format("{}: neither {} nor {}.gz is in this folder", folder.string(), name, name)};
}

result<labelled_images> read_half(const std::filesystem::path& folder, const std::string& prefix) {
  auto images_path = find_file(folder, prefix + "-images-idx3-ubyte");
  if (!images_path)
    return images_path.error();
  auto labels_path = find_file(folder, prefix + "-labels-idx1-ubyte");
  if (!labels_path)
    return labels_path.error();
  auto images = read_idx(*images_path, 3);
  if (!images)
    return images.error();
  auto labels = read_idx(*labels_path, 1);
  if (!labels)
    return labels.error();

  auto refuse = [](const std::filesystem::path& path, const std::string& why) {
    return error{errc::bad_data, fmt::format("{}: {}", path.string(), why)};
  };
  const auto& extents = images->extents;
  if (images->bytes.empty())
    return refuse(*images_path, fmt::format("holds no pixels: its extents are {}", fmt::join(extents, " x ")));
  if (labels->extents[0] != extents[0])
    return refuse(*labels_path,
                  fmt::format("{} labels for the {} images of {}", labels->extents[0], extents[0], images_path->string()));
  for (std::size_t i = 0; i < labels->bytes.size(); ++i)
    if (labels->bytes[i] >= label_classes)
      return refuse(*labels_path, fmt::format("label {} of sample {} (byte {}); labels are 0 to 9", labels->bytes[i], i, 8 + i));
  return labelled_images{{1, extents[1], extents[2]}, label_classes, std::move(images->bytes), std::move(labels->bytes)};
}

} // namespace

result<idx_array> read_idx(const std::filesystem::path& path, int rank) {
  auto source = byte_source::open(path);
  if (!source)
    return source.error();
  const auto header_bytes = 4 + 4 * static_cast<std::uint64_t>(rank);
  auto header = source->read(header_bytes);
  if (!header)
    return header.error();
  auto expected = unsigned_bytes << 8 | static_cast<std::uint32_t>(rank);
  if (header->size() >= 4 && big_endian(header->data()) != expected)
    return source->fail(fmt::format("begins with 0x{:08x}, not with 0x{:08x} (IDX, unsigned bytes, {} dimension{})",
                                    big_endian(header->data()), expected, rank, rank == 1 ? "" : "s"));
  if (header->size() < header_bytes)
    return source->fail(fmt::format("truncated: {} bytes, an IDX header of rank {} has {}", header->size(), rank, header_bytes));

  idx_array array;
  for (std::uint64_t at = 4; at < header_bytes; at += 4)
    array.extents.push_back(big_endian(header->data() + at));
  auto claim = capped_product(array.extents);
  auto claimed = fmt::format("the header claims {} = {}{} bytes", fmt::join(array.extents, " x "),
                             claim > max_data_bytes ? "over " : "", std::min(claim, max_data_bytes));
  if (claim > max_data_bytes)
    return source->fail(fmt::format("{}, more than is read of any file", claimed));
  if (claim > source->most_bytes() - std::min(header_bytes, source->most_bytes()))
    return source->fail(fmt::format("{}, the file can hold {} at most", claimed, source->most_bytes() - header_bytes));

  auto bytes = source->read(claim + 1); // one more than claimed, to see whether there is more
  if (!bytes)
    return bytes.error();
  if (bytes->size() < claim)
    return source->fail(fmt::format("truncated: {}, {} follow it", claimed, bytes->size()));
  if (bytes->size() > claim)
    return source->fail(fmt::format("too long: {}, more follow it", claimed));
  array.bytes = std::move(*bytes);
  return array;
}

std::vector<std::filesystem::path> idx_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto* prefix : {"train", "t10k"})
    for (const auto* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      files.push_back(likely_file(folder, std::string{prefix} + kind));
  return files;
}

result<image_halves> read_idx_folder(const std::filesystem::path& folder) {
  auto train = read_half(folder, "train");
  if (!train)
    return train.error();
  auto test = read_half(folder, "t10k");
  if (!test)
    return test.error();
  if (train->sample != test->sample)
    return error{errc::bad_data, fmt::format("{}: training images are {} x {}, test images {} x {}", folder.string(),
                                             train->sample[1], train->sample[2], test->sample[1], test->sample[2])};
  return image_halves{std::move(*train), std::move(*test)};
}

} // namespace troupe
