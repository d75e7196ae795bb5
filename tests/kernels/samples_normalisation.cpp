// SPDX-License-Identifier: BSD-3-Clause
// Samples of normalisations, softmax and pooling.
#include "tests/kernels/operands.hpp"

namespace troupe::kernels::testing {

namespace {

/// A window of which every place lies over the image at least in part.
window2d pooling(operands& m) {
  const auto kernel = m.one_of<std::int64_t>({1, 2, 3});
  return {.n = m.one_of<std::int64_t>({1, 3}),
          .c = m.one_of<std::int64_t>({1, 4}),
          .h = m.one_of<std::int64_t>({5, 8}),
          .w = m.one_of<std::int64_t>({4, 9}),
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride = m.one_of<std::int64_t>({1, 2}),
          .padding = kernel == 1 ? 0 : m.one_of<std::int64_t>({0, 0, 1})};
}

} // namespace

layernorm sample(operands& m, const layernorm*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .beta = m.floats(columns),
          .epsilon = 1e-3F,
          .y = m.result(rows * columns),
          .mean = m.result(rows),
          .rstd = m.result(rows),
          .rows = rows,
          .columns = columns};
}

layernorm_backward sample(operands& m, const layernorm_backward*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  const bool accumulate = m.coin();
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .mean = m.floats(rows, -0.1F, 0.1F),
          .rstd = m.floats(rows, 0.5F, 2),
          .dy = m.floats(rows * columns),
          .dx = m.result(rows * columns),
          .dgamma = m.sums(accumulate, columns),
          .dbeta = m.sums(accumulate, columns),
          .rows = rows,
          .columns = columns,
          .accumulate = accumulate};
}

rmsnorm sample(operands& m, const rmsnorm*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .epsilon = 1e-3F,
          .y = m.result(rows * columns),
          .rstd = m.result(rows),
          .rows = rows,
          .columns = columns};
}

rmsnorm_backward sample(operands& m, const rmsnorm_backward*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({3, 64, 1025});
  const bool accumulate = m.coin();
  return {.x = m.floats(rows * columns),
          .gamma = m.floats(columns),
          .rstd = m.floats(rows, 0.5F, 2),
          .dy = m.floats(rows * columns),
          .dx = m.result(rows * columns),
          .dgamma = m.sums(accumulate, columns),
          .rows = rows,
          .columns = columns,
          .accumulate = accumulate};
}

groupnorm sample(operands& m, const groupnorm*) {
  groupnorm op{.epsilon = 1e-3F, .rows = m.one_of<std::int64_t>({1, 7}), .channels = 6};
  op.inner = m.one_of<std::int64_t>({1, 12, 77});
  op.groups = m.one_of<std::int64_t>({1, 3, 6});
  op.groups = op.inner == 1 ? 1 : op.groups; // one element has no variance
  op.x = m.floats(op.count());
  op.gamma = m.floats(op.channels);
  op.beta = m.floats(op.channels);
  op.y = m.result(op.count());
  op.mean = m.result(op.rows * op.groups);
  op.rstd = m.result(op.rows * op.groups);
  return op;
}

groupnorm_backward sample(operands& m, const groupnorm_backward*) {
  groupnorm_backward op{.rows = m.one_of<std::int64_t>({1, 7}), .channels = 6};
  op.inner = m.one_of<std::int64_t>({1, 12, 77});
  op.groups = m.one_of<std::int64_t>({1, 3, 6});
  op.x = m.floats(op.count());
  op.gamma = m.floats(op.channels);
  op.mean = m.floats(op.rows * op.groups, -0.1F, 0.1F);
  op.rstd = m.floats(op.rows * op.groups, 0.5F, 2);
  op.dy = m.floats(op.count());
  op.dx = m.result(op.count());
  op.accumulate = m.coin();
  op.dgamma = m.sums(op.accumulate, op.channels);
  op.dbeta = m.sums(op.accumulate, op.channels);
  return op;
}

