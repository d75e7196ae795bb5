// SPDX-License-Identifier: BSD-3-Clause
// gemm: everything of it but the multiplication.
#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

namespace {

bool aligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

} // namespace

products::products(cudaStream_t stream, scratch& memory, shadows& rounded, precision arithmetic)
    : stream_(stream), memory_(memory), rounded_(rounded), arithmetic_(arithmetic),
      library_(open_matrix_library(stream, memory, arithmetic)) {}

/// The library chooses a kernel by the operands' alignment, and another kernel has other bits. Tensors are aligned; what is not
/// is moved, so that a result does not depend on where its operands lie.
const float* products::aligned(const float* x, std::int64_t count, scratch::use where) {
  if (aligned16(x))
    return x;
  float* moved = memory_.get(where, count);
  TROUPE_CUDA(cudaMemcpyAsync(moved, x, static_cast<std::size_t>(count) * sizeof(float), cudaMemcpyDeviceToDevice, stream_));
  return moved;
}

const void* products::operand(const float* x, std::int64_t count, scratch::use where) {
  if (arithmetic_ != precision::bf16)
    return aligned(x, count, where);
  if (const auto* shadow = rounded_.shadow_of(x, count))
    return shadow;
  auto* rounded = reinterpret_cast<std::uint16_t*>(memory_.get(where, (count + 1) / 2));
  round_to_bf16(stream_, x, rounded, count);
  return rounded;
}

void products::multiply(const gemm& args) {
  if (args.m == 0 || args.n == 0)
    return;
  product aligned_args{.m = args.m,
                       .n = args.n,
                       .k = args.k,
                       .transpose_a = args.transpose_a,
                       .transpose_b = args.transpose_b,
                       .a = operand(args.a, args.m * args.k, scratch::left),
                       .b = operand(args.b, args.k * args.n, scratch::right),
                       .bf16 = arithmetic_ == precision::bf16,
                       .alpha = args.alpha,
                       .beta = args.beta,
                       .bias = args.bias ? aligned(args.bias, args.n, scratch::bias) : nullptr,
                       .act = args.act};
  const std::int64_t count = args.m * args.n;
  if (aligned16(args.c) && (!args.pre || aligned16(args.pre)))
    return run(aligned_args, args.c, args.pre);
  const std::int64_t place = (count + 3) / 4 * 4;
  float* c = memory_.get(scratch::result, 2 * place);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  if (args.beta != 0)
    TROUPE_CUDA(cudaMemcpyAsync(c, args.c, bytes, cudaMemcpyDeviceToDevice, stream_));
  run(aligned_args, c, args.pre ? c + place : nullptr);
  TROUPE_CUDA(cudaMemcpyAsync(args.c, c, bytes, cudaMemcpyDeviceToDevice, stream_));
  if (args.pre)
    TROUPE_CUDA(cudaMemcpyAsync(args.pre, c + place, bytes, cudaMemcpyDeviceToDevice, stream_));
}

/// The strides alone decide whether all go together: where one would lie at an address that is no multiple of 16, each goes
/// alone.
void products::multiply(const batched_gemm& args) {
  if (args.batch == 0 || args.m == 0 || args.n == 0)
    return;
  const std::int64_t whole = arithmetic_ == precision::bf16 ? 8 : 4; // elements of 16 bytes
  if (args.batch > 1 && args.stride_a % whole == 0 && args.stride_b % whole == 0 && args.stride_c % 4 == 0)
    return multiply_together(args);
  for (std::int64_t i = 0; i < args.batch; ++i)
    multiply(args.product(i));
}

void products::multiply_together(const batched_gemm& args) {
  const product all{.m = args.m,
                    .n = args.n,
                    .k = args.k,
                    .transpose_a = args.transpose_a,
                    .transpose_b = args.transpose_b,
                    .a = operand(args.a, args.reach(args.stride_a, args.m * args.k), scratch::left),
                    .b = operand(args.b, args.reach(args.stride_b, args.k * args.n), scratch::right),
                    .bf16 = arithmetic_ == precision::bf16,
                    .alpha = args.alpha,
                    .beta = args.beta,
                    .batch = args.batch,
                    .stride_a = args.stride_a,
                    .stride_b = args.stride_b,
                    .stride_c = args.stride_c};
  if (aligned16(args.c))
    return run(all, args.c, nullptr);
  const std::int64_t count = args.reach(args.stride_c, args.m * args.n);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  float* c = memory_.get(scratch::result, count);
  if (args.beta != 0 || args.stride_c > args.m * args.n) // what lies between the matrices goes there and back
    TROUPE_CUDA(cudaMemcpyAsync(c, args.c, bytes, cudaMemcpyDeviceToDevice, stream_));
  run(all, c, nullptr);
  TROUPE_CUDA(cudaMemcpyAsync(args.c, c, bytes, cudaMemcpyDeviceToDevice, stream_));
}

void products::run(product args, float* c, float* pre) {
  args.c = c;
  args.pre = pre;
  if (library_->multiply(args))
    return;
  // One pass of our own: into `pre` first, where the activation needs it kept.
  if (pre) {
    enqueue(stream_, bias_activation{.x = c, .bias = args.bias, .y = pre, .rows = args.m, .columns = args.n});
    enqueue(stream_, bias_activation{.x = pre, .act = args.act, .y = c, .rows = args.m, .columns = args.n});
  } else if (args.bias || args.act != activation::none) {
    enqueue(stream_, bias_activation{.x = c, .bias = args.bias, .act = args.act, .y = c, .rows = args.m, .columns = args.n});
  }
}

} // namespace troupe::kernels::cuda
