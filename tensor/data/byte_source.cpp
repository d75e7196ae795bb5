// SPDX-License-Identifier: BSD-3-Clause
// byte_source over zlib's gzFile, which reads plain files as they are.
#include "tensor/data/byte_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

namespace troupe {

namespace {

constexpr std::uint64_t deflate_limit = 1032;
constexpr std::uint64_t chunk_bytes = 1 << 20;
constexpr std::uint64_t trusted_bytes = 1 << 28; ///< reserved at once on a file's word; beyond it, memory doubles

} // namespace

void byte_source::closer::operator()(gzFile_s* file) const {
  gzclose_r(file);
}

result<byte_source> byte_source::open(const std::filesystem::path& path) {
  auto refuse = [&](std::string_view why) { return error{errc::bad_data, fmt::format("{}: {}", path.string(), why)}; };
  std::error_code failure;
  auto status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found)
    return refuse("no such file; data.path, or data.test_path, says where the data is");
  if (failure)
    return refuse(failure.message());
  if (status.type() != std::filesystem::file_type::regular)
    return refuse("not a regular file; data.path names one, or for idx and cifar10 the folder that holds them");
  auto size = std::filesystem::file_size(path, failure);
  if (failure)
    return refuse(failure.message());
  errno = 0;
  auto* file = gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return refuse(errno != 0 ? std::strerror(errno) : "out of memory");
  gzbuffer(file, 1 << 18);
  return byte_source{path, file, gzdirect(file) != 0 ? size : size * deflate_limit};
}

result<std::vector<std::uint8_t>> byte_source::read(std::uint64_t count) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(std::min({count, most_bytes_, trusted_bytes}));
  while (bytes.size() < count) {
    auto before = bytes.size();
    auto wanted = std::min(count - before, chunk_bytes);
    bytes.resize(before + wanted);
    auto got = gzread(file_.get(), bytes.data() + before, static_cast<unsigned>(wanted));
    int code = Z_OK;
    const char* reason = gzerror(file_.get(), &code);
    if (code == Z_ERRNO)
      return fail(std::strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END) // a damaged or truncated stream; zlib's text repeats the file's name
      return fail(fmt::format("damaged gzip file: {}", code == Z_BUF_ERROR ? "it ends too early" : reason));
    bytes.resize(before + static_cast<std::uint64_t>(std::max(got, 0)));
    if (static_cast<std::uint64_t>(std::max(got, 0)) < wanted)
      break;
  }
  return bytes;
}

result<std::vector<std::uint8_t>> read_whole_file(const std::filesystem::path& path) {
  auto source = byte_source::open(path);
  if (!source)
    return source.error();
  auto bytes = source->read(max_data_bytes + 1);
  if (bytes && bytes->size() > max_data_bytes)
    return source->fail(fmt::format("more than {} bytes, the most that is read", max_data_bytes));
  return bytes;
}

} // namespace troupe
