// SPDX-License-Identifier: BSD-3-Clause
// Max and average pooling, as plain loops.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::reference {

namespace {

/// Calls visit(plane, oh, ow, h, w) for every element inside the image of every window.
template <class F>
void for_windows(const window2d& w, F visit) {
  for (std::int64_t plane = 0; plane < w.n * w.c; ++plane)
    for (std::int64_t oh = 0; oh < w.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < w.out_w(); ++ow)
        for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
          for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
            const auto h = oh * w.stride - w.padding + kh, column = ow * w.stride - w.padding + kw;
            if (h >= 0 && h < w.h && column >= 0 && column < w.w)
              visit(plane, oh, ow, h, column);
          }
}

} // namespace

template <class Real>
void max_pool(const window2d& w, const Real* x, Real* y, std::int32_t* argmax) {
  std::fill_n(argmax, w.n * w.c * w.out_h() * w.out_w(), -1);
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    const auto out = (plane * w.out_h() + oh) * w.out_w() + ow;
    const Real value = x[(plane * w.h + h) * w.w + column];
    if (argmax[out] < 0 || value > y[out] || std::isnan(value)) {
      y[out] = value;
      argmax[out] = static_cast<std::int32_t>(h * w.w + column);
    }
  });
}

template <class Real>
void max_pool_backward(const window2d& w, const std::int32_t* argmax, const Real* dy, Real* dx) {
  std::vector<double> result(size(w.n * w.c * w.h * w.w));
  const auto out = w.out_h() * w.out_w();
  for (std::int64_t i = 0; i < w.n * w.c * out; ++i)
    result[size(i / out * w.h * w.w + argmax[i])] += dy[i];
  store(result, dx);
}

template <class Real>
void avg_pool(const window2d& w, const Real* x, Real* y) {
  const auto out = [&](auto plane, auto oh, auto ow) { return size((plane * w.out_h() + oh) * w.out_w() + ow); };
  std::vector<double> total(size(w.n * w.c * w.out_h() * w.out_w())), count(total.size());
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    total[out(plane, oh, ow)] += x[(plane * w.h + h) * w.w + column];
    count[out(plane, oh, ow)] += 1;
  });
  for (std::size_t i = 0; i < total.size(); ++i)
    y[i] = static_cast<Real>(total[i] / count[i]);
}

template <class Real>
void avg_pool_backward(const window2d& w, const Real* dy, Real* dx) {
  const auto out = [&](auto plane, auto oh, auto ow) { return size((plane * w.out_h() + oh) * w.out_w() + ow); };
  std::vector<double> count(size(w.n * w.c * w.out_h() * w.out_w())), result(size(w.n * w.c * w.h * w.w));
  for_windows(w, [&](auto plane, auto oh, auto ow, auto, auto) { count[out(plane, oh, ow)] += 1; });
  for_windows(w, [&](auto plane, auto oh, auto ow, auto h, auto column) {
    result[size((plane * w.h + h) * w.w + column)] += dy[out(plane, oh, ow)] / count[out(plane, oh, ow)];
  });
  store(result, dx);
}

template void max_pool(const window2d&, const float*, float*, std::int32_t*);
template void max_pool(const window2d&, const double*, double*, std::int32_t*);
template void max_pool_backward(const window2d&, const std::int32_t*, const float*, float*);
template void max_pool_backward(const window2d&, const std::int32_t*, const double*, double*);
template void avg_pool(const window2d&, const float*, float*);
template void avg_pool(const window2d&, const double*, double*);
template void avg_pool_backward(const window2d&, const float*, float*);
template void avg_pool_backward(const window2d&, const double*, double*);

void compute(const kernels::max_pool& op) {
  max_pool(op.window, op.x, op.y, op.argmax);
}

void compute(const kernels::max_pool_backward& op) {
  max_pool_backward(op.window, op.argmax, op.dy, op.dx);
}

void compute(const kernels::avg_pool& op) {
  avg_pool(op.window, op.x, op.y);
}

void compute(const kernels::avg_pool_backward& op) {
  avg_pool_backward(op.window, op.dy, op.dx);
}

} // namespace troupe::kernels::reference
