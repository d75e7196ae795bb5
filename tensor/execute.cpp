// SPDX-License-Identifier: BSD-3-Clause
// Maps each node to its operation.
#include "tensor/execute.hpp"

namespace troupe {

namespace {

/// The operation of a node; none where there is nothing to compute.
class lowering {
public:
  lowering(const graph& g, const placement& places, const node& n, const bindings& bound)
      : g_(g), n_(n), places_(places), bound_(bound), rows_(bound.rows) {}

  using result = std::optional<kernels::operation>;

  result operator()(const ops::input&) const { return {}; }
  result operator()(const ops::parameter&) const { return {}; }
  result operator()(const ops::reshape&) const { return {}; }

  result operator()(const ops::matmul& op) const {
    const auto a = as_matrix(in(0), rows_), b = as_matrix(in(1), rows_);
    return kernels::gemm{.m = op.transpose_a ? a.columns : a.rows,
                         .n = op.transpose_b ? b.rows : b.columns,
                         .k = op.transpose_a ? a.rows : a.columns,
                         .a = x(0),
                         .b = x(1),
                         .c = y(0),
                         .transpose_a = op.transpose_a,
                         .transpose_b = op.transpose_b,
                         .beta = adds(0) ? 1.0F : 0.0F,
                         .bias = n_.inputs.size() > 2 ? x(2) : nullptr,
                         .act = op.act,
                         .pre = n_.outputs.size() > 1 ? y(1) : nullptr};
  }

  result operator()(const ops::add_bias&) const {
    const auto columns = in(1).dims.elements();
    return kernels::bias_activation{.x = x(0), .bias = x(1), .y = y(0), .rows = count(in(0)) / columns, .columns = columns};
  }

  result operator()(const ops::unary& op) const {
    return kernels::unary{.op = op.op, .x = x(0), .y = y(0), .count = count(out(0))};
  }
  result operator()(const ops::binary& op) const {
    return kernels::binary{.op = op.op, .a = x(0), .b = x(1), .y = y(0), .count = count(out(0))};
  }
  result operator()(const ops::unary_backward& op) const {
    const bool from_result = kernels::saves_result(op.op);
    return kernels::unary_backward{.op = op.op,
                                   .x = from_result ? nullptr : x(0),
                                   .y = from_result ? x(0) : nullptr,
                                   .dy = x(1),
                                   .dx = y(0),
                                   .count = count(out(0))};
  }

  result operator()(const ops::conv2d& op) const {
    return kernels::conv2d{.window = convolution(op),
                           .out_channels = in(1).dims[0],
                           .x = x(0),
                           .weight = x(1),
                           .bias = n_.inputs.size() > 2 ? x(2) : nullptr,
                           .y = y(0),
                           .act = op.act};
  }
  result operator()(const ops::conv2d_backward& op) const {
    return kernels::conv2d_backward{.window = convolution(op),
                                    .out_channels = in(1).dims[0],
                                    .x = x(0),
                                    .weight = x(1),
                                    .dy = x(2),
                                    .dx = y(0),
                                    .dweight = y(1),
                                    .dbias = y(2)};
  }

  result operator()(const ops::max_pool& op) const {
    return kernels::max_pool{.window = pooling(op, in(0).dims), .x = x(0), .y = y(0), .argmax = integers(n_.outputs[1])};
  }
  result operator()(const ops::max_pool_backward& op) const {
    return kernels::max_pool_backward{.window = pooling(op, op.image), .argmax = integers(n_.inputs[0]), .dy = x(1), .dx = y(0)};
  }
  result operator()(const ops::avg_pool& op) const {
    return kernels::avg_pool{.window = pooling(op, in(0).dims), .x = x(0), .y = y(0)};
  }
  result operator()(const ops::avg_pool_backward& op) const {
    return kernels::avg_pool_backward{.window = pooling(op, op.image), .dy = x(0), .dx = y(0)};
  }

  result operator()(const ops::layernorm& op) const {
    const auto columns = in(1).dims.elements();
    return kernels::layernorm{.x = x(0),
                              .gamma = x(1),
                              .beta = x(2),
                              .epsilon = op.epsilon,
                              .y = y(0),
                              .mean = y(1),
                              .rstd = y(2),
                              .rows = count(in(0)) / columns,
                              .columns = columns};
  }
  result operator()(const ops::layernorm_backward&) const {
    const auto columns = in(1).dims.elements();
    return kernels::layernorm_backward{.x = x(0),
                                       .gamma = x(1),
                                       .mean = x(2),
                                       .rstd = x(3),
                                       .dy = x(4),
                                       .dx = y(0),
                                       .dgamma = y(1),
                                       .dbeta = y(2),
                                       .rows = count(in(0)) / columns,
                                       .columns = columns};
  }

  result operator()(const ops::dropout& op) const {
    return kernels::dropout{.x = x(0),
                            .y = y(0),
                            .rows = rows_,
                            .columns = count(out(0)) / rows_,
                            .rate = op.rate,
                            .key = bound_.key,
                            .layer = op.stream};
  }

  result operator()(const ops::cross_entropy&) const {
    const auto predictions = count(out(0));
    return kernels::softmax_cross_entropy{.logits = x(0),
                                          .labels = integers(n_.inputs[1]),
                                          .scale = bound_.scale,
                                          .loss = y(0),
                                          .dlogits = y(1),
                                          .correct = integers(n_.outputs[2]),
                                          .rows = predictions,
                                          .classes = in(0).dims[in(0).dims.rank() - 1]};
  }

  result operator()(const ops::sum_rows&) const {
    const auto columns = out(0).dims.elements();
    return kernels::sum_rows{.x = x(0), .y = y(0), .rows = count(in(0)) / columns, .columns = columns};
  }

private:
  const value& in(std::size_t i) const { return g_.at(n_.inputs[i]); }
  const value& out(std::size_t i) const { return g_.at(n_.outputs[i]); }
  std::int64_t count(const value& v) const { return v.elements(rows_); }
  /// Whether result i is added to what is there.
  bool adds(std::size_t i) const { return n_.sum_of(i) != value_id::none; }
  float* at(value_id v) const { return bound_.address(places_.by_value[static_cast<std::size_t>(v)]); }
  const float* x(std::size_t i) const { return at(n_.inputs[i]); }
  float* y(std::size_t i) const { return at(n_.outputs[i]); }
  std::int32_t* integers(value_id v) const { return reinterpret_cast<std::int32_t*>(at(v)); }

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
  const placement& places_;
  const bindings& bound_;
  const std::int64_t rows_;
};

} // namespace

float* bindings::address(const place& p) const {
  switch (p.where) {
  case region::nowhere:
    return nullptr;
  case region::workspace:
    return workspace + p.offset;
  case region::parameters:
    return const_cast<float*>(parameters) + p.offset; // no instruction writes there
  case region::gradients:
    return gradients + p.offset;
  case region::report:
    return report + p.offset;
  }
  return nullptr;
}

std::optional<kernels::operation> operation_of(const graph& g, const placement& places, const node& n, const bindings& bound) {
  return std::visit(lowering{g, places, n, bound}, n.op);
}

double flops(const graph& g, const placement& places, const node& n, std::int64_t rows) {
  float anywhere = 0; // only whether an address is null matters: it tells whether a result is wanted
  const auto op = operation_of(g, places, n, {&anywhere, &anywhere, &anywhere, &anywhere, rows, 1, nullptr});
  return op ? kernels::flops(*op) : 0;
}

} // namespace troupe
