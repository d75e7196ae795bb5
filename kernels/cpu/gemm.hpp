// SPDX-License-Identifier: BSD-3-Clause
// Matrix multiplication on the CPU, by oneDNN or OpenBLAS.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cpu/loops/table.hpp"
#include "kernels/cpu/onednn_gemm.hpp"

namespace troupe::kernels {

/// Which library multiplies. The choice depends on the processor alone, never on a measurement made at run time: two
/// processes of one job must take the same one, or their bits differ.
///
/// `onednn` is the faster where it has its batch-reduce kernels (AVX-512): for the 784-1024-1024-10 MLP at batch 128, one
/// thread of an EPYC with AVX-512, all gemms of a training step took 12.0 ms against 13.7 ms by OpenBLAS 0.3.21.
enum class gemm_library : std::uint8_t { onednn, openblas };

/// What this processor should use, of what this build has.
gemm_library best_gemm_library();

/// gemm with its epilogue. Keeps one prepared primitive for each shape that it has met, so that only the first call of a
/// shape allocates. One thread at a time; that thread's OpenMP thread count is the caller's affair.
class gemm_runner {
public:
  gemm_runner(gemm_library library, const loop_table& loops);
  ~gemm_runner();

  void run(const gemm& args);
  void run(const batched_gemm& args);

private:
  void run_openblas(const gemm& args, float* result);

  gemm_library library_;
  const loop_table& loops_;
  std::unique_ptr<onednn_gemm> onednn_;
};

} // namespace troupe::kernels
