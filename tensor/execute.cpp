// SPDX-License-Identifier: BSD-3-Clause
// Maps each node to its operations.
#include "tensor/execute.hpp"

#include <array>
#include <cmath>
#include <type_traits>

#include "tensor/inference.hpp"

namespace troupe {

namespace {

/// Enqueues the operations of a node.
class lowering {
public:
  lowering(const graph& g, const placement& places, const node& n, const bindings& bound, const operation_sink& each)
      : g_(g), n_(n), places_(places), bound_(bound), rows_(bound.rows), each_(each) {}

  void operator()(const ops::input&) const {}
  void operator()(const ops::parameter&) const {}
  void operator()(const ops::gradient&) const {}
  void operator()(const ops::constant& op) const { each_(kernels::fill{.y = y(0), .value = op.value, .count = count(out(0))}); }

  void operator()(const ops::matmul& op) const {
    const auto a = as_matrix(in(0), rows_), b = as_matrix(in(1), rows_);
    each_(kernels::gemm{.m = op.transpose_a ? a.columns : a.rows,
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
                        .pre = n_.outputs.size() > 1 ? y(1) : nullptr});
  }

  void operator()(const ops::batched_matmul& op) const {
    const auto rank = in(0).dims.rank();
    const auto m = out(0).dims[rank - 2], n = out(0).dims[rank - 1], k = in(0).dims[op.transpose_a ? rank - 2 : rank - 1];
    each_(kernels::batched_gemm{.batch = count(out(0)) / (m * n),
                                .m = m,
                                .n = n,
                                .k = k,
                                .a = x(0),
                                .b = x(1),
                                .c = y(0),
                                .stride_a = m * k,
                                .stride_b = k * n,
                                .stride_c = m * n,
                                .transpose_a = op.transpose_a,
                                .transpose_b = op.transpose_b,
                                .alpha = op.scale,
                                .beta = adds(0) ? 1.0F : 0.0F});
  }

  void operator()(const ops::conv2d& op) const {
    each_(kernels::conv2d{.window = convolution(op),
                          .out_channels = in(1).dims[0],
                          .x = x(0),
                          .weight = x(1),
                          .bias = n_.inputs.size() > 2 ? x(2) : nullptr,
                          .y = y(0),
                          .act = op.act});
  }
  void operator()(const ops::conv2d_backward& op) const {
    each_(kernels::conv2d_backward{.window = convolution(op),
                                   .out_channels = in(1).dims[0],
                                   .x = x(0),
                                   .weight = x(1),
                                   .dy = x(2),
                                   .dx = y(0),
                                   .dweight = y(1),
                                   .dbias = y(2),
                                   .accumulate = adds(1)});
  }

  void operator()(const ops::add_bias&) const {
    const auto columns = in(1).dims.elements();
    each_(kernels::bias_activation{.x = x(0), .bias = x(1), .y = y(0), .rows = count(in(0)) / columns, .columns = columns});
  }

  void operator()(const ops::unary& op) const {
    each_(kernels::unary{.op = op.op, .x = x(0), .y = y(0), .count = count(out(0))});
  }
  void operator()(const ops::binary& op) const {
    if (in(0).dims == in(1).dims && in(0).per_row == in(1).per_row)
      each_(kernels::binary{.op = op.op, .a = x(0), .b = x(1), .y = y(0), .count = count(out(0))});
    else
      each_(kernels::broadcast_binary{.op = op.op,
                                      .extents = extents_with_rows(out(0), rows_),
                                      .a = x(0),
                                      .a_strides = steps_within(in(0), out(0), rows_),
                                      .b = x(1),
                                      .b_strides = steps_within(in(1), out(0), rows_),
                                      .y = y(0)});
  }
  void operator()(const ops::unary_backward& op) const {
    const bool from_result = kernels::saves_result(op.op);
    each_(kernels::unary_backward{.op = op.op,
                                  .x = from_result ? nullptr : x(0),
                                  .y = from_result ? x(0) : nullptr,
                                  .dy = x(1),
                                  .dx = y(0),
                                  .count = count(out(0))});
  }
  void operator()(const ops::dropout& op) const {
    each_(kernels::dropout{.x = x(0),
                           .y = y(0),
                           .rows = rows_,
                           .columns = count(out(0)) / rows_,
                           .rate = op.rate,
                           .key = &bound_.numbers->key,
                           .layer = op.stream});
  }

