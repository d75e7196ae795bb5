// SPDX-License-Identifier: BSD-3-Clause
// Matrix multiplication by oneDNN, where this build has it.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"

namespace troupe::kernels {

/// Whether this build has oneDNN (CMake: TROUPE_WITH_ONEDNN). It is 40 MB and cannot be had in parts, so that a bundle does
/// without: OpenBLAS multiplies then, and convolutions are im2col.
bool has_onednn();
/// "oneDNN 2.6.3", or an empty string.
std::string onednn_version();

/// One prepared primitive for each shape met. One thread at a time. Only where has_onednn().
class onednn_gemm {
public:
  onednn_gemm();
  ~onednn_gemm();
  /// `args` with alpha 1, its result to `result`, followed by relu alone; args.act and args.pre are not looked at.
  void run(const gemm& args, float* result, bool relu);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::kernels
