// SPDX-License-Identifier: BSD-3-Clause
// Dropout by the generator that host code uses too, and rounding to bfloat16.
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/random.hpp"

namespace troupe::kernels::cuda {

namespace {

/// One Philox block gives the four words of one group of a row.
__global__ void __launch_bounds__(256) dropout_kernel(const __grid_constant__ dropout args, float scale, bool wide) {
  const random_key key = args.key->of_layer(args.layer);
  const std::int64_t columns = args.columns;
  const auto row_groups = static_cast<std::uint32_t>((columns + 3) / 4);
  const std::int64_t groups = args.rows * row_groups;
  for (std::int64_t g = grid_thread(); g < groups; g += grid_threads()) {
    const std::uint32_t row = static_cast<std::uint32_t>(g) / row_groups, group = static_cast<std::uint32_t>(g) % row_groups;
    const auto words = random_block(key.of_row(row), group);
    const std::int64_t begin = row * columns;
    auto values = load_group(args.x + begin, group * std::int64_t{4}, columns, wide, 0.0F);
    for (int e = 0; e < 4; ++e)
      values.v[e] = uniform_float(words[static_cast<std::size_t>(e)]) < args.rate ? 0.0F : values.v[e] * scale;
    store_group(args.y + begin, group * std::int64_t{4}, columns, wide, values);
  }
}

__device__ inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

/// Adding half of what is cut off, less one where the last kept bit is even, carries into it exactly when it must.
__device__ inline std::uint32_t bf16_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return bits >> 16 | 0x40; // a NaN whose remaining bits are zero would become infinity
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

__global__ void __launch_bounds__(256) bf16_kernel(const float* x, std::uint16_t* y, std::int64_t count, bool wide) {
  const std::int64_t groups = (count + 3) / 4;
  for (std::int64_t g = grid_thread(); g < groups; g += grid_threads()) {
    const std::int64_t i = g * 4;
    const auto values = load_group(x, i, count, wide, 0.0F);
    if (i + 4 <= count) { // y is a block of our own: aligned
      *reinterpret_cast<ushort4*>(y + i) =
          make_ushort4(static_cast<std::uint16_t>(bf16_bits(values.v[0])), static_cast<std::uint16_t>(bf16_bits(values.v[1])),
                       static_cast<std::uint16_t>(bf16_bits(values.v[2])), static_cast<std::uint16_t>(bf16_bits(values.v[3])));
      continue;
    }
    for (int e = 0; e < 4; ++e)
      if (i + e < count)
        y[i + e] = static_cast<std::uint16_t>(bf16_bits(values.v[e]));
  }
}

struct bf16_body {
  const float* x;
  float* y;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto a = load<W>(x + i);
    for (int e = 0; e < W; ++e)
      a.v[e] = std::bit_cast<float>(bf16_bits(a.v[e]) << 16);
    store(y + i, a);
  }
};

} // namespace

void enqueue(cudaStream_t stream, const dropout& op) {
  if (op.rows > 0 && op.columns > 0)
    launch(dropout_kernel, blocks_for(op.rows * ceil_div(op.columns, 4), 256), one_dimension(256), stream, op,
           1.0F / (1.0F - op.rate), op.columns % 4 == 0 && aligned16(op.x) && aligned16(op.y));
}

void round_to_bf16(cudaStream_t stream, const float* x, std::uint16_t* y, std::int64_t count) {
  if (count > 0)
    launch(bf16_kernel, blocks_for(ceil_div(count, 4), 256), one_dimension(256), stream, x, y, count, aligned16(x));
}

void round_to_bf16(cudaStream_t stream, const float* x, float* y, std::int64_t count) {
  for_elements(stream, count, {x, y}, bf16_body{x, y});
}

} // namespace troupe::kernels::cuda