  void operator()(const ops::reshape&) const {}
  void operator()(const ops::permute& op) const {
    const auto of_x = kernels::row_major(extents_with_rows(in(0), rows_));
    const auto lead = kernels::most_axes - op.axes.size(); // axes before the first of `dims`; the rows are the last of them
    auto strides = of_x;
    for (std::size_t i = 0; i < op.axes.size(); ++i)
      strides[lead + i] = of_x[lead + op.axes[i]];
    const auto extents = extents_with_rows(out(0), rows_);
    each_(kernels::copy_strided{.extents = extents,
                                .x = x(0),
                                .x_strides = strides,
                                .y = y(0),
                                .y_strides = kernels::row_major(extents),
                                .accumulate = adds(0)});
  }
  void operator()(const ops::split& op) const {
    for_parts(
        op.axis, in(0), n_.outputs, [&](std::size_t i, const kernels::axes& extents, const kernels::axes& within, auto begin) {
          if (auto* part = y(i))
            each_(kernels::copy_strided{
                .extents = extents, .x = x(0) + begin, .x_strides = within, .y = part, .y_strides = kernels::row_major(extents)});
        });
  }
  void operator()(const ops::concat& op) const {
    for_parts(op.axis, out(0), n_.inputs,
              [&](std::size_t i, const kernels::axes& extents, const kernels::axes& within, auto begin) {
                each_(kernels::copy_strided{.extents = extents,
                                            .x = x(i),
                                            .x_strides = kernels::row_major(extents),
                                            .y = y(0) + begin,
                                            .y_strides = within,
                                            .accumulate = adds(0)});
              });
  }
  void operator()(const ops::sum_to& op) const {
    const auto kept = out(0).dims.elements();
    if (ends_with(in(0).dims, op.dims) && !op.per_row && op.scale == 1)
      each_(kernels::sum_rows{.x = x(0), .y = y(0), .rows = count(in(0)) / kept, .columns = kept, .accumulate = adds(0)});
    else
      each_(kernels::sum_axes{.extents = extents_with_rows(in(0), rows_),
                              .x = x(0),
                              .y = y(0),
                              .y_strides = steps_within(out(0), in(0), rows_),
                              .scale = op.scale,
                              .accumulate = adds(0)});
  }
  void operator()(const ops::expand& op) const {
    const auto extents = extents_with_rows(out(0), rows_);
    each_(kernels::copy_strided{.extents = extents,
                                .x = x(0),
                                .x_strides = steps_within(in(0), out(0), rows_),
                                .y = y(0),
                                .y_strides = kernels::row_major(extents),
                                .alpha = op.scale,
                                .accumulate = adds(0)});
  }

  void operator()(const ops::max_pool& op) const {
    each_(kernels::max_pool{.window = pooling(op, in(0).dims), .x = x(0), .y = y(0), .argmax = integers(n_.outputs[1])});
  }
  void operator()(const ops::max_pool_backward& op) const {
    each_(kernels::max_pool_backward{.window = pooling(op, op.image), .argmax = integers(n_.inputs[0]), .dy = x(1), .dx = y(0)});
  }
  void operator()(const ops::avg_pool& op) const {
    each_(kernels::avg_pool{.window = pooling(op, in(0).dims), .x = x(0), .y = y(0)});
  }
  void operator()(const ops::avg_pool_backward& op) const {
    each_(kernels::avg_pool_backward{.window = pooling(op, op.image), .dy = x(0), .dx = y(0)});
  }

