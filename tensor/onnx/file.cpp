// SPDX-License-Identifier: BSD-3-Clause
// Loads libtroupe_onnx.so, and gives it files.
#include "tensor/onnx/file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tensor/whole_file.hpp"

namespace troupe::onnx {

namespace {

namespace fs = std::filesystem;

/// protobuf's own limit.
constexpr std::int64_t most_bytes = (std::int64_t{1} << 31) - 1;

/// The folders of the program and of the shared library that this code is in, and the libraries' folder beside the program's.
std::vector<fs::path> folders_to_look_in() {
  std::error_code unknown;
  const auto program = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<fs::path> folders{program, program.parent_path() / "lib"};
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&folders_to_look_in), &here) != 0 && here.dli_fname != nullptr)
    folders.insert(folders.begin(), fs::absolute(here.dli_fname, unknown).parent_path());
  return folders;
}

result<void*> load() {
  const auto refuse = [](const std::string& where, const char* why) {
    return error{errc::io, fmt::format("{} cannot be loaded ({}); it needs Debian's libonnx1 and libprotobuf", where, why)};
  };
  if (const char* named = std::getenv("TROUPE_ONNX_LIBRARY"); named != nullptr && *named != '\0') {
    if (void* found = dlopen(named, RTLD_NOW | RTLD_LOCAL))
      return found;
    return refuse(fmt::format("the library that TROUPE_ONNX_LIBRARY names, {},", named), dlerror());
  }
  for (const auto& folder : folders_to_look_in())
    if (const auto path = folder / format_library::file_name; fs::exists(path)) {
      if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return found;
      return refuse(path.string(), dlerror());
    }
  if (void* found = dlopen(format_library::file_name, RTLD_NOW | RTLD_LOCAL))
    return found;
  return error{errc::io,
               fmt::format("ONNX files are read by {}, which was found neither beside the program nor by the system; it "
                           "is built where libonnx-dev and libprotobuf-dev are installed, and TROUPE_ONNX_LIBRARY may "
                           "name it",
                           format_library::file_name)};
}

template <class F>
result<F*> function_of_library(const char* name) {
  const auto library = load(); // at each call: the system counts references and loads it once
  if (!library)
    return library.error();
  const auto find = [&](const char* symbol) { return dlsym(*library, symbol); };
  const auto build = reinterpret_cast<const char* (*)()>(find(format_library::build_symbol));
  if (build == nullptr || std::strcmp(build(), TROUPE_ONNX_BUILD) != 0)
    return error{errc::io,
                 fmt::format("{} is of another build than this program; install both together", format_library::file_name)};
  return reinterpret_cast<F*>(find(name));
}

/// A file in memory, for as long as this lives.
class mapped_file {
public:
  static result<mapped_file> open(const std::string& path) {
    const open_file file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat about {};
    if (!file.is_open() || ::fstat(file.get(), &about) != 0)
      return error{errc::io, fmt::format("{}: cannot be read: {}", path, std::strerror(errno))};
    if (!S_ISREG(about.st_mode))
      return error{errc::bad_model, fmt::format("{}: is no plain file; an ONNX model is one", path)};
    if (about.st_size == 0 || about.st_size > most_bytes)
      return error{errc::bad_model,
                   fmt::format("{}: has {} bytes, and an ONNX file has from 1 to {}; keep large weights as external data", path,
                               about.st_size, most_bytes)};
    mapped_file out;
    out.bytes_ = static_cast<std::size_t>(about.st_size);
    out.data_ = ::mmap(nullptr, out.bytes_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (out.data_ == MAP_FAILED)
      return error{errc::io, fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno))};
    return out;
  }
  mapped_file(mapped_file&& other) noexcept
      : data_(std::exchange(other.data_, MAP_FAILED)), bytes_(std::exchange(other.bytes_, 0)) {}
  mapped_file& operator=(mapped_file&&) = delete;
  ~mapped_file() {
    if (data_ != MAP_FAILED)
      ::munmap(data_, bytes_);
  }
  const void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

private:
  mapped_file() = default;
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

} // namespace

result<document> read_bytes(const void* bytes, std::size_t count, const std::string& folder) {
  const auto read = function_of_library<format_library::read_function>(format_library::read_symbol);
  if (!read)
    return read.error();
  document out;
  std::string why;
  if (!(*read)(bytes, count, folder, out, why))
    return error{errc::bad_model, std::move(why)};
  return out;
}

result<document> read_file(const std::string& path) {
  const auto file = mapped_file::open(path);
  if (!file)
    return file.error();
  const auto folder = fs::path(path).parent_path().string();
  auto out = read_bytes(file->data(), file->bytes(), folder.empty() ? "." : folder);
  if (!out)
    return error{out.error().code, fmt::format("{}: {}", path, out.error().message)};
  return out;
}

result<std::string> to_bytes(const document& model) {
  const auto write = function_of_library<format_library::write_function>(format_library::write_symbol);
  if (!write)
    return write.error();
  std::string bytes, why;
  if (!(*write)(model, bytes, why))
    return error{errc::bad_model, std::move(why)};
  return bytes;
}

} // namespace troupe::onnx
