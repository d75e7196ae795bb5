// SPDX-License-Identifier: BSD-3-Clause
// Elementwise kernels.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/elements.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

struct fill_body {
  float* y;
  float value;

  template <int W>
  __device__ void run(std::int64_t i) const {
    pack<W> out;
    for (int e = 0; e < W; ++e)
      out.v[e] = value;
    store(y + i, out);
  }
};

template <unary_op Op>
struct unary_body {
  const float* x;
  float* y;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto a = load<W>(x + i);
    for (int e = 0; e < W; ++e)
      a.v[e] = apply<Op>(a.v[e]);
    store(y + i, a);
  }
};

template <unary_op Op>
struct unary_backward_body {
  const float* x; ///< or y: what apply_backward takes
  const float* dy;
  float* dx;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto d = load<W>(dy + i);
    pack<W> operand = {};
    if constexpr (Op != unary_op::negate && Op != unary_op::copy) // those need neither
      operand = load<W>(x + i);
    for (int e = 0; e < W; ++e)
      d.v[e] = apply_backward<Op>(operand.v[e], d.v[e]);
    store(dx + i, d);
  }
};

template <binary_op Op>
struct binary_body {
  const float* a;
  const float* b;
  float* y;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto left = load<W>(a + i);
    const auto right = load<W>(b + i);
    for (int e = 0; e < W; ++e) {
      if constexpr (Op == binary_op::add)
        left.v[e] += right.v[e];
      else if constexpr (Op == binary_op::subtract)
        left.v[e] -= right.v[e];
      else if constexpr (Op == binary_op::multiply)
        left.v[e] *= right.v[e];
      else
        left.v[e] /= right.v[e];
    }
    store(y + i, left);
  }
};

struct axpby_body {
  const float* x;
  float* y;
  float alpha, beta;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto a = load<W>(x + i);
    pack<W> old = {};
    if (beta != 0)
      old = load<W>(y + i);
    for (int e = 0; e < W; ++e)
      a.v[e] = beta != 0 ? mul_add(alpha, a.v[e], beta * old.v[e]) : alpha * a.v[e];
    store(y + i, a);
  }
};

template <unary_op Op>
struct bias_activation_body {
  const float* x;
  const float* bias;
  float* y;
  std::int64_t columns;
  bool narrow; ///< all indices fit 32 bits, whose division is many times quicker

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto a = load<W>(x + i);
    std::int64_t column = 0;
    if (bias)
      column = narrow ? static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(columns) : i % columns;
    for (int e = 0; e < W; ++e) {
      a.v[e] = apply<Op>(bias ? a.v[e] + bias[column] : a.v[e]);
      column = column + 1 == columns ? 0 : column + 1;
    }
    store(y + i, a);
  }
};

struct soft_threshold_body {
  const float* x;
  float* y;
  float threshold;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto a = load<W>(x + i);
    for (int e = 0; e < W; ++e) {
      const float capped = a.v[e] > threshold ? threshold : a.v[e]; // x less its part within the threshold: NaN stays NaN
      a.v[e] -= capped < -threshold ? -threshold : capped;
    }
    store(y + i, a);
  }
};

} // namespace

void enqueue(cudaStream_t stream, const fill& op) {
  for_elements(stream, op.count, {op.y}, fill_body{op.y, op.value});
}

void enqueue(cudaStream_t stream, const unary& op) {
  with_constant(op.op, [&]<unary_op Op>(constant<Op>) {
    for_elements(stream, op.count, {op.x, op.y}, unary_body<Op>{op.x, op.y});
  });
}

void enqueue(cudaStream_t stream, const unary_backward& op) {
  with_constant(op.op, [&]<unary_op Op>(constant<Op>) {
    const float* operand = saves_result(Op) ? op.y : op.x;
    if (Op == unary_op::negate || Op == unary_op::copy)
      operand = nullptr; // not read: its alignment must not matter
    for_elements(stream, op.count, {operand, op.dy, op.dx}, unary_backward_body<Op>{operand, op.dy, op.dx});
  });
}

void enqueue(cudaStream_t stream, const binary& op) {
#define TROUPE_CASE(name)                                                                                                        \
  case binary_op::name:                                                                                                          \
    return for_elements(stream, op.count, {op.a, op.b, op.y}, binary_body<binary_op::name>{op.a, op.b, op.y})
  switch (op.op) {
    TROUPE_CASE(add);
    TROUPE_CASE(subtract);
    TROUPE_CASE(multiply);
    TROUPE_CASE(divide);
  }
#undef TROUPE_CASE
}

void enqueue(cudaStream_t stream, const axpby& op) {
  for_elements(stream, op.count, {op.x, op.y}, axpby_body{op.x, op.y, op.alpha, op.beta});
}

void enqueue(cudaStream_t stream, const bias_activation& op) {
  const std::int64_t count = op.rows * op.columns;
  with_constant(op.act, [&]<unary_op Op>(constant<Op>) {
    for_elements(stream, count, {op.x, op.y}, bias_activation_body<Op>{op.x, op.bias, op.y, op.columns, count <= INT32_MAX});
  });
}

void enqueue(cudaStream_t stream, const soft_threshold& op) {
  for_elements(stream, op.count, {op.x, op.y}, soft_threshold_body{op.x, op.y, op.threshold});
}

} // namespace troupe::kernels::cuda