  void operator()(const ops::layernorm& op) const {
    const auto columns = in(1).dims.elements();
    each_(kernels::layernorm{.x = x(0),
                             .gamma = x(1),
                             .beta = x(2),
                             .epsilon = op.epsilon,
                             .y = y(0),
                             .mean = y(1),
                             .rstd = y(2),
                             .rows = count(in(0)) / columns,
                             .columns = columns});
  }
  void operator()(const ops::layernorm_backward&) const {
    const auto columns = in(1).dims.elements();
    each_(kernels::layernorm_backward{.x = x(0),
                                      .gamma = x(1),
                                      .mean = x(2),
                                      .rstd = x(3),
                                      .dy = x(4),
                                      .dx = y(0),
                                      .dgamma = y(1),
                                      .dbeta = y(2),
                                      .rows = count(in(0)) / columns,
                                      .columns = columns,
                                      .accumulate = adds(1)});
  }
  void operator()(const ops::rmsnorm& op) const {
    const auto columns = in(1).dims.elements();
    each_(kernels::rmsnorm{.x = x(0),
                           .gamma = x(1),
                           .epsilon = op.epsilon,
                           .y = y(0),
                           .rstd = y(1),
                           .rows = count(in(0)) / columns,
                           .columns = columns});
  }
  void operator()(const ops::rmsnorm_backward&) const {
    const auto columns = in(1).dims.elements();
    each_(kernels::rmsnorm_backward{.x = x(0),
                                    .gamma = x(1),
                                    .rstd = x(2),
                                    .dy = x(3),
                                    .dx = y(0),
                                    .dgamma = y(1),
                                    .rows = count(in(0)) / columns,
                                    .columns = columns,
                                    .accumulate = adds(1)});
  }
  void operator()(const ops::groupnorm& op) const {
    each_(kernels::groupnorm{.x = x(0),
                             .gamma = x(1),
                             .beta = x(2),
                             .epsilon = op.epsilon,
                             .y = y(0),
                             .mean = y(1),
                             .rstd = y(2),
                             .rows = rows_,
                             .channels = in(0).dims[0],
                             .inner = in(0).dims.elements() / in(0).dims[0],
                             .groups = op.groups});
  }
  void operator()(const ops::groupnorm_backward& op) const {
    each_(kernels::groupnorm_backward{.x = x(0),
                                      .gamma = x(1),
                                      .mean = x(2),
                                      .rstd = x(3),
                                      .dy = x(4),
                                      .dx = y(0),
                                      .dgamma = y(1),
                                      .dbeta = y(2),
                                      .rows = rows_,
                                      .channels = in(0).dims[0],
                                      .inner = in(0).dims.elements() / in(0).dims[0],
                                      .groups = op.groups,
                                      .accumulate = adds(1)});
  }
  void operator()(const ops::batchnorm& op) const {
    each_(kernels::batchnorm{.x = x(0),
                             .gamma = x(1),
                             .beta = x(2),
                             .running_mean = x(3),
                             .running_variance = x(4),
                             .epsilon = op.epsilon,
                             .momentum = op.momentum,
                             .weight = bound_.share,
                             .y = y(0),
                             .mean = y(1),
                             .rstd = y(2),
                             .mean_step = y(3),
                             .variance_step = y(4),
                             .rows = rows_,
                             .channels = in(0).dims[0],
                             .inner = in(0).dims.elements() / in(0).dims[0],
                             .accumulate = adds(3)});
  }
  void operator()(const ops::batchnorm_inference& op) const {
    each_(kernels::batchnorm_inference{.x = x(0),
                                       .gamma = x(1),
                                       .beta = x(2),
                                       .running_mean = x(3),
                                       .running_variance = x(4),
                                       .epsilon = op.epsilon,
                                       .y = y(0),
                                       .rows = rows_,
                                       .channels = in(0).dims[0],
                                       .inner = in(0).dims.elements() / in(0).dims[0]});
  }
  void operator()(const ops::batchnorm_backward&) const {
    each_(kernels::batchnorm_backward{.x = x(0),
                                      .gamma = x(1),
                                      .mean = x(2),
                                      .rstd = x(3),
                                      .dy = x(4),
                                      .dx = y(0),
                                      .dgamma = y(1),
                                      .dbeta = y(2),
                                      .rows = rows_,
                                      .channels = in(0).dims[0],
                                      .inner = in(0).dims.elements() / in(0).dims[0],
                                      .accumulate = adds(1)});
  }
  void operator()(const ops::softmax&) const {
    const auto columns = last_of(in(0));
    each_(kernels::softmax{.x = x(0), .y = y(0), .rows = count(in(0)) / columns, .columns = columns});
  }
  void operator()(const ops::softmax_backward&) const {
    const auto columns = last_of(in(0));
    each_(kernels::softmax_backward{.y = x(0), .dy = x(1), .dx = y(0), .rows = count(in(0)) / columns, .columns = columns});
  }

