// SPDX-License-Identifier: BSD-3-Clause
// Matrix multiplication on the CPU, by oneDNN or OpenBLAS.
#include "kernels/cpu/gemm.hpp"

#include <cstring>

#include <cblas.h>

#include "kernels/assert.hpp"

namespace troupe::kernels {

gemm_library best_gemm_library() {
  return best_instruction_set() == instruction_set::avx512 && has_onednn() ? gemm_library::onednn : gemm_library::openblas;
}

gemm_runner::gemm_runner(gemm_library library, const loop_table& loops)
    : library_(library), loops_(loops), onednn_(std::make_unique<onednn_gemm>()) {
  TROUPE_ASSERT(library == gemm_library::openblas || has_onednn());
}

gemm_runner::~gemm_runner() = default;

void gemm_runner::run(const gemm& args) {
  if (args.m == 0 || args.n == 0)
    return;
  const auto count = args.m * args.n;
  float* result = args.pre ? args.pre : args.c;
  if (args.pre && args.beta != 0)
    std::memcpy(args.pre, args.c, static_cast<std::size_t>(count) * sizeof(float));

  // oneDNN's kernels want whole vectors of columns: 128x10x1024 took 95 us by oneDNN, 66 us by OpenBLAS.
  const bool narrow = args.n < 16;
  if (library_ == gemm_library::onednn && args.alpha == 1 && !narrow) {
    // relu costs nothing inside; the others are one pass of our own loops over a result that is still in the cache, so that
    // they have the same bits wherever they are computed.
    const bool relu = args.act == activation::relu && !args.pre;
    onednn_->run(args, result, relu);
    if (args.pre || (args.act != activation::none && !relu))
      loops_(unary{.op = as_unary(args.act), .x = result, .y = args.c, .count = count});
    return;
  }
  run_openblas(args, result);
  if (args.pre && args.bias)
    loops_(bias_activation{.x = result, .bias = args.bias, .y = result, .rows = args.m, .columns = args.n});
  if (args.pre)
    loops_(unary{.op = as_unary(args.act), .x = result, .y = args.c, .count = count});
  else if (args.bias || args.act != activation::none)
    loops_(bias_activation{.x = result, .bias = args.bias, .act = args.act, .y = result, .rows = args.m, .columns = args.n});
}

void gemm_runner::run(const batched_gemm& args) {
  for (std::int64_t i = 0; i < args.batch; ++i)
    run(args.product(i));
}

void gemm_runner::run_openblas(const gemm& args, float* result) {
  const auto narrow = [](std::int64_t value) {
    TROUPE_ASSERT(value <= INT32_MAX);
    return static_cast<blasint>(value);
  };
  cblas_sgemm(CblasRowMajor, args.transpose_a ? CblasTrans : CblasNoTrans, args.transpose_b ? CblasTrans : CblasNoTrans,
              narrow(args.m), narrow(args.n), narrow(args.k), args.alpha, args.a, narrow(args.transpose_a ? args.m : args.k),
              args.b, narrow(args.transpose_b ? args.k : args.n), args.beta, result, narrow(args.n));
}

} // namespace troupe::kernels
