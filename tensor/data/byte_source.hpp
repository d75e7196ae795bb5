// SPDX-License-Identifier: BSD-3-Clause
// Files as streams of bytes, plain or compressed by gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "tensor/error.hpp"

struct gzFile_s;

namespace troupe {

/// No data file of more bytes than this (once decompressed) is read.
inline constexpr std::uint64_t max_data_bytes = std::uint64_t{1} << 32;

/// A file that is read from front to back. Whether it is compressed is seen from its first bytes, not from its name.
/// Every error names the file.
class byte_source {
public:
  static result<byte_source> open(const std::filesystem::path& path);

  /// The next `count` bytes, or as many as there are. Memory grows with what arrives, not with what is asked for.
  result<std::vector<std::uint8_t>> read(std::uint64_t count);

  /// How many bytes the file can hold at most, known before they are read: its size, or for a compressed one the size
  /// times 1032, more than which deflate cannot do (zlib, "Maximum compression factor").
  std::uint64_t most_bytes() const { return most_bytes_; }

  const std::filesystem::path& path() const { return path_; }

  /// An error that begins with the file's name.
  error fail(const std::string& message) const { return {errc::bad_data, path_.string() + ": " + message}; }

private:
  struct closer {
    void operator()(gzFile_s* file) const;
  };
  byte_source(std::filesystem::path path, gzFile_s* file, std::uint64_t most_bytes)
      : path_(std::move(path)), file_(file), most_bytes_(most_bytes) {}

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, closer> file_;
  std::uint64_t most_bytes_ = 0;
};

/// All bytes of a file, at most max_data_bytes.
result<std::vector<std::uint8_t>> read_whole_file(const std::filesystem::path& path);

} // namespace troupe
