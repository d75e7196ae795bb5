// SPDX-License-Identifier: BSD-3-Clause
// Writing beside, flushing, renaming.
#include "tensor/whole_file.hpp"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>

namespace troupe {

namespace {

/// Makes the rename durable. A file system that cannot is no reason to fail a save that is complete.
void sync_folder(const std::string& path) {
  const auto cut = path.rfind('/');
  const auto folder = cut == std::string::npos ? std::string{"."} : path.substr(0, cut + 1);
  open_file handle{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (handle.is_open())
    ::fsync(handle.get());
}

} // namespace

write_failure write_whole_file(const std::string& path, const std::function<int(const open_file&)>& contents) {
  if (struct stat about{}; ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return {.is_irregular = true};
  auto temporary = path + ".XXXXXX";
  open_file out{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (!out.is_open())
    return {.code = errno};
  int code = ::fchmod(out.get(), 0644) == 0 ? 0 : errno;
  if (code == 0)
    code = contents(out);
  if (code == 0 && ::fsync(out.get()) != 0)
    code = errno;
  if (int at_close = out.close(); code == 0)
    code = at_close;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code == 0)
    sync_folder(path);
  else
    ::unlink(temporary.c_str());
  return {.code = code, .began = true};
}

} // namespace troupe
