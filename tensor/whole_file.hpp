// SPDX-License-Identifier: BSD-3-Clause
// Files that appear whole or not at all.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

namespace troupe {

/// A file descriptor that closes itself.
class open_file {
public:
  explicit open_file(int descriptor) : descriptor_(descriptor) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// 0 or errno: a full disk may show only here.
  int close() { return descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0 ? errno : 0; }

  /// 0 or errno.
  int write_all(const void* data, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      auto written = ::write(descriptor_, at, bytes);
      if (written < 0 && errno != EINTR)
        return errno;
      const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
      at += done;
      bytes -= done;
    }
    return 0;
  }

  /// Whether all of [offset, offset + bytes) was there.
  bool read_at(void* data, std::size_t bytes, std::uint64_t offset) const {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      auto got = ::pread(descriptor_, at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      const auto done = static_cast<std::size_t>(got);
      at += done;
      offset += done;
      bytes -= done;
    }
    return true;
  }

private:
  int descriptor_;
};

/// Why a file was not written.
struct write_failure {
  int code = 0;              ///< errno; 0: it was
  bool began = false;        ///< else no file could be made beside it
  bool is_irregular = false; ///< a device, or a folder: a rename would replace it by a plain file
};

/// Writes to a temporary name in the same folder, flushes and renames: two writers never share that, and on any failure nothing
/// partial is left and a file of this name is as it was. `contents` returns 0 or errno.
write_failure write_whole_file(const std::string& path, const std::function<int(const open_file&)>& contents);

} // namespace troupe
