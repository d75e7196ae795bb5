// SPDX-License-Identifier: BSD-3-Clause
// Maps each op to its kernel.
#include "tensor/execute.hpp"

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// What both visitors need: the shapes around one instruction.
class shapes_of {
public:
  shapes_of(const graph& g, const node& n, std::int64_t rows) : g_(g), n_(n), rows_(rows) {}

protected:
  const value& in(std::size_t i) const { return g_.at(n_.inputs[i]); }
  const value& out(std::size_t i) const { return g_.at(n_.outputs[i]); }
  std::int64_t count(const value& v) const { return v.elements(rows_); }

  struct product {
    std::int64_t m = 0, n = 0, k = 0;
  };
  product extents(const ops::matmul& op) const {
    const auto a = as_matrix(in(0), rows_), b = as_matrix(in(1), rows_);
    return {op.transpose_a ? a.columns : a.rows, op.transpose_b ? b.rows : b.columns, op.transpose_a ? a.rows : a.columns};
  }

  /// The window of a convolution whose inputs begin with images and weights.
  template <class Op>
  kernels::window2d convolution(const Op& op) const {
    const auto& w = in(1).dims;
    return window_over(in(0).dims, rows_, w[2], w[3], op.stride, op.padding);
  }
  template <class Op>
  kernels::window2d pooling(const Op& op, const shape& image) const {
    return window_over(image, rows_, op.size, op.size, op.stride, op.padding);
  }

  const graph& g_;
  const node& n_;
  std::int64_t rows_;
};

class executor : shapes_of {
public:
  executor(const graph& g, const placement& places, const node& n, const bindings& bound, kernels::backend& queue)
      : shapes_of(g, n, bound.rows), places_(places), bound_(bound), queue_(queue) {}

  void operator()(const ops::input&) const {}
  void operator()(const ops::parameter&) const {}
  void operator()(const ops::reshape&) const {}

  void operator()(const ops::matmul& op) const {
    const auto size = extents(op);
    queue_.gemm({.m = size.m,
                 .n = size.n,
                 .k = size.k,
                 .a = x(0),
                 .b = x(1),
                 .c = y(0),
                 .transpose_a = op.transpose_a,
                 .transpose_b = op.transpose_b,
                 .bias = n_.inputs.size() > 2 ? x(2) : nullptr,
                 .act = op.act,
                 .pre = n_.outputs.size() > 1 ? y(1) : nullptr});
  }

  void operator()(const ops::add_bias&) const {
    queue_.bias_activation(x(0), x(1), kernels::activation::none, y(0), rows_, in(1).dims[0]);
  }

  void operator()(const ops::unary& op) const { queue_.unary(op.what, x(0), y(0), count(out(0))); }
  void operator()(const ops::binary& op) const { queue_.binary(op.what, x(0), x(1), y(0), count(out(0))); }

  void operator()(const ops::unary_backward& op) const {
    const bool from_result = ops::saves_result(op.what);
    queue_.unary_backward(op.what, from_result ? nullptr : x(0), from_result ? x(0) : nullptr, x(1), y(0), count(out(0)));
  }

  void operator()(const ops::conv2d& op) const {
    queue_.conv2d({.window = convolution(op),
                   .out_channels = in(1).dims[0],
                   .x = x(0),
                   .weight = x(1),
                   .bias = n_.inputs.size() > 2 ? x(2) : nullptr,
                   .y = y(0),
                   .act = op.act});
  }

  void operator()(const ops::conv2d_backward& op) const {
    queue_.conv2d_backward({.window = convolution(op),
                            .out_channels = in(1).dims[0],
                            .x = x(0),
                            .weight = x(1),
                            .dy = x(2),
                            .dx = y(0),
                            .dweight = y(1),
                            .dbias = y(2)});
  }

