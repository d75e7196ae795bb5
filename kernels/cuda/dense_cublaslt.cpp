// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices by cuBLASLt.
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <cublasLt.h>
#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

namespace {

void check(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

/// An opaque object of cuBLASLt's with its way to be destroyed.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
class owned {
public:
  owned() = default;
  owned(owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  owned& operator=(owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~owned() {
    if (handle_)
      Destroy(handle_);
  }
  Handle* out() { return &handle_; }
  operator Handle() const { return handle_; } // NOLINT: cuBLASLt's calls take it

private:
  Handle handle_ = nullptr;
};
using operation_desc = owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using layout = owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using preference = owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
using library_handle = owned<cublasLtHandle_t, cublasLtDestroy>;

/// What distinguishes one prepared product from another: m, n, k, the batch with its strides; transpose_a, transpose_b, beta is
/// 0, the epilogue.
using product_key = std::tuple<std::array<std::int64_t, 7>, bool, bool, bool, cublasLtEpilogue_t>;

struct plan {
  operation_desc operation;
  layout left, right, result;
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false; ///< whether the library has a kernel for this
};

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  TROUPE_CUDA(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t desc, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  TROUPE_CUDA(cublasLtMatmulPreferenceSetAttribute(desc, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatrixLayout_t desc, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  TROUPE_CUDA(cublasLtMatrixLayoutSetAttribute(desc, attribute, &value, sizeof value));
}

/// A matrix that cuBLASLt, which thinks in columns, sees as the transpose of our row-major one; or `batch` of them.
layout layout_of(cudaDataType type, std::int64_t rows, std::int64_t columns, std::int64_t batch, std::int64_t stride) {
  layout out;
  TROUPE_CUDA(cublasLtMatrixLayoutCreate(out.out(), type, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                                         columns));
  if (batch > 1) {
    TROUPE_ASSERT(batch <= INT32_MAX);
    set(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return out;
}

/// Row-major c = op(a) op(b) is column-major c^T = op(b)^T op(a)^T: the operands change places, and each is its own transpose
/// already.
///
/// The algorithm of a shape is the first of cuBLASLt's heuristic, which is a table, not a stopwatch: the same in every process
/// with this library on this kind of device. cuBLAS repeats its bits as long as one stream has one workspace, which is so here.
class cublaslt_library final : public matrix_library {
public:
  cublaslt_library(cudaStream_t stream, scratch& memory, precision arithmetic)
      : stream_(stream), memory_(memory),
        compute_(arithmetic == precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
        operand_(arithmetic == precision::bf16 ? CUDA_R_16BF : CUDA_R_32F), exact_(arithmetic == precision::fp32) {
    TROUPE_CUDA(cublasLtCreate(handle_.out()));
  }

  bool multiply(const product& args) override {
    const auto fused = epilogue(args);
    if (fused != CUBLASLT_EPILOGUE_DEFAULT)
      if (auto& fused_plan = prepared(args, fused); fused_plan.found) {
        run(args, fused_plan, fused);
        return true;
      }
    auto& plain_plan = prepared(args, CUBLASLT_EPILOGUE_DEFAULT);
    if (!plain_plan.found)
      fail("cublasLtMatmulAlgoGetHeuristic", "no algorithm", fmt::format("{} x {} x {}", args.m, args.n, args.k));
    run(args, plain_plan, CUBLASLT_EPILOGUE_DEFAULT);
    return !args.bias && args.act == activation::none && !args.pre;
  }

private:
  /// The epilogue that does all that is asked for; DEFAULT where there is none.
  cublasLtEpilogue_t epilogue(const product& args) const {
    const bool bias = args.bias != nullptr;
    if (args.act == activation::none && !args.pre)
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (args.act == activation::relu && !args.pre) // with `pre` it would leave a mask of bits there
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    // cuBLASLt's GELU is the tanh form, by the hardware's approximate tanh: good enough beside rounded operands, not in fp32.
    // What goes to `pre` needs rows of a multiple of 8.
    if (args.act != activation::gelu || exact_ || (args.pre && args.n % 8 != 0))
      return CUBLASLT_EPILOGUE_DEFAULT;
    if (args.pre)
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }

  plan& prepared(const product& args, cublasLtEpilogue_t fused) {
    const product_key key{{args.m, args.n, args.k, args.batch, args.stride_a, args.stride_b, args.stride_c},
                          args.transpose_a,
                          args.transpose_b,
                          args.beta == 0,
                          fused};
    auto found = plans_.find(key);
    if (found == plans_.end())
      found = plans_.emplace(key, prepare(args, fused)).first;
    return found->second;
  }

  void set_pointers(const plan& chosen, const product& args) const {
    if (args.bias)
      set(chosen.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
    if (args.pre)
      set(chosen.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.pre);
  }

  plan prepare(const product& args, cublasLtEpilogue_t fused) {
    plan out;
    TROUPE_CUDA(cublasLtMatmulDescCreate(out.operation.out(), compute_, CUDA_R_32F));
    set(out.operation, CUBLASLT_MATMUL_DESC_TRANSA, args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(out.operation, CUBLASLT_MATMUL_DESC_TRANSB, args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (fused != CUBLASLT_EPILOGUE_DEFAULT) {
      set(out.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, fused);
      if (args.bias)
        set(out.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
      if (args.pre) {
        set(out.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, args.n);
        set(out.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, CUDA_R_32F);
      }
      set_pointers(out, args); // the heuristic looks whether they are there
    }
    const auto left = [&](std::int64_t rows, std::int64_t columns) {
      return layout_of(operand_, rows, columns, args.batch, args.stride_b);
    };
    const auto right = [&](std::int64_t rows, std::int64_t columns) {
      return layout_of(operand_, rows, columns, args.batch, args.stride_a);
    };
    out.left = args.transpose_b ? left(args.n, args.k) : left(args.k, args.n);
    out.right = args.transpose_a ? right(args.k, args.m) : right(args.m, args.k);
    out.result = layout_of(CUDA_R_32F, args.m, args.n, args.batch, args.stride_c);

    preference limits;
    TROUPE_CUDA(cublasLtMatmulPreferenceCreate(limits.out()));
    set(limits, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(limits, which, alignment_bytes);
    cublasLtMatmulHeuristicResult_t best = {};
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle_, out.operation, out.left, out.right, out.result, out.result,
                                                       limits, 1, &best, &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) // that is an answer: this epilogue is not to be had here
      TROUPE_CUDA(status);
    out.found = status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    out.algorithm = best.algo;
    return out;
  }

  void run(const product& args, const plan& chosen, cublasLtEpilogue_t fused) {
    if (fused != CUBLASLT_EPILOGUE_DEFAULT)
      set_pointers(chosen, args);
    void* workspace = memory_.get(scratch::library, static_cast<std::int64_t>(workspace_bytes / sizeof(float)));
    TROUPE_CUDA(cublasLtMatmul(handle_, chosen.operation, &args.alpha, args.b, chosen.left, args.a, chosen.right, &args.beta,
                               args.c, chosen.result, args.c, chosen.result, &chosen.algorithm, workspace, workspace_bytes,
                               stream_));
  }

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20; // NVIDIA's advice for Hopper
  static constexpr std::uint32_t alignment_bytes = 16;                  // what `product` promises

  cudaStream_t stream_;
  scratch& memory_;
  cublasComputeType_t compute_;
  cudaDataType operand_;
  bool exact_;
  library_handle handle_;
  std::map<product_key, plan> plans_;
};

} // namespace

std::unique_ptr<matrix_library> open_matrix_library(cudaStream_t stream, scratch& memory, precision products) {
  return std::make_unique<cublaslt_library>(stream, memory, products);
}

} // namespace troupe::kernels::cuda
