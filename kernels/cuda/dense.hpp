// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices and convolutions: the seam behind which the vendor's libraries are.
#pragma once

#include <memory>

#include <cuda_runtime.h>

#include "kernels/backend.hpp"
#include "kernels/cuda/scratch.hpp"
#include "kernels/cuda/shadows.hpp"

namespace troupe::kernels::cuda {

/// One product as a library takes it: all matrices row-major and without gaps, every address a multiple of 16 bytes.
/// c = act(alpha * op(a) op(b) + beta * c + bias); where `pre` is not null it gets what enters the activation.
struct product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  const void* a = nullptr; ///< float, or bfloat16 where `bf16`
  const void* b = nullptr;
  bool bf16 = false;
  float alpha = 1, beta = 0;
  float* c = nullptr;
  const float* bias = nullptr;
  activation act = activation::none;
  float* pre = nullptr;
  /// So many products; each operand's matrices begin this many elements apart, multiples of 4 (0: the same for all).
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

/// A library of matrix products on one stream.
class matrix_library {
public:
  virtual ~matrix_library() = default;
  /// Enqueues the product. True where bias, activation and `pre` are done too; where false c = alpha * op(a) op(b) + beta * c
  /// alone. The same shapes take the same way every time.
  virtual bool multiply(const product& args) = 0;
};

/// cuBLASLt, or what the emulator has instead. `products` decides the arithmetic of operands that are floats.
std::unique_ptr<matrix_library> open_matrix_library(cudaStream_t stream, scratch& memory, precision products);

/// gemm as the contract has it, on a matrix_library: rounds operands, moves what lies at odd addresses, and finishes what the
/// library leaves undone. One thread at a time.
class products {
public:
  products(cudaStream_t stream, scratch& memory, shadows& rounded, precision arithmetic);

  void multiply(const gemm& args);
  void multiply(const batched_gemm& args);
  /// Something has written these floats since the operation began.
  void written(const float* begin, std::int64_t count) {
    rounded_.written(begin, static_cast<std::size_t>(count) * sizeof(float));
  }

private:
  void multiply_together(const batched_gemm& args);
  const void* operand(const float* x, std::int64_t count, scratch::use where);
  const float* aligned(const float* x, std::int64_t count, scratch::use where);
  void run(product args, float* c, float* pre);

  cudaStream_t stream_;
  scratch& memory_;
  shadows& rounded_;
  precision arithmetic_;
  std::unique_ptr<matrix_library> library_;
};

/// What a convolution needs of its backend.
struct convolution_context {
  cudaStream_t stream;
  scratch& memory;
  products& matrices;
  precision arithmetic;
};

/// Convolutions on one stream.
class convolution_library {
public:
  virtual ~convolution_library() = default;
  virtual void forward(const conv2d& args) = 0;
  virtual void backward(const conv2d_backward& args) = 0;
};

/// cuDNN where the build found it, else products of matrices.
std::unique_ptr<convolution_library> open_convolution_library(const convolution_context& context);

} // namespace troupe::kernels::cuda