  void operator()(const ops::max_pool& op) const {
    queue_.max_pool(pooling(op, in(0).dims), x(0), y(0), integers(n_.outputs[1]));
  }
  void operator()(const ops::avg_pool& op) const { queue_.avg_pool(pooling(op, in(0).dims), x(0), y(0)); }
  void operator()(const ops::max_pool_backward& op) const {
    queue_.max_pool_backward(pooling(op, op.image), integers(n_.inputs[0]), x(1), y(0));
  }
  void operator()(const ops::avg_pool_backward& op) const { queue_.avg_pool_backward(pooling(op, op.image), x(0), y(0)); }

  void operator()(const ops::layernorm& op) const {
    queue_.layernorm(x(0), x(1), x(2), op.epsilon, y(0), y(1), y(2), rows_, in(0).dims.elements());
  }
  void operator()(const ops::layernorm_backward&) const {
    queue_.layernorm_backward(x(0), x(1), x(2), x(3), x(4), y(0), y(1), y(2), rows_, in(0).dims.elements());
  }

  void operator()(const ops::dropout& op) const {
    queue_.dropout(x(0), y(0), rows_, count(out(0)) / rows_, op.rate, bound_.key, op.stream);
  }

  void operator()(const ops::cross_entropy&) const {
    // The gradient of the mean over the rows.
    const float scale = 1.0F / static_cast<float>(rows_);
    queue_.softmax_cross_entropy(x(0), integers(n_.inputs[1]), scale, y(0), y(1), integers(n_.outputs[2]), rows_, in(0).dims[0]);
  }

  void operator()(const ops::sum_rows&) const { queue_.sum_rows(x(0), y(0), rows_, in(0).dims.elements()); }

private:
  float* at(value_id v) const { return bound_.address(places_.of[static_cast<std::size_t>(v)]); }
  const float* x(std::size_t i) const { return at(n_.inputs[i]); }
  float* y(std::size_t i) const { return at(n_.outputs[i]); }
  std::int32_t* integers(value_id v) const { return reinterpret_cast<std::int32_t*>(at(v)); }

  const placement& places_;
  const bindings& bound_;
  kernels::backend& queue_;
};

class flop_count : shapes_of {
public:
  flop_count(const graph& g, const placement& places, const node& n, std::int64_t rows)
      : shapes_of(g, n, rows), places_(places) {}

  double operator()(const ops::matmul& op) const {
    const auto size = extents(op);
    return 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  }
  double operator()(const ops::conv2d& op) const { return convolution_flops(op); }
  double operator()(const ops::conv2d_backward& op) const {
    // The gradient of the weights costs what the forward costs, and so does that of the images where it is wanted.
    const bool images = places_.of[static_cast<std::size_t>(n_.outputs[0])].where != region::nowhere;
    return convolution_flops(op) * (images ? 2 : 1);
  }
  double operator()(const ops::input&) const { return 0; }
  double operator()(const ops::parameter&) const { return 0; }
  double operator()(const ops::reshape&) const { return 0; }
  double operator()(const ops::sum_rows&) const { return elements(in(0)); }
  /// One operation an element: small beside the products, and nobody counts an exponential alike.
  template <class Op>
  double operator()(const Op&) const {
    return elements(out(0));
  }

private:
  double elements(const value& v) const { return static_cast<double>(count(v)); }
  template <class Op>
  double convolution_flops(const Op& op) const {
    const auto window = convolution(op);
    return 2.0 * static_cast<double>(in(1).dims.elements()) * static_cast<double>(window.out_h() * window.out_w() * rows_);
  }

  const placement& places_;
};

} // namespace

float* bindings::address(const place& at) const {
  switch (at.where) {
  case region::nowhere:
    return nullptr;
  case region::workspace:
    return workspace + at.offset;
  case region::parameters:
    return const_cast<float*>(parameters) + at.offset; // no instruction writes there
  case region::gradients:
    return gradients + at.offset;
  case region::report:
    return report + at.offset;
  }
  return nullptr;
}

void execute(const graph& g, const placement& places, const node& n, const bindings& bound, kernels::backend& queue) {
  std::visit(executor{g, places, n, bound, queue}, n.what);
}

double flops(const graph& g, const placement& places, const node& n, std::int64_t rows) {
  return std::visit(flop_count{g, places, n, rows}, n.what);
}

} // namespace troupe
