// SPDX-License-Identifier: BSD-3-Clause
// What `troupe bench codecs` measures: codecs of pushes beside a plain copy of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/form.hpp"

namespace troupe::kernels {

/// One codec at one size; medians, in 10^9 bytes of float32 a second.
struct codec_row {
  form as = form::fp16;
  std::size_t bytes = 0;    ///< of the float32 numbers
  double bytes_ratio = 0;   ///< those to the bytes of their codes
  double encode_gbps = 0;   ///< from numbers to codes, as a worker without error feedback does
  double feedback_gbps = 0; ///< likewise, and keeps what the codes lose; 0: they lose nothing
  double add_gbps = 0;      ///< decodes and adds to a sum, as a shard does
  double copy_gbps = 0;     ///< memcpy of the numbers, in turns with these
};

struct codec_bench_options {
  std::vector<std::size_t> sizes{1U << 20U, 64U << 20U}; ///< bytes of float32, of a square matrix of an even number of columns
  int rounds = 5;                                        ///< at least 1; all four take turns in each
  double round_seconds = 0.02;                           ///< how long one of them runs at least in a round
};

/// Every form that is used for all elements, but fp32, the largest thousandth of them, and the factors of 16 rows, at every size;
/// on this thread alone, in memory that is touched beforehand and used again.
std::vector<codec_row> bench_codecs(const codec_bench_options& options = {});

} // namespace troupe::kernels
