// SPDX-License-Identifier: BSD-3-Clause
// What `troupe bench kernels` measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace troupe::kernels {

/// One operation in one shape.
struct kernel_row {
  std::string op;
  std::string shape;
  double gflops = 0; ///< 10^9 floating-point operations a second (a multiply-add counts two); 0 for memory-bound operations
  double gbps = 0;   ///< 10^9 bytes read and written a second, each operand counted once
  /// Speed as a part of the reference's, which ran in turns with it: for gemm and conv2d bare cblas_sgemm of the same product, on
  /// the same threads (0 on a device without it); for the rest the bytes read and written by the backend's copy.
  double reference_ratio = 0;
  std::string arithmetic = "fp32"; ///< of products: "fp32", "tf32" or "bf16"
};

/// How much is measured. The defaults take about ten seconds on a CPU and 400 MB, on a device 1.5 GB.
struct bench_options {
  std::int64_t elements =
      0; ///< of each operand of a memory-bound operation; 0: more than the caches, 64 MB on the host and 256 MB on a device
  std::vector<std::int64_t> sizes{1024, 2048, 4096, 8192}; ///< of bench_products
  int rounds = 7;                                          ///< both sides of a ratio, in turns; medians are reported
  double round_seconds = 0.02;                             ///< how long one side of a round runs at least
};

/// Products of square matrices on a device that is not the host, in every precision, against its bare library.
std::vector<kernel_row> bench_products(const std::string& device, const bench_options& options = {});

/// Measures the gemms of one training step of the 784-1024-1024-10 MLP at batch 128, a convolution, and memory-bound operations.
std::vector<kernel_row> bench_kernels(backend& queue, const bench_options& options = {});

} // namespace troupe::kernels
