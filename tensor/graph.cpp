// SPDX-License-Identifier: BSD-3-Clause
// Nodes and values as they are added.
#include "tensor/graph.hpp"

#include "kernels/assert.hpp"
#include "tensor/inference.hpp"

namespace troupe {

std::string value::to_string() const {
  auto text = dims.to_string();
  if (per_row)
    text = dims.rank() == 0 ? "(rows)" : "(rows, " + text.substr(1);
  return text;
}

bool is_source(const ops::any& op) {
  return std::holds_alternative<ops::input>(op) || std::holds_alternative<ops::parameter>(op)
         || std::holds_alternative<ops::gradient>(op);
}

bool is_loss(const ops::any& op) {
  return std::holds_alternative<ops::cross_entropy>(op) || std::holds_alternative<ops::mean_squared_error>(op)
         || std::holds_alternative<ops::sigmoid_cross_entropy>(op);
}

result<node_id> graph::add(ops::any op, std::vector<value_id> inputs) {
  std::vector<value> in;
  for (auto id : inputs) {
    TROUPE_ASSERT(id >= value_id{0} && static_cast<std::size_t>(id) < values_.size());
    in.push_back(at(id));
  }
  TROUPE_ASSERT(!in.empty() || is_source(op) || std::holds_alternative<ops::constant>(op));
  auto out = infer(op, std::move(in));
  if (!out)
    return error{out.error().code, layer_.empty() ? out.error().message : layer_ + ": " + out.error().message};

  const auto id = static_cast<node_id>(nodes_.size());
  node added{.op = std::move(op), .inputs = std::move(inputs), .outputs = {}, .layer = layer_, .block = block_};
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
                              std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return {.n = rows,
          .c = image[0],
          .h = image[1],
          .w = image[2],
          .kernel_h = kernel_h,
          .kernel_w = kernel_w,
          .stride = stride,
          .padding = padding,
          .dilation = dilation,
          .groups = groups};
}

matrix_extents as_matrix(const value& v, std::int64_t rows) {
  const auto columns = v.dims[v.dims.rank() - 1];
  return {v.elements(rows) / columns, columns};
}

} // namespace troupe
