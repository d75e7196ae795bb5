// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend as a separate library, which a process loads when it first asks for a GPU and never unloads.
#pragma once

#include <vector>

#include "kernels/backend.hpp"

namespace troupe::kernels {

/// Its entry points and their symbols (kernels/cuda/entry.cpp).
struct cuda_library {
  /// Identifies the build. Both sides must have the same, since C++ objects cross between them.
  static constexpr const char* build_symbol = "troupe_cuda_build";
  static constexpr const char* open_symbol = "troupe_cuda_open";
  static constexpr const char* list_symbol = "troupe_cuda_list";
  static constexpr const char* bare_product_symbol = "troupe_cuda_bare_product";

  backend* (*open)(const backend_options&); ///< throws device_error with the bare reason
  void (*list)(std::vector<device_info>&);  ///< appends a row each, or one that says why there is none
  /// c = a b of square matrices in a device's memory by the vendor's library alone. Returns the seconds of one of `times`
  /// products. For benchmarks without other running work; waits. Null where there is no such library (the emulator).
  double (*bare_product)(const float* a, const float* b, float* c, std::int64_t size, precision arithmetic, int times);
};

/// Loads the file that the environment's TROUPE_CUDA_LIBRARY names, else libtroupe_cuda.so beside the executable, else the one
/// that the system finds. Throws device_error: not built, not found, of another build.
cuda_library load_cuda_library();

} // namespace troupe::kernels
