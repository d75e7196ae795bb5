// SPDX-License-Identifier: BSD-3-Clause
// Files and folders that a crash leaves whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::actors {

/// "PATH: cannot WHAT: the reason of `code`, an errno". Throws std::runtime_error.
[[noreturn]] void throw_io(const std::string& path, const std::string& action, int code);

/// Makes a folder and those above it that are missing, durably. Throws std::runtime_error.
void make_folder(const std::string& folder);
/// Its list of names reaches the disk. Throws std::runtime_error.
void sync_folder(const std::string& folder);

/// A new file. What fails throws std::runtime_error and is final: after an error the kernel has dropped what it could not write,
/// and a second fsync would report success. So nothing is tried again, and a file that is not kept is removed.
class durable_file {
public:
  /// A file of that name is unlinked, not written over: who has it mapped keeps what is in it.
  explicit durable_file(std::string path);
  ~durable_file();
  durable_file(const durable_file&) = delete;
  durable_file& operator=(const durable_file&) = delete;

  /// 8 MiB at a time; each is on its way to the disk before the next but one is taken.
  void write(std::span<const std::byte> bytes, std::uint64_t offset);
  /// All that was written is on the disk. Nothing is written afterwards.
  void sync();
  /// Keeps the file, under this name, and has its folder durable.
  void keep_as(const std::string& path);

private:
  void write_back(std::uint64_t offset, std::uint64_t bytes, unsigned flags);

  std::string path_;
  int descriptor_;
  std::uint64_t before_ = 0, before_bytes_ = 0; ///< the 8 MiB that are on their way
};

} // namespace troupe::actors
