// SPDX-License-Identifier: BSD-3-Clause
// Shape inference: what each op makes of its inputs, and what it refuses.
#include "tensor/graph.hpp"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// Stands for the unknown number of rows while matrices are matched: (rows, 5, 8) has -5 rows. No parameter has a negative
/// extent.
constexpr std::int64_t symbolic_rows = -1;

using inferred = result<std::vector<value>>;

value per_row(shape dims, dtype type = dtype::f32) {
  return {std::move(dims), true, type, {}};
}

value fixed(shape dims) {
  return {std::move(dims), false, dtype::f32, {}};
}

value like(const value& v) {
  return {v.dims, v.per_row, v.type, {}};
}

error misfit(std::string message) {
  return {errc::bad_model, std::move(message)};
}

/// One overload per op: from the inputs' shapes to the outputs', or why not.
class inference {
public:
  explicit inference(std::vector<value> inputs) : in_(std::move(inputs)) {}

  inferred operator()(const ops::input& op) const { return {{per_row(op.sample, op.type)}}; }
  inferred operator()(const ops::parameter& op) const { return {{fixed(op.dims)}}; }

  inferred operator()(const ops::matmul& op) const {
    if (in_.size() != 2 || !is_matrix(in_[0]) || !is_matrix(in_[1]))
      return misfit(fmt::format("a matrix product needs two matrices, got {}", list_inputs()));
    auto a = as_matrix(in_[0], symbolic_rows), b = as_matrix(in_[1], symbolic_rows);
    if (op.transpose_a)
      std::swap(a.rows, a.columns);
    if (op.transpose_b)
      std::swap(b.rows, b.columns);
    if (a.columns != b.rows || b.columns < 0)
      return misfit(fmt::format("the matrix product of {}{} and {}{} has inner extents that differ", in_[0].to_string(),
                                op.transpose_a ? " transposed" : "", in_[1].to_string(), op.transpose_b ? " transposed" : ""));
    if (op.transpose_a)
      return {{fixed({a.rows, b.columns})}};
    auto extents = in_[0].dims.extents();
    extents.back() = b.columns;
    return {{value{shape{std::move(extents)}, in_[0].per_row, dtype::f32, {}}}};
  }

  inferred operator()(const ops::add_bias&) const {
    if (in_.size() != 2 || !in_[0].per_row || in_[1].per_row || in_[1].dims.rank() != 1 || !ends_with(in_[0].dims, in_[1].dims))
      return misfit(fmt::format("a bias has one element per column, got {}", list_inputs()));
    return {{like(in_[0])}};
  }

  inferred operator()(const ops::unary&) const { return {{like(in_[0])}}; }

  inferred operator()(const ops::binary&) const {
    if (in_.size() != 2 || in_[0].dims != in_[1].dims || in_[0].per_row != in_[1].per_row)
      return misfit(fmt::format("an elementwise operation needs two tensors of one shape, got {}", list_inputs()));
    return {{like(in_[0])}};
  }

  inferred operator()(const ops::conv2d& op) const {
    if (in_.size() < 2 || !is_image(in_[0]) || in_[1].dims.rank() != 4 || in_[1].dims[1] != in_[0].dims[0]
        || (in_.size() == 3 && in_[2].dims != shape{in_[1].dims[0]}))
      return misfit(fmt::format("a convolution needs images (rows, C, H, W), weights (K, C, kh, kw) and a bias (K), got {}",
                                list_inputs()));
    const auto& w = in_[1].dims;
    auto plane = output_plane(in_[0].dims, w[2], w[3], op.stride, op.padding);
    if (!plane)
      return misfit(fmt::format("a {}x{} window with padding {} does not fit into {}; take a smaller one, or more padding", w[2],
                                w[3], op.padding, in_[0].to_string()));
    if (static_cast<double>((*plane)[0]) * static_cast<double>((*plane)[1]) > std::numeric_limits<std::int32_t>::max())
      return misfit(
          fmt::format("padding {} makes images of {}x{}, which are too large; take less", op.padding, (*plane)[0], (*plane)[1]));
    return {{per_row({w[0], (*plane)[0], (*plane)[1]})}};
  }

  inferred operator()(const ops::max_pool& op) const {
    auto y = pooled(op.size, op.stride, op.padding);
    if (!y)
      return y.error();
    return {{per_row(*y), per_row(*y, dtype::i32)}};
  }

  inferred operator()(const ops::avg_pool& op) const {
    auto y = pooled(op.size, op.stride, op.padding);
    if (!y)
      return y.error();
    return {{per_row(*y)}};
  }

  inferred operator()(const ops::reshape& op) const {
    if (op.dims.elements() != in_[0].dims.elements())
      return misfit(fmt::format("{} cannot be seen as {}", in_[0].to_string(), per_row(op.dims).to_string()));
    return {{value{op.dims, in_[0].per_row, in_[0].type, {}}}};
  }

  inferred operator()(const ops::layernorm&) const {
    if (in_.size() != 3 || !in_[0].per_row || in_[1].dims.rank() == 0 || !ends_with(in_[0].dims, in_[1].dims)
        || in_[2].dims != in_[1].dims)
      return misfit(fmt::format("a layernorm has a scale and a shift per feature, got {}", list_inputs()));
    const auto& extents = in_[0].dims.extents();
    const shape groups{std::vector(extents.begin(), extents.end() - static_cast<std::ptrdiff_t>(in_[1].dims.rank()))};
    return {{like(in_[0]), per_row(groups), per_row(groups)}};
  }

  inferred operator()(const ops::dropout& op) const {
    if (!(op.rate >= 0 && op.rate < 1))
      return misfit(fmt::format("a dropout rate is in [0, 1), got {}", op.rate));
    return {{like(in_[0])}};
  }