  void operator()(const ops::embedding&) const {
    each_(kernels::embedding{.table = x(1),
                             .ids = integers(n_.inputs[0]),
                             .y = y(0),
                             .count = count(in(0)),
                             .width = in(1).dims[1],
                             .vocabulary = in(1).dims[0]});
  }
  void operator()(const ops::embedding_backward& op) const {
    each_(kernels::embedding_backward{.ids = integers(n_.inputs[0]),
                                      .dy = x(1),
                                      .dtable = y(0),
                                      .count = count(in(0)),
                                      .width = op.table[1],
                                      .vocabulary = op.table[0],
                                      .accumulate = adds(0)});
  }
  void operator()(const ops::attention& op) const {
    const auto shape = shape_of(op, n_.inputs.size() == 1);
    const auto [q, k, v] = views(shape, n_.inputs.size() == 1, [this](std::size_t i) { return x(i); });
    each_(kernels::attention{.shape = shape,
                             .q = q,
                             .k = k,
                             .v = v,
                             .y = y(0),
                             .lse = y(1),
                             .rate = op.rate,
                             .key = op.rate > 0 ? &bound_.numbers->key : nullptr,
                             .layer = op.stream});
  }
  void operator()(const ops::attention_backward& op) const {
    const bool together = n_.outputs.size() == 1;
    const auto shape = shape_of(op.forward, together);
    const auto [q, k, v] = views(shape, together, [this](std::size_t i) { return x(i); });
    const auto [dq, dk, dv] = views(shape, together, [this](std::size_t i) { return y(i); });
    const auto saved = n_.outputs.size();
    each_(kernels::attention_backward{.shape = shape,
                                      .q = q,
                                      .k = k,
                                      .v = v,
                                      .y = x(saved),
                                      .lse = x(saved + 1),
                                      .dy = x(saved + 2),
                                      .dq = dq,
                                      .dk = dk,
                                      .dv = dv,
                                      .rate = op.forward.rate,
                                      .key = op.forward.rate > 0 ? &bound_.numbers->key : nullptr,
                                      .layer = op.forward.stream});
  }
  void operator()(const ops::rotary& op) const {
    each_(kernels::rotary{.x = x(0),
                          .y = y(0),
                          .rows = rows_,
                          .length = in(0).dims[0],
                          .width = in(0).dims[1],
                          .heads = op.heads,
                          .head_size = op.head_size,
                          .rotated = op.head_size,
                          .base = op.base,
                          .interleaved = op.interleaved,
                          .inverse = op.inverse});
  }
  void operator()(const ops::lstm&) const {
    each_(kernels::lstm{.projected = x(0),
                        .u = x(1),
                        .bias = x(2),
                        .y = y(0),
                        .gates = y(1),
                        .cells = y(2),
                        .rows = rows_,
                        .length = out(0).dims[0],
                        .width = out(0).dims[1]});
  }
  void operator()(const ops::lstm_backward&) const {
    each_(kernels::lstm_backward{.u = x(0),
                                 .y = x(1),
                                 .gates = x(2),
                                 .cells = x(3),
                                 .dy = x(4),
                                 .dprojected = y(0),
                                 .du = y(1),
                                 .dbias = y(2),
                                 .rows = rows_,
                                 .length = in(1).dims[0],
                                 .width = in(1).dims[1],
                                 .accumulate = adds(1)});
  }
  void operator()(const ops::gru&) const {
    each_(kernels::gru{.projected = x(0),
                       .u = x(1),
                       .bias = x(2),
                       .y = y(0),
                       .gates = y(1),
                       .candidates = y(2),
                       .rows = rows_,
                       .length = out(0).dims[0],
                       .width = out(0).dims[1]});
  }
  void operator()(const ops::gru_backward&) const {
    each_(kernels::gru_backward{.u = x(0),
                                .y = x(1),
                                .gates = x(2),
                                .candidates = x(3),
                                .dy = x(4),
                                .dprojected = y(0),
                                .du = y(1),
                                .dbias = y(2),
                                .rows = rows_,
                                .length = in(1).dims[0],
                                .width = in(1).dims[1],
                                .accumulate = adds(1)});
  }

