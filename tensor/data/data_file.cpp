// SPDX-License-Identifier: BSD-3-Clause
// Reading in place.
#include "tensor/data/data_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tensor/data/byte_source.hpp"

namespace troupe {

data_file::~data_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

result<std::shared_ptr<data_file>> data_file::open_plain(const std::filesystem::path& path) {
  // It says what is no file that can be read.
  if (auto there = byte_source::open(path); !there)
    return there.error();
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto size = descriptor < 0 ? off_t{-1} : ::lseek(descriptor, 0, SEEK_END);
  std::shared_ptr<data_file> file(new data_file(path, descriptor, static_cast<std::uint64_t>(std::max<off_t>(size, 0))));
  if (size < 0)
    return file->fail(std::strerror(errno));
  return file;
}

result<std::shared_ptr<const data_file>> data_file::open(const std::filesystem::path& path) {
  auto plain = open_plain(path);
  if (!plain)
    return plain.error();
  return std::shared_ptr<const data_file>(std::move(*plain));
}

result<std::shared_ptr<const data_file>> data_file::open_unpacked(const std::filesystem::path& path) {
  const auto plain = open_plain(path);
  if (!plain)
    return plain.error();
  const auto& file = *plain;
  std::array<std::byte, 2> first{};
  constexpr std::array gzip{std::byte{0x1F}, std::byte{0x8B}};
  if (file->bytes() < first.size() || !file->read(0, first) || first != gzip)
    return file;
  auto unpacked = read_whole_file(path);
  if (!unpacked)
    return unpacked.error();
  file->unpacked_ = std::move(*unpacked);
  file->bytes_ = file->unpacked_.size();
  return file;
}

result<void> data_file::read(std::uint64_t begin, std::span<std::byte> into) const {
  if (!unpacked_.empty() && begin + into.size() <= unpacked_.size()) {
    std::memcpy(into.data(), unpacked_.data() + begin, into.size());
    return {};
  }
  while (!into.empty()) {
    const auto got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return fail(fmt::format("cannot read byte {}: {}", begin, std::strerror(errno)));
    if (got == 0)
      return fail(fmt::format("has no byte {} any more, and had {} when it was opened; a file must not change while it is used",
                              begin, bytes_));
    begin += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

} // namespace troupe