batchnorm sample(operands& m, const batchnorm*) {
  batchnorm op{.epsilon = 1e-3F, .weight = m.one_of({1.0F, 0.25F}), .rows = m.one_of<std::int64_t>({2, 7}), .channels = 5};
  op.inner = m.one_of<std::int64_t>({1, 12, 77});
  op.x = m.floats(op.count());
  op.gamma = m.floats(op.channels);
  op.beta = m.floats(op.channels);
  op.running_mean = m.floats(op.channels);
  op.running_variance = m.floats(op.channels, 0.1F, 1);
  op.y = m.result(op.count());
  op.mean = m.result(op.channels);
  op.rstd = m.result(op.channels);
  op.accumulate = m.coin();
  op.mean_step = m.sums(op.accumulate, op.channels);
  op.variance_step = m.sums(op.accumulate, op.channels);
  return op;
}

batchnorm_inference sample(operands& m, const batchnorm_inference*) {
  batchnorm_inference op{.rows = m.one_of<std::int64_t>({1, 7}), .channels = 5};
  op.inner = m.one_of<std::int64_t>({1, 12, 77});
  op.x = m.floats(op.count());
  op.gamma = m.floats(op.channels);
  op.beta = m.floats(op.channels);
  op.running_mean = m.floats(op.channels);
  op.running_variance = m.floats(op.channels, 0.1F, 1);
  op.y = m.result(op.count());
  return op;
}

batchnorm_backward sample(operands& m, const batchnorm_backward*) {
  batchnorm_backward op{.rows = m.one_of<std::int64_t>({1, 7}), .channels = 5};
  op.inner = m.one_of<std::int64_t>({1, 12, 77});
  op.x = m.floats(op.count());
  op.gamma = m.floats(op.channels);
  op.mean = m.floats(op.channels, -0.1F, 0.1F);
  op.rstd = m.floats(op.channels, 0.5F, 2);
  op.dy = m.floats(op.count());
  op.dx = m.result(op.count());
  op.accumulate = m.coin();
  op.dgamma = m.sums(op.accumulate, op.channels);
  op.dbeta = m.sums(op.accumulate, op.channels);
  return op;
}

softmax sample(operands& m, const softmax*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({2, 10, 1025});
  return {.x = m.floats(rows * columns, -4, 4), .y = m.result(rows * columns), .rows = rows, .columns = columns};
}

softmax_backward sample(operands& m, const softmax_backward*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({2, 10, 1025});
  return {.y = m.floats(rows * columns, 0, 2.0F / static_cast<float>(columns)),
          .dy = m.floats(rows * columns),
          .dx = m.result(rows * columns),
          .rows = rows,
          .columns = columns};
}

max_pool sample(operands& m, const max_pool*) {
  const auto w = pooling(m);
  return {.window = w, .x = m.floats(w.pixels()), .y = m.result(w.outputs(w.c)), .argmax = m.integer_result(w.outputs(w.c))};
}

max_pool_backward sample(operands& m, const max_pool_backward*) {
  auto w = pooling(m);
  w.stride = w.kernel_h; // any index inside the image's first window lies under every window there is
  w.padding = 0;
  w.h = w.w = w.kernel_h;
  return {
      .window = w, .argmax = m.integers(w.outputs(w.c), w.h * w.w), .dy = m.floats(w.outputs(w.c)), .dx = m.result(w.pixels())};
}

avg_pool sample(operands& m, const avg_pool*) {
  const auto w = pooling(m);
  return {.window = w, .x = m.floats(w.pixels()), .y = m.result(w.outputs(w.c))};
}

avg_pool_backward sample(operands& m, const avg_pool_backward*) {
  const auto w = pooling(m);
  return {.window = w, .dy = m.floats(w.outputs(w.c)), .dx = m.result(w.pixels())};
}

} // namespace troupe::kernels::testing
