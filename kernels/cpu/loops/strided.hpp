// SPDX-License-Identifier: BSD-3-Clause
// Loops over strided arrays whose axes have been merged (kernels/operations/merged.hpp).
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// Calls line(offsets...) for each place of the axes before `Last`, in order: one offset for each of `strides`.
template <std::size_t Last, class... Strides, class F>
inline void for_lines(const axes& extents, F line, const Strides&... strides) {
  static_assert(Last == most_axes - 1 || Last == most_axes - 2);
  const std::int64_t inner = Last == most_axes - 1 ? extents[4] : 1;
  for (std::int64_t i = 0; i < extents[0]; ++i)
    for (std::int64_t j = 0; j < extents[1]; ++j)
      for (std::int64_t k = 0; k < extents[2]; ++k)
        for (std::int64_t l = 0; l < extents[3]; ++l)
          for (std::int64_t m = 0; m < inner; ++m)
            line(i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3] + m * strides[4]...);
}

/// One row of y = f(a, b); each operand is a vector, one number, or lies scattered.
template <class F>
inline void broadcast_line(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step, float* y, std::int64_t n,
                           F f) {
  if (a_step == 1 && b_step == 1)
    return map(y, n, false, [=](std::int64_t i) { return f(a[i], b[i]); });
  if (a_step == 1 && b_step == 0)
    return map(y, n, false, [=, right = *b](std::int64_t i) { return f(a[i], right); });
  if (a_step == 0 && b_step == 1)
    return map(y, n, false, [=, left = *a](std::int64_t i) { return f(left, b[i]); });
  map(y, n, false, [=](std::int64_t i) { return f(a[i * a_step], b[i * b_step]); });
}

void run(const broadcast_binary& op) {
  constexpr std::size_t last = most_axes - 1;
  const std::int64_t n = op.extents[last];
  const auto each = [&](auto f) {
    float* y = op.y;
    for_lines<last>(
        op.extents,
        [&](std::int64_t a, std::int64_t b) {
          broadcast_line(op.a + a, op.a_strides[last], op.b + b, op.b_strides[last], y, n, f);
          y += n;
        },
        op.a_strides, op.b_strides);
  };
  switch (op.op) {
  case binary_op::add:
    return each([](float a, float b) { return a + b; });
  case binary_op::subtract:
    return each([](float a, float b) { return a - b; });
  case binary_op::multiply:
    return each([](float a, float b) { return a * b; });
  case binary_op::divide:
    return each([](float a, float b) { return a / b; });
  }
}

/// y[i * y_step] = f(x[i * x_step], the y that is there): copies, scales or adds.
template <class F>
inline void copy_line(const float* x, std::int64_t x_step, float* y, std::int64_t y_step, std::int64_t n, F f) {
  if (x_step == 1 && y_step == 1)
    return map(y, n, false, [=](std::int64_t i) { return f(x[i], y[i]); });
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i * y_step] = f(x[i * x_step], y[i * y_step]);
}

/// A transposition goes by squares of this side: their lines stay in the first-level cache.
constexpr std::int64_t square_side = 32;

template <class F>
inline void copy_elements(const copy_strided& op, F f) {
  constexpr std::size_t last = most_axes - 1, other = most_axes - 2;
  const std::int64_t n = op.extents[last], lines = op.extents[other];
  const std::int64_t x_step = op.x_strides[last], y_step = op.y_strides[last];
  if (x_step <= 1 || op.x_strides[other] != 1)
    return for_lines<last>(
        op.extents, [&](std::int64_t x, std::int64_t y) { copy_line(op.x + x, x_step, op.y + y, y_step, n, f); }, op.x_strides,
        op.y_strides);
  for_lines<other>(
      op.extents,
      [&](std::int64_t x_begin, std::int64_t y_begin) {
        for (std::int64_t line = 0; line < lines; line += square_side)
          for (std::int64_t i = 0; i < n; i += square_side)
            for (std::int64_t l = line; l < min(line + square_side, lines); ++l)
              copy_line(op.x + x_begin + l + i * x_step, x_step, op.y + y_begin + l * op.y_strides[other] + i * y_step, y_step,
                        min(square_side, n - i), f);
      },
      op.x_strides, op.y_strides);
}

void run(const copy_strided& op) {
  const float alpha = op.alpha;
  if (alpha == 1 && !op.accumulate)
    copy_elements(op, [](float x, float) { return x; });
  else if (!op.accumulate)
    copy_elements(op, [alpha](float x, float) { return alpha * x; });
  else
    copy_elements(op, [alpha](float x, float y) { return mul_add(alpha, x, y); });
}

/// y[i] += scale * the sum over `rows` of x[row * stride + i], in order, for a block of columns at a time.
inline void add_rows(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, float scale, float* y,
                     std::int64_t y_step) {
  alignas(64) float sums[block_size];
  for (std::int64_t begin = 0; begin < columns; begin += block_size) {
    const std::int64_t count = min(block_size, columns - begin);
    sum_block(x + begin, rows, stride, count, sums);
    float* to = y + begin * y_step;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i)
      to[i * y_step] = mul_add(scale, sums[i], to[i * y_step]);
  }
}

void run(const sum_axes& op) {
  constexpr std::size_t last = most_axes - 1, other = most_axes - 2;
  const axes& to = op.y_strides;
  const std::int64_t n = op.extents[last], rows = op.extents[other];
  if (!op.accumulate) {
    axes kept = op.extents;
    for (std::size_t i = 0; i < most_axes; ++i)
      kept[i] = to[i] == 0 ? 1 : kept[i];
    for_lines<last>(
        kept, [&](std::int64_t y) { copy_line(op.y + y, 0, op.y + y, to[last], kept[last], [](float, float) { return 0.0F; }); },
        to);
  }
  const float* x = op.x;
  if (to[last] != 0 && to[other] == 0) // columns over rows
    return for_lines<other>(
        op.extents,
        [&](std::int64_t y) {
          add_rows(x, rows, n, n, op.scale, op.y + y, to[last]);
          x += rows * n;
        },
        to);
  for_lines<last>(
      op.extents,
      [&](std::int64_t y) {
        if (to[last] == 0)
          op.y[y] = mul_add(op.scale, sum_of(x, n), op.y[y]);
        else
          copy_line(x, 1, op.y + y, to[last], n,
                    [scale = op.scale](float value, float sum) { return mul_add(scale, value, sum); });
        x += n;
      },
      to);
}
