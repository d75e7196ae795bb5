// SPDX-License-Identifier: BSD-3-Clause
// Files of which any part is read when it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "tensor/error.hpp"

namespace troupe {

/// A file that stays open and is read in place, so that it may be larger than memory: what is read often, the system keeps.
/// It is not mapped: where a mapped file becomes shorter its reader dies, and here `read` says so. Immutable; any thread.
class data_file {
public:
  static result<std::shared_ptr<const data_file>> open(const std::filesystem::path& path);
  /// One that gzip packed is unpacked into memory, max_data_bytes at most.
  static result<std::shared_ptr<const data_file>> open_unpacked(const std::filesystem::path& path);
  ~data_file();
  data_file(const data_file&) = delete;
  data_file& operator=(const data_file&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Copies bytes [begin, begin + into.size()). An error where the file has become shorter, or the disk fails.
  result<void> read(std::uint64_t begin, std::span<std::byte> into) const;

  /// An error that begins with the file's name.
  error fail(const std::string& message) const { return {errc::bad_data, path_.string() + ": " + message}; }

private:
  static result<std::shared_ptr<data_file>> open_plain(const std::filesystem::path& path);
  data_file(std::filesystem::path path, int descriptor, std::uint64_t bytes)
      : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint8_t> unpacked_;
};

} // namespace troupe
