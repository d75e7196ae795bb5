// SPDX-License-Identifier: BSD-3-Clause
// Samples of products and convolutions.
#include "tests/kernels/operands.hpp"

#include "tests/kernels/harness.hpp"

namespace troupe::kernels::testing {

namespace {

window2d convolution(operands& m) {
  const auto kernel = m.one_of<std::int64_t>({1, 2, 3}), groups = m.one_of<std::int64_t>({1, 1, 2});
  return {.n = m.one_of<std::int64_t>({1, 3}),
          .c = groups * m.one_of<std::int64_t>({1, 4}),
          .h = m.one_of<std::int64_t>({5, 8}),
          .w = m.one_of<std::int64_t>({5, 9}),
          .kernel_h = kernel,
          .kernel_w = m.one_of<std::int64_t>({1, kernel}),
          .stride = m.one_of<std::int64_t>({1, 2}),
          .padding = m.one_of<std::int64_t>({0, 0, 1}),
          .dilation = m.one_of<std::int64_t>({1, 1, 2}),
          .groups = groups};
}

} // namespace

gemm sample(operands& m, const gemm*) {
  const auto rows = m.one_of<std::int64_t>({1, 5, 33}), columns = m.one_of<std::int64_t>({1, 10, 64}),
             inner = m.one_of<std::int64_t>({1, 7, 40});
  gemm op{.m = rows, .n = columns, .k = inner, .a = m.floats(rows * inner), .b = m.floats(inner * columns)};
  op.beta = m.one_of({0.0F, 0.5F});
  op.c = op.beta == 0 ? m.result(rows * columns) : m.floats(rows * columns);
  op.transpose_a = m.coin();
  op.transpose_b = m.coin();
  op.alpha = m.one_of({1.0F, 0.7F});
  op.bias = m.coin() ? m.floats(columns) : nullptr;
  op.act = m.one_of(all_activations);
  op.pre = m.coin() ? m.result(rows * columns) : nullptr;
  return op;
}

batched_gemm sample(operands& m, const batched_gemm*) {
  const auto batch = m.one_of<std::int64_t>({1, 4}), rows = m.one_of<std::int64_t>({1, 5, 33}),
             columns = m.one_of<std::int64_t>({1, 10, 64}), inner = m.one_of<std::int64_t>({1, 7, 40});
  batched_gemm op{.batch = batch, .m = rows, .n = columns, .k = inner};
  op.stride_a = m.coin() ? rows * inner : 0;
  op.stride_b = m.coin() ? inner * columns + 3 : 0;
  op.stride_c = rows * columns;
  op.a = m.floats(op.reach(op.stride_a, rows * inner));
  op.b = m.floats(op.reach(op.stride_b, inner * columns));
  op.transpose_a = m.coin();
  op.transpose_b = m.coin();
  op.alpha = m.one_of({1.0F, 0.7F});
  op.beta = m.one_of({0.0F, 0.5F});
  op.c = m.sums(op.beta != 0, batch * rows * columns);
  return op;
}

conv2d sample(operands& m, const conv2d*) {
  conv2d op{.window = convolution(m)};
  op.out_channels = op.window.groups * m.one_of<std::int64_t>({1, 3});
  op.x = m.floats(op.window.pixels());
  op.weight = m.floats(op.weights());
  op.bias = m.coin() ? m.floats(op.out_channels) : nullptr;
  op.y = m.result(op.window.outputs(op.out_channels));
  op.act = m.one_of({activation::none, activation::relu});
  return op;
}

conv2d_backward sample(operands& m, const conv2d_backward*) {
  conv2d_backward op{.window = convolution(m)};
  op.out_channels = op.window.groups * m.one_of<std::int64_t>({1, 3});
  op.dx = m.coin() ? m.result(op.window.pixels()) : nullptr;
  op.x = m.floats(op.window.pixels());
  op.weight = m.floats(op.weights());
  op.dy = m.floats(op.window.outputs(op.out_channels));
  op.accumulate = m.coin();
  op.dweight = m.sums(op.accumulate, op.weights());
  op.dbias = m.coin() ? m.sums(op.accumulate, op.out_channels) : nullptr;
  return op;
}

} // namespace troupe::kernels::testing
