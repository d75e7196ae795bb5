// SPDX-License-Identifier: BSD-3-Clause
// Loads the CUDA backend's library.
#include "kernels/cuda_library.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

namespace troupe::kernels {

namespace {

constexpr const char* file_name = "libtroupe_cuda.so";

void* load(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// RTLD_NOW: a missing CUDA library is reported here, not in the middle of a run.
void* load_or_say_why() {
  if (const char* named = std::getenv("TROUPE_CUDA_LIBRARY"); named && *named) {
    if (void* found = load(named))
      return found;
    throw device_error(fmt::format("the library that TROUPE_CUDA_LIBRARY names cannot be loaded: {}", dlerror()));
  }
  std::error_code unknown;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() / file_name;
  if (std::filesystem::exists(beside, unknown)) {
    if (void* found = load(beside.string()))
      return found;
    throw device_error(
        fmt::format("{} is there, but cannot be loaded: {}; CUDA 13 and its cuBLAS must be where the system finds them",
                    beside.string(), dlerror()));
  }
  if (void* found = load(file_name))
    return found;
#ifdef TROUPE_HAS_CUDA
  throw device_error(fmt::format("CUDA support comes with {}, which was found neither beside the program nor by the system ({}); "
                                 "TROUPE_CUDA_LIBRARY may name it",
                                 file_name, dlerror()));
#else
  throw device_error(
      fmt::format("this program was built without CUDA, and no {} was found; build it with TROUPE_CUDA=ON", file_name));
#endif
}

template <class F>
F* symbol(void* library, const char* name) {
  if (void* found = dlsym(library, name))
    return reinterpret_cast<F*>(found);
  throw device_error(fmt::format("the CUDA library is not Troupe's: it has no {}", name));
}

} // namespace

cuda_library load_cuda_library() {
  void* library = load_or_say_why(); // at each call: the system counts references and loads it once
  const std::string build = symbol<const char*()>(library, cuda_library::build_symbol)();
  if (build != TROUPE_KERNELS_BUILD)
    throw device_error(
        fmt::format("the CUDA library is of another build: it is \"{}\", this program \"{}\"", build, TROUPE_KERNELS_BUILD));
  return {.open = symbol<backend*(const backend_options&)>(library, cuda_library::open_symbol),
          .list = symbol<void(std::vector<device_info>&)>(library, cuda_library::list_symbol),
          .bare_product =
              reinterpret_cast<decltype(cuda_library::bare_product)>(dlsym(library, cuda_library::bare_product_symbol))};
}

} // namespace troupe::kernels
