// SPDX-License-Identifier: BSD-3-Clause
// Products and convolutions, as plain loops.
#include "kernels/reference/compute.hpp"

namespace troupe::kernels::reference {

namespace {

/// Calls visit(y_index, x_index, weight_index) for every product of a convolution.
template <class F>
void for_products(const window2d& w, std::int64_t out_channels, F visit) {
  const std::int64_t inputs = w.c / w.groups, outputs = out_channels / w.groups;
  for (std::int64_t n = 0; n < w.n; ++n)
    for (std::int64_t k = 0; k < out_channels; ++k)
      for (std::int64_t oh = 0; oh < w.out_h(); ++oh)
        for (std::int64_t ow = 0; ow < w.out_w(); ++ow)
          for (std::int64_t c = 0; c < inputs; ++c)
            for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
                const auto h = oh * w.stride - w.padding + kh * w.dilation, column = ow * w.stride - w.padding + kw * w.dilation;
                const auto channel = k / outputs * inputs + c;
                if (h >= 0 && h < w.h && column >= 0 && column < w.w)
                  visit(((n * out_channels + k) * w.out_h() + oh) * w.out_w() + ow,
                        ((n * w.c + channel) * w.h + h) * w.w + column, ((k * inputs + c) * w.kernel_h + kh) * w.kernel_w + kw);
              }
}

} // namespace

template <class Real>
void conv2d(const window2d& w, std::int64_t out_channels, const Real* x, const Real* weight, const Real* bias, activation act,
            Real* y) {
  const auto plane = w.out_h() * w.out_w();
  std::vector<double> result(size(w.n * out_channels * plane));
  for_products(w, out_channels, [&](auto yi, auto xi, auto wi) { result[size(yi)] += static_cast<double>(x[xi]) * weight[wi]; });
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = activate(act, result[i] + (bias ? bias[static_cast<std::int64_t>(i) / plane % out_channels] : Real{0}));
  store(result, y);
}

template <class Real>
void conv2d_backward(const window2d& w, std::int64_t out_channels, const Real* x, const Real* weight, const Real* dy, Real* dx,
                     Real* dweight, Real* dbias, bool accumulate) {
  const auto plane = w.out_h() * w.out_w();
  std::vector<double> images(size(w.n * w.c * w.h * w.w)), weights(size(w.weights(out_channels)));
  std::vector<double> biases(size(out_channels));
  for_products(w, out_channels, [&](auto yi, auto xi, auto wi) {
    images[size(xi)] += static_cast<double>(dy[yi]) * weight[wi];
    weights[size(wi)] += static_cast<double>(dy[yi]) * x[xi];
  });
  for (std::int64_t i = 0; i < w.n * out_channels * plane; ++i)
    biases[size(i / plane % out_channels)] += dy[i];
  store(images, dx);
  store(weights, dweight, accumulate);
  store(biases, dbias, accumulate);
}

template void conv2d(const window2d&, std::int64_t, const float*, const float*, const float*, activation, float*);
template void conv2d(const window2d&, std::int64_t, const double*, const double*, const double*, activation, double*);
template void conv2d_backward(const window2d&, std::int64_t, const float*, const float*, const float*, float*, float*, float*,
                              bool);
template void conv2d_backward(const window2d&, std::int64_t, const double*, const double*, const double*, double*, double*,
                              double*, bool);

void compute(const kernels::gemm& g) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      double product = 0;
      for (std::int64_t l = 0; l < g.k; ++l)
        product += static_cast<double>(g.transpose_a ? g.a[l * g.m + i] : g.a[i * g.k + l])
                   * (g.transpose_b ? g.b[j * g.k + l] : g.b[l * g.n + j]);
      float& c = g.c[i * g.n + j];
      const double pre = g.alpha * product + (g.beta == 0 ? 0.0 : static_cast<double>(g.beta) * c) + (g.bias ? g.bias[j] : 0.0F);
      if (g.pre)
        g.pre[i * g.n + j] = rounded(pre);
      c = rounded(activate(g.act, pre));
    }
}

void compute(const kernels::batched_gemm& op) {
  for (std::int64_t i = 0; i < op.batch; ++i)
    compute(op.product(i));
}

void compute(const kernels::conv2d& op) {
  conv2d(op.window, op.out_channels, op.x, op.weight, op.bias, op.act, op.y);
}

void compute(const kernels::conv2d_backward& op) {
  conv2d_backward(op.window, op.out_channels, op.x, op.weight, op.dy, op.dx, op.dweight, op.dbias, op.accumulate);
}

} // namespace troupe::kernels::reference