  void operator()(const ops::cross_entropy& op) const {
    each_(kernels::softmax_cross_entropy{.logits = x(0),
                                         .labels = integers(n_.inputs[1]),
                                         .loss = y(0),
                                         .dlogits = y(1),
                                         .correct = integers(n_.outputs[2]),
                                         .rows = count(out(0)),
                                         .classes = last_of(in(0)),
                                         .device_scale = &bound_.numbers->scale,
                                         .smoothing = op.smoothing});
  }
  void operator()(const ops::mean_squared_error&) const {
    each_(kernels::mean_squared_error{.x = x(0),
                                      .target = x(1),
                                      .loss = y(0),
                                      .dx = y(1),
                                      .rows = count(out(0)),
                                      .columns = last_of(in(0)),
                                      .device_scale = &bound_.numbers->scale});
  }
  void operator()(const ops::sigmoid_cross_entropy&) const {
    each_(kernels::sigmoid_cross_entropy{.x = x(0),
                                         .target = x(1),
                                         .loss = y(0),
                                         .dx = y(1),
                                         .correct = integers(n_.outputs[2]),
                                         .rows = count(out(0)),
                                         .columns = last_of(in(0)),
                                         .device_scale = &bound_.numbers->scale});
  }

private:
  const value& in(std::size_t i) const { return g_.at(n_.inputs[i]); }
  const value& out(std::size_t i) const { return g_.at(n_.outputs[i]); }
  std::int64_t count(const value& v) const { return v.elements(rows_); }
  static std::int64_t last_of(const value& v) { return v.dims[v.dims.rank() - 1]; }
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
    return window_over(in(0).dims, rows_, w[2], w[3], op.stride, op.padding, op.dilation, op.groups);
  }
  template <class Op>
  kernels::window2d pooling(const Op& op, const shape& image) const {
    return window_over(image, rows_, op.size, op.size, op.stride, op.padding);
  }

  /// Calls f(i, a part's extents, its strides within the whole, where it begins there) for each part along an axis.
  template <class F>
  void for_parts(std::size_t axis, const value& whole, const std::vector<value_id>& parts, F f) const {
    const auto within = kernels::row_major(extents_with_rows(whole, rows_));
    const auto step = within[kernels::most_axes - whole.dims.rank() + axis];
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      f(i, extents_with_rows(g_.at(parts[i]), rows_), within, begin * step);
      begin += g_.at(parts[i]).dims[axis];
    }
  }

  /// Of an attention whose inputs begin with queries, keys and values, in one tensor or apart.
  kernels::attention_shape shape_of(const ops::attention& op, bool together) const {
    const auto width = in(0).dims[1], head = width / (together ? op.heads + 2 * op.key_heads : op.heads);
    return {.rows = rows_,
            .length = in(0).dims[0],
            .heads = op.heads,
            .key_heads = op.key_heads,
            .head_size = head,
            .q_stride = width,
            .kv_stride = together ? width : in(1).dims[1],
            .causal = op.causal,
            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head)))};
  }
  template <class F>
  static std::array<std::invoke_result_t<F, std::size_t>, 3> views(const kernels::attention_shape& s, bool together, F tensor) {
    auto* q = tensor(0);
    if (together)
      return {q, q + s.width(), q + s.width() + s.key_width()};
    return {q, tensor(1), tensor(2)};
  }

  const graph& g_;
  const node& n_;
  const placement& places_;
  const bindings& bound_;
  const std::int64_t rows_;
  const operation_sink& each_;
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

void each_operation(const graph& g, const placement& places, const node& n, const bindings& bound, const operation_sink& each) {
  std::visit(lowering{g, places, n, bound, each}, n.op);
}

instruction_cost cost_of(const graph& g, const placement& places, const node& n, std::int64_t rows) {
  // Only whether an address is null matters: it tells whether a result is wanted.
  float anywhere = 0;
  const step_numbers numbers;
  instruction_cost cost;
  each_operation(g, places, n, {&anywhere, &anywhere, &anywhere, &anywhere, rows, 1, &numbers},
                 [&cost](const kernels::operation& op) {
                   cost.flops += kernels::flops(op);
                   cost.bytes += kernels::bytes_moved(op);
                 });
  return cost;
}

} // namespace troupe
