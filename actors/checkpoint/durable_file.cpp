// SPDX-License-Identifier: BSD-3-Clause
// Writing with fsync: of the file, and of the folder that lists it.
#include "actors/checkpoint/durable_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

constexpr std::size_t write_bytes = 8U << 20U;

/// Some file systems have no such call; fsync does all of it then.
bool not_offered(int code) {
  return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP || code == ESPIPE;
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

} // namespace

void throw_io(const std::string& path, const std::string& action, int code) {
  throw std::runtime_error(fmt::format("{}: cannot {}: {}", path, action, std::strerror(code)));
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    throw_io(folder, "open the folder", errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0 && !not_offered(code))
    throw_io(folder, "write the folder to the disk", code);
}

void make_folder(const std::string& folder) {
  const auto make = [&folder] { return ::mkdir(folder.c_str(), 0777) == 0 ? 0 : errno; };
  int code = make();
  if (code == ENOENT && folder_of(folder) != folder) {
    make_folder(folder_of(folder));
    code = make(); // once: /proc, for one, is there and takes no folder, with the same code
  }
  if (code == 0)
    return sync_folder(folder_of(folder));
  struct stat about {};
  if (code != EEXIST || ::stat(folder.c_str(), &about) != 0 || !S_ISDIR(about.st_mode))
    throw_io(folder, "make the folder", code);
}

durable_file::durable_file(std::string path) : path_(std::move(path)) {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT)
    throw_io(path_, "remove the file of that name", errno);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw_io(path_, "create it", errno);
}

durable_file::~durable_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
  if (!path_.empty())
    ::unlink(path_.c_str());
}

void durable_file::write(std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::span piece = bytes.first(std::min(bytes.size(), write_bytes));
    for (std::size_t done = 0; done < piece.size();) {
      const ssize_t count = ::pwrite(descriptor_, piece.data() + done, piece.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR)
        continue;
      if (count <= 0)
        throw_io(path_, "write it", count < 0 ? errno : ENOSPC);
      done += static_cast<std::size_t>(count);
    }
    if (piece.size() == write_bytes) {
      write_back(offset, write_bytes, SYNC_FILE_RANGE_WRITE);
      write_back(before_, before_bytes_, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
      before_ = offset;
      before_bytes_ = write_bytes;
    }
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

void durable_file::write_back(std::uint64_t offset, std::uint64_t bytes, unsigned flags) {
  if (bytes > 0 && ::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), flags) != 0
      && !not_offered(errno))
    throw_io(path_, "write it to the disk", errno);
}

void durable_file::sync() {
  if (::fsync(descriptor_) != 0)
    throw_io(path_, "write it to the disk", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0)
    throw_io(path_, "close it", errno);
}

void durable_file::keep_as(const std::string& path) {
  if (path != path_ && ::rename(path_.c_str(), path.c_str()) != 0)
    throw_io(path, "rename a file to it", errno);
  path_ = path;
  sync_folder(folder_of(path));
  path_.clear();
}

} // namespace troupe::actors
