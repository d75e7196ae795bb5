// SPDX-License-Identifier: BSD-3-Clause
// The baseline of gemm in `bench kernels`: cuBLASLt called as its manual says.
#include <memory>

#include <cublasLt.h>
#include <fmt/format.h>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/status.hpp"
#include "kernels/cuda/stream.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20; // what the manual asks for on Hopper

using cuda::check; // of CUDA's own statuses

void check(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

struct freed {
  void operator()(void* block) const { cudaFree(block); }
};
using device_block = std::unique_ptr<void, freed>;

device_block take(std::size_t bytes) {
  void* block = nullptr;
  TROUPE_CUDA(cudaMalloc(&block, bytes));
  return device_block{block};
}

/// One square product with the objects of cuBLASLt that it needs.
class bare_product {
public:
  bare_product(std::int64_t size, precision arithmetic) : workspace_(take(workspace_bytes)) {
    const auto operand = arithmetic == precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const auto compute = arithmetic == precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const auto side = static_cast<std::uint64_t>(size);
    TROUPE_CUDA(cublasLtCreate(&handle_));
    TROUPE_CUDA(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F));
    TROUPE_CUDA(cublasLtMatrixLayoutCreate(&operand_, operand, side, side, size));
    TROUPE_CUDA(cublasLtMatrixLayoutCreate(&result_, CUDA_R_32F, side, side, size));
    TROUPE_CUDA(cublasLtMatmulPreferenceCreate(&preference_));
    const std::size_t most = workspace_bytes;
    TROUPE_CUDA(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
    int found = 0;
    TROUPE_CUDA(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, operand_, operand_, result_, result_, preference_, 1,
                                               &chosen_, &found));
    if (found == 0)
      fail("cublasLtMatmulAlgoGetHeuristic", "no algorithm", fmt::format("{0} x {0} x {0}", size));
  }
  bare_product(const bare_product&) = delete;
  bare_product& operator=(const bare_product&) = delete;
  ~bare_product() {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatrixLayoutDestroy(result_);
    cublasLtMatrixLayoutDestroy(operand_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtDestroy(handle_);
  }

  /// Row-major c = a b is column-major c^T = b^T a^T.
  void run(cudaStream_t on, const void* a, const void* b, float* c) const {
    const float one = 1, zero = 0;
    TROUPE_CUDA(cublasLtMatmul(handle_, operation_, &one, b, operand_, a, operand_, &zero, c, result_, c, result_, &chosen_.algo,
                               workspace_.get(), workspace_bytes, on));
  }

private:
  device_block workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t operand_ = nullptr, result_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_ = {};
};

/// Seconds between two events around a recorded program of `times` products.
double seconds_of(const bare_product& product, cudaStream_t on, const void* a, const void* b, float* c, int times) {
  product.run(on, a, b, c); // fills caches
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  TROUPE_CUDA(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < times; ++i)
    product.run(on, a, b, c);
  TROUPE_CUDA(cudaStreamEndCapture(on, &graph));
  TROUPE_CUDA(cudaGraphInstantiate(&recorded, graph, 0));
  event begin(cudaEventDefault), end(cudaEventDefault);
  TROUPE_CUDA(cudaGraphLaunch(recorded, on));
  TROUPE_CUDA(cudaEventRecord(begin, on));
  TROUPE_CUDA(cudaGraphLaunch(recorded, on));
  TROUPE_CUDA(cudaEventRecord(end, on));
  TROUPE_CUDA(cudaStreamSynchronize(on));
  float milliseconds = 0;
  TROUPE_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  cudaGraphExecDestroy(recorded);
  cudaGraphDestroy(graph);
  return static_cast<double>(milliseconds) * 1e-3;
}

} // namespace

} // namespace troupe::kernels::cuda

/// See cuda_library::bare_product. Waits for the device; throws device_error.
extern "C" __attribute__((visibility("default"))) double troupe_cuda_bare_product(const float* a, const float* b, float* c,
                                                                                  std::int64_t size,
                                                                                  troupe::kernels::precision arithmetic,
                                                                                  int times) {
  using namespace troupe::kernels;
  using namespace troupe::kernels::cuda;
  cudaPointerAttributes where;
  TROUPE_CUDA(cudaPointerGetAttributes(&where, a));
  TROUPE_CUDA(cudaSetDevice(where.device));
  const stream on;
  const void *left = a, *right = b;
  device_block rounded_a, rounded_b;
  if (arithmetic == precision::bf16) {
    const auto count = size * size;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(std::uint16_t);
    rounded_a = take(bytes);
    rounded_b = take(bytes);
    round_to_bf16(on, a, static_cast<std::uint16_t*>(rounded_a.get()), count);
    round_to_bf16(on, b, static_cast<std::uint16_t*>(rounded_b.get()), count);
    left = rounded_a.get();
    right = rounded_b.get();
  }
  const bare_product product(size, arithmetic);
  return seconds_of(product, on, left, right, c, times) / times;
}
