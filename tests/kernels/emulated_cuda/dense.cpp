// SPDX-License-Identifier: BSD-3-Clause
// What the emulator has in place of cuBLASLt: plain loops on the stream's thread.
#include "kernels/cuda/dense.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/kernels/emulated_cuda/cuda_runtime.h"

namespace troupe::kernels::cuda {

namespace {

/// As tensor cores round an operand: 10 bits of mantissa, ties away from zero.
float as_tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000) & 0xffffe000);
}

/// An operand as floats that hold what the library would multiply.
std::vector<float> operand(const void* from, std::int64_t count, bool bf16, bool tf32) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (bf16)
      out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(from)[i]) << 16);
    else if (tf32)
      out[i] = as_tf32(static_cast<const float*>(from)[i]);
    else
      out[i] = static_cast<const float*>(from)[i];
  }
  return out;
}

/// The transpose of a row-major (rows, columns).
std::vector<float> transposed(const std::vector<float>& x, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * columns + c)];
  return out;
}

/// c = a b, row-major: a stretch of b that fits the second-level cache at a time, four of its rows at once. The order in which an
/// element's products are added depends on k alone.
void add_products(const float* a, const float* b, float* c, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t width = 512, depth = 128;
  for (std::int64_t l = 0; l < k; l += depth)
    for (std::int64_t j = 0; j < n; j += width)
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t columns = std::min(width, n - j), rows = std::min(depth, k - l);
        float* __restrict__ to = c + i * n + j;
        const float* left = a + i * k + l;
        const float* right = b + l * n + j;
        std::int64_t r = 0;
        for (; r + 4 <= rows; r += 4, right += 4 * n)
          for (std::int64_t x = 0; x < columns; ++x)
            to[x] += (left[r] * right[x] + left[r + 1] * right[n + x])
                     + (left[r + 2] * right[2 * n + x] + left[r + 3] * right[3 * n + x]);
        for (; r < rows; ++r, right += n)
          for (std::int64_t x = 0; x < columns; ++x)
            to[x] += left[r] * right[x];
      }
}

void multiply_one(const product& p, bool tf32) {
  auto a = operand(p.a, p.m * p.k, p.bf16, tf32), b = operand(p.b, p.k * p.n, p.bf16, tf32);
  if (p.transpose_a)
    a = transposed(a, p.k, p.m);
  if (p.transpose_b)
    b = transposed(b, p.n, p.k);
  std::vector<float> result(static_cast<std::size_t>(p.m * p.n));
  add_products(a.data(), b.data(), result.data(), p.m, p.n, p.k);
  for (std::size_t i = 0; i < result.size(); ++i)
    p.c[i] = p.beta != 0 ? p.alpha * result[i] + p.beta * p.c[i] : p.alpha * result[i];
}

/// `elements` after an operand's address.
const void* later(const void* from, bool bf16, std::int64_t elements) {
  return static_cast<const std::byte*>(from) + elements * static_cast<std::int64_t>(bf16 ? sizeof(std::uint16_t) : sizeof(float));
}

void multiply_now(product p, bool tf32) {
  for (; p.batch > 0; --p.batch) {
    multiply_one(p, tf32);
    p.a = later(p.a, p.bf16, p.stride_a);
    p.b = later(p.b, p.bf16, p.stride_b);
    p.c += p.stride_c;
  }
}

class emulated_library final : public matrix_library {
public:
  emulated_library(cudaStream_t stream, bool tf32) : stream_(stream), tf32_(tf32) {}

  bool multiply(const product& args) override {
    emulated_cuda::enqueue(stream_, [args, tf32 = tf32_] { multiply_now(args, tf32); });
    return false; // bias and activation are left to our own kernels, so that they are tested
  }

private:
  cudaStream_t stream_;
  bool tf32_;
};

} // namespace

std::unique_ptr<matrix_library> open_matrix_library(cudaStream_t stream, scratch&, precision products) {
  return std::make_unique<emulated_library>(stream, products == precision::tf32);
}

} // namespace troupe::kernels::cuda