  inferred operator()(const ops::cross_entropy&) const {
    auto predictions = in_.size() == 2 ? in_[0].dims.extents() : std::vector<std::int64_t>{};
    if (in_.size() != 2 || !in_[0].per_row || predictions.empty() || !in_[1].per_row || in_[1].type != dtype::i32
        || in_[1].dims != shape{std::vector(predictions.begin(), predictions.end() - 1)})
      return misfit(
          fmt::format("the loss needs logits (rows, ..., classes) and one label for each prediction, got {}", list_inputs()));
    return {{per_row(in_[1].dims), like(in_[0]), per_row(in_[1].dims, dtype::i32)}};
  }

  inferred operator()(const ops::unary_backward&) const { return (*this)(ops::binary{}); }

  inferred operator()(const ops::sum_rows& op) const {
    if (!in_[0].per_row || !ends_with(in_[0].dims, op.kept))
      return misfit(fmt::format("only a batch has rows to sum, and keeps its last extents: {} does not end with {}",
                                list_inputs(), op.kept.to_string()));
    return {{fixed(op.kept)}};
  }

  inferred operator()(const ops::conv2d_backward&) const { return {{like(in_[0]), like(in_[1]), fixed({in_[1].dims[0]})}}; }
  inferred operator()(const ops::max_pool_backward& op) const { return {{per_row(op.image)}}; }
  inferred operator()(const ops::avg_pool_backward& op) const { return {{per_row(op.image)}}; }
  inferred operator()(const ops::layernorm_backward&) const { return {{like(in_[0]), like(in_[1]), like(in_[1])}}; }

private:
  static bool is_matrix(const value& v) { return v.dims.rank() >= (v.per_row ? 1 : 2); }
  static bool is_image(const value& v) { return v.per_row && v.dims.rank() == 3; }

  /// (OH, OW), or nothing where the window does not fit.
  static std::optional<shape> output_plane(const shape& image, std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride,
                                           std::int64_t padding) {
    if (kernel_h < 1 || kernel_w < 1 || stride < 1 || padding < 0 || image[1] + 2 * padding < kernel_h
        || image[2] + 2 * padding < kernel_w)
      return std::nullopt;
    auto window = window_over(image, 1, kernel_h, kernel_w, stride, padding);
    return shape{window.out_h(), window.out_w()};
  }

  result<shape> pooled(std::int64_t size, std::int64_t stride, std::int64_t padding) const {
    if (!is_image(in_[0]))
      return misfit(fmt::format("pooling needs images (rows, C, H, W), got {}", list_inputs()));
    if (padding >= size)
      return misfit(fmt::format(
          "a {0}x{0} pooling window with padding {1} could lie in the padding alone; take a padding below {0}", size, padding));
    auto plane = output_plane(in_[0].dims, size, size, stride, padding);
    if (!plane)
      return misfit(fmt::format("a {0}x{0} window with padding {1} does not fit into {2}; take a smaller one", size, padding,
                                in_[0].to_string()));
    return shape{in_[0].dims[0], (*plane)[0], (*plane)[1]};
  }

  std::string list_inputs() const {
    std::string text;
    for (const auto& v : in_)
      text += (text.empty() ? "" : " and ") + v.to_string();
    return text;
  }

  std::vector<value> in_;
};

} // namespace

std::string value::to_string() const {
  auto text = dims.to_string();
  if (per_row)
    text = dims.rank() == 0 ? "(rows)" : "(rows, " + text.substr(1);
  return text;
}

result<node_id> graph::add(ops::any op, std::vector<value_id> inputs) {
  std::vector<value> in;
  for (auto id : inputs) {
    TROUPE_ASSERT(id >= value_id{0} && static_cast<std::size_t>(id) < values_.size());
    in.push_back(at(id));
  }
  TROUPE_ASSERT(!in.empty() || std::holds_alternative<ops::input>(op) || std::holds_alternative<ops::parameter>(op));
  auto out = std::visit(inference{std::move(in)}, op);
  if (!out)
    return error{out.error().code, layer_.empty() ? out.error().message : layer_ + ": " + out.error().message};

  const auto id = static_cast<node_id>(nodes_.size());
  node added{.op = std::move(op), .inputs = std::move(inputs), .outputs = {}, .layer = layer_};
  for (auto& v : *out) {
    v.producer = id;
    added.outputs.push_back(static_cast<value_id>(values_.size()));
    values_.push_back(std::move(v));
  }
  nodes_.push_back(std::move(added));
  return id;
}

result<value_id> graph::apply(ops::any op, std::vector<value_id> inputs) {
  auto id = add(std::move(op), std::move(inputs));
  if (!id)
    return id.error();
  return output(*id);
}

void graph::follow(node_id later, node_id earlier) {
  TROUPE_ASSERT(earlier < later && static_cast<std::size_t>(later) < nodes_.size());
  nodes_[static_cast<std::size_t>(later)].after.push_back(earlier);
}

kernels::window2d window_over(const shape& image, std::int64_t rows, std::int64_t kernel_h, std::int64_t kernel_w,
                              std::int64_t stride, std::int64_t padding) {
  return {.n = rows,
          .c = image[0],
          .h = image[1],
          .w = image[2],
          .kernel_h = kernel_h,
          .kernel_w = kernel_w,
          .stride = stride,
          .padding = padding};
}

matrix_extents as_matrix(const value& v, std::int64_t rows) {
  const auto columns = v.dims[v.dims.rank() - 1];
  return {v.elements(rows) / columns, columns};
}

} // namespace troupe
