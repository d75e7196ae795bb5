// SPDX-License-Identifier: BSD-3-Clause
// One overload per op.
#include "tensor/inference.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// Stands for the unknown number of rows while matrices are matched: (rows, 5, 8) has -5 rows. No parameter has a negative
/// extent.
constexpr std::int64_t symbolic_rows = -1;

using inferred = result<std::vector<value>>;
using extents_list = std::vector<std::int64_t>;

value per_row(shape dims, dtype type = dtype::f32) {
  return {std::move(dims), true, type, {}};
}

value fixed(shape dims) {
  return {std::move(dims), false, dtype::f32, {}};
}

value like(const value& v) {
  return {v.dims, v.per_row, v.type, {}};
}

/// The same with other extents.
value resized(const value& v, extents_list extents) {
  return {shape{std::move(extents)}, v.per_row, v.type, {}};
}

error misfit(std::string message) {
  return {errc::bad_model, std::move(message)};
}

std::int64_t last_of(const shape& dims) {
  return dims[dims.rank() - 1];
}

shape without_last(const shape& dims, std::size_t count = 1) {
  return shape{extents_list(dims.extents().begin(), dims.extents().end() - static_cast<std::ptrdiff_t>(count))};
}

/// What both repeat to.
std::optional<value> broadcast(const value& a, const value& b) {
  const auto rank = std::max(a.dims.rank(), b.dims.rank());
  extents_list extents(rank, 1);
  for (const auto* each : {&a.dims, &b.dims})
    for (std::size_t i = 0; i < each->rank(); ++i)
      extents[rank - each->rank() + i] = std::max(extents[rank - each->rank() + i], (*each)[i]);
  const value whole{shape{std::move(extents)}, a.per_row || b.per_row, dtype::f32, {}};
  return repeats_to(a, whole) && repeats_to(b, whole) ? std::optional{whole} : std::nullopt;
}

class inference {
public:
  explicit inference(std::vector<value> inputs) : in_(std::move(inputs)) {}

  // -- sources

  inferred operator()(const ops::input& op) const { return {{per_row(op.sample, op.type)}}; }
  inferred operator()(const ops::parameter& op) const { return {{fixed(op.dims)}}; }
  inferred operator()(const ops::gradient& op) const { return {{fixed(op.dims)}}; }
  inferred operator()(const ops::constant& op) const { return {{value{op.dims, op.per_row, dtype::f32, {}}}}; }

  // -- products

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
    return {{resized(in_[0], std::move(extents))}};
  }

  inferred operator()(const ops::batched_matmul& op) const {
    if (in_.size() != 2 || in_[0].dims.rank() < 2 || in_[0].per_row != in_[1].per_row || in_[1].dims.rank() != in_[0].dims.rank()
        || without_last(in_[0].dims, 2) != without_last(in_[1].dims, 2))
      return misfit(fmt::format("a product for each matrix needs as many on both sides, got {}", list_inputs()));
    const auto rank = in_[0].dims.rank();
    auto m = in_[0].dims[rank - 2], k = in_[0].dims[rank - 1], k_too = in_[1].dims[rank - 2], n = in_[1].dims[rank - 1];
    if (op.transpose_a)
      std::swap(m, k);
    if (op.transpose_b)
      std::swap(k_too, n);
    if (k != k_too)
      return misfit(fmt::format("the matrix products of {}{} and {}{} have inner extents that differ", in_[0].to_string(),
                                op.transpose_a ? " transposed" : "", in_[1].to_string(), op.transpose_b ? " transposed" : ""));
    auto extents = in_[0].dims.extents();
    extents[rank - 2] = m;
    extents[rank - 1] = n;
    return {{resized(in_[0], std::move(extents))}};
  }

  inferred operator()(const ops::conv2d& op) const {
    if (in_.size() < 2 || !is_image(in_[0]) || in_[1].dims.rank() != 4
        || (in_.size() == 3 && in_[2].dims != shape{in_[1].dims[0]}))
      return misfit(fmt::format("a convolution needs images (rows, C, H, W), weights (K, C, kh, kw) and a bias (K), got {}",
                                list_inputs()));
    const auto& w = in_[1].dims;
    if (op.groups < 1 || w[1] * op.groups != in_[0].dims[0] || w[0] % op.groups != 0)
      return misfit(op.groups == 1
                        ? fmt::format("a convolution needs images (rows, C, H, W), weights (K, C, kh, kw) and a bias (K), got {}",
                                      list_inputs())
                        : fmt::format("{} groups need images and weights whose channels they divide, (rows, C, H, W) and "
                                      "(K, C / {}, kh, kw), got {}",
                                      op.groups, op.groups, list_inputs()));
    auto plane = output_plane(in_[0].dims, w[2], w[3], op.stride, op.padding, op.dilation);
    if (!plane)
      return misfit(fmt::format("a {}x{} window{} with padding {} does not fit into {}; take a smaller one, or more padding",
                                w[2], w[3], op.dilation > 1 ? fmt::format(" of dilation {}", op.dilation) : "", op.padding,
                                in_[0].to_string()));
    if (static_cast<double>((*plane)[0]) * static_cast<double>((*plane)[1]) > std::numeric_limits<std::int32_t>::max())
      return misfit(
          fmt::format("padding {} makes images of {}x{}, which are too large; take less", op.padding, (*plane)[0], (*plane)[1]));
    return {{per_row({w[0], (*plane)[0], (*plane)[1]})}};
  }

  // -- elementwise

  inferred operator()(const ops::add_bias&) const {
    if (in_.size() != 2 || !in_[0].per_row || in_[1].per_row || in_[1].dims.rank() != 1 || !ends_with(in_[0].dims, in_[1].dims))
      return misfit(fmt::format("a bias has one element per column, got {}", list_inputs()));
    return {{like(in_[0])}};
  }

  inferred operator()(const ops::unary&) const { return {{like(in_[0])}}; }

  inferred operator()(const ops::binary&) const {
    const auto whole = in_.size() == 2 ? broadcast(in_[0], in_[1]) : std::nullopt;
    if (!whole)
      return misfit(fmt::format("an elementwise operation needs two tensors of one shape, got {}", list_inputs()));
    if (in_[0].dims != in_[1].dims || in_[0].per_row != in_[1].per_row)
      if (auto ok = few_axes(*whole); !ok)
        return ok.error();
    return {{*whole}};
  }

  inferred operator()(const ops::dropout& op) const {
    if (!(op.rate >= 0 && op.rate < 1))
      return misfit(fmt::format("a dropout rate is in [0, 1), got {}", op.rate));
    return {{like(in_[0])}};
  }

  // -- other arrangements

  inferred operator()(const ops::reshape& op) const {
    if (op.dims.elements() != in_[0].dims.elements())
      return misfit(
          fmt::format("{} cannot be seen as {}", in_[0].to_string(), value{op.dims, in_[0].per_row, {}, {}}.to_string()));
    return {{resized(in_[0], op.dims.extents())}};
  }

  inferred operator()(const ops::permute& op) const {
    extents_list extents;
    std::vector<bool> taken(in_[0].dims.rank(), false);
    for (auto axis : op.axes) {
      if (axis >= taken.size() || taken[axis])
        break;
      taken[axis] = true;
      extents.push_back(in_[0].dims[axis]);
    }
    if (extents.size() != op.axes.size() || extents.size() != taken.size())
      return misfit(fmt::format("the axes of {} cannot be put in the order {}", in_[0].to_string(), fmt::join(op.axes, ", ")));
    if (auto ok = few_axes(in_[0]); !ok)
      return ok.error();
    return {{resized(in_[0], std::move(extents))}};
  }

  inferred operator()(const ops::split& op) const {
    const auto& dims = in_[0].dims;
    const auto whole = std::accumulate(op.lengths.begin(), op.lengths.end(), std::int64_t{0});
    if (op.axis >= dims.rank() || dims[op.axis] != whole
        || std::ranges::any_of(op.lengths, [](auto length) { return length < 1; }))
      return misfit(
          fmt::format("axis {} of {} cannot be cut into {}", op.axis, in_[0].to_string(), fmt::join(op.lengths, " + ")));
    std::vector<value> parts;
    for (auto length : op.lengths) {
      auto extents = dims.extents();
      extents[op.axis] = length;
      parts.push_back(resized(in_[0], std::move(extents)));
    }
    return parts;
  }

  inferred operator()(const ops::concat& op) const {
    auto extents = in_[0].dims.extents();
    std::int64_t whole = 0;
    for (const auto& part : in_) {
      auto alike = part.dims.extents();
      const bool fits =
          op.axis < alike.size() && op.axis < extents.size() && part.per_row == in_[0].per_row && part.type == in_[0].type;
      if (fits) {
        whole += alike[op.axis];
        alike[op.axis] = extents[op.axis];
      }
      if (!fits || alike != extents)
        return misfit(fmt::format("{} cannot be joined along axis {}", list_inputs(), op.axis));
    }
    extents[op.axis] = whole;
    return {{resized(in_[0], std::move(extents))}};
  }

  inferred operator()(const ops::sum_to& op) const {
    const value part{op.dims, op.per_row, dtype::f32, {}};
    if (!repeats_to(part, in_[0]))
      return misfit(fmt::format("{} cannot be summed to {}", in_[0].to_string(), part.to_string()));
    if (auto ok = few_axes(in_[0]); !ok)
      return ok.error();
    return {{part}};
  }
  inferred operator()(const ops::expand& op) const {
    const value whole{op.dims, op.per_row, dtype::f32, {}};
    if (!repeats_to(in_[0], whole))
      return misfit(fmt::format("{} cannot be repeated to {}", in_[0].to_string(), whole.to_string()));
    if (auto ok = few_axes(whole); !ok)
      return ok.error();
    return {{whole}};
  }

  // -- pooling

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

  // -- normalisation

  inferred operator()(const ops::layernorm&) const {
    if (in_.size() != 3 || !is_norm_over_last_axes() || in_[2].dims != in_[1].dims)
      return misfit(fmt::format("a layernorm has a scale and a shift per feature, got {}", list_inputs()));
    const auto groups = without_last(in_[0].dims, in_[1].dims.rank());
    return {{like(in_[0]), per_row(groups), per_row(groups)}};
  }
  inferred operator()(const ops::rmsnorm&) const {
    if (in_.size() != 2 || !is_norm_over_last_axes())
      return misfit(fmt::format("an rmsnorm has a scale per feature, got {}", list_inputs()));
    return {{like(in_[0]), per_row(without_last(in_[0].dims, in_[1].dims.rank()))}};
  }
  inferred operator()(const ops::groupnorm& op) const {
    if (in_.size() != 3 || !is_norm_of_channels())
      return misfit(fmt::format("a groupnorm has a scale and a shift per channel, got {}", list_inputs()));
    if (op.groups < 1 || in_[0].dims[0] % op.groups != 0)
      return misfit(fmt::format("{} groups do not divide the {} channels of {}", op.groups, in_[0].dims[0], in_[0].to_string()));
    return {{like(in_[0]), per_row({op.groups}), per_row({op.groups})}};
  }
  inferred operator()(const ops::batchnorm& op) const {
    auto y = (*this)(ops::batchnorm_inference{op.epsilon});
    if (!y)
      return y;
    const auto channels = fixed(in_[1].dims);
    return {{y->front(), channels, channels, channels, channels}};
  }
  inferred operator()(const ops::batchnorm_inference&) const {
    if (in_.size() != 5 || !is_norm_of_channels() || in_[3].dims != in_[1].dims || in_[4].dims != in_[1].dims)
      return misfit(fmt::format("a batchnorm has a scale, a shift, a mean and a variance per channel, got {}", list_inputs()));
    return {{like(in_[0])}};
  }
  inferred operator()(const ops::softmax&) const {
    if (in_[0].dims.rank() == 0)
      return misfit(fmt::format("a softmax is over the last axis, and {} has none", in_[0].to_string()));
    return {{like(in_[0])}};
  }

  // -- sequences

  inferred operator()(const ops::embedding&) const {
    if (in_.size() != 2 || !in_[0].per_row || in_[0].type != dtype::i32 || in_[1].per_row || in_[1].dims.rank() != 2)
      return misfit(fmt::format("an embedding needs ids and a table (vocabulary, width), got {}", list_inputs()));
    auto extents = in_[0].dims.extents();
    extents.push_back(in_[1].dims[1]);
    return {{per_row(shape{std::move(extents)})}};
  }

  inferred operator()(const ops::attention& op) const {
    if ((in_.size() != 1 && in_.size() != 3) || !std::ranges::all_of(in_, is_sequence))
      return misfit(fmt::format("attention needs sequences (rows, length, width), got {}", list_inputs()));
    if (op.heads < 1 || op.key_heads < 1 || op.heads % op.key_heads != 0)
      return misfit(fmt::format("{} key heads do not divide {} heads", op.key_heads, op.heads));
    const auto all = in_.size() == 1 ? op.heads + 2 * op.key_heads : op.heads;
    const auto length = in_[0].dims[0], head = in_[0].dims[1] / all;
    if (in_[0].dims[1] % all != 0)
      return misfit(fmt::format("{} heads do not divide the width of {}", all, in_[0].to_string()));
    if (head > kernels::longest_head)
      return misfit(fmt::format("heads of {} elements are longer than {}; take more heads", head, kernels::longest_head));
    if (in_.size() == 3 && (in_[1].dims != shape{length, op.key_heads * head} || in_[2].dims != in_[1].dims))
      return misfit(fmt::format("{} heads for queries and {} for keys and values need as many elements in each, got {}", op.heads,
                                op.key_heads, list_inputs()));
    if (!(op.rate >= 0 && op.rate < 1))
      return misfit(fmt::format("a dropout rate is in [0, 1), got {}", op.rate));
    return {{per_row({length, op.heads * head}), per_row({op.heads, length})}};
  }

  inferred operator()(const ops::rotary& op) const {
    if (!is_sequence(in_[0]) || op.heads < 1 || op.head_size < 2 || op.head_size % 2 != 0
        || op.heads * op.head_size > in_[0].dims[1])
      return misfit(
          fmt::format("rotary positions need sequences of {} heads of an even number of elements, got {} and heads of {}",
                      op.heads, list_inputs(), op.head_size));
    return {{like(in_[0])}};
  }

  inferred operator()(const ops::lstm&) const { return recurrent(4, "an lstm"); }
  inferred operator()(const ops::gru&) const { return recurrent(3, "a gru"); }

  // -- losses

  inferred operator()(const ops::cross_entropy& op) const {
    if (in_.size() != 2 || !in_[0].per_row || in_[0].dims.rank() == 0 || !in_[1].per_row || in_[1].type != dtype::i32
        || in_[1].dims != without_last(in_[0].dims))
      return misfit(
          fmt::format("the loss needs logits (rows, ..., classes) and one label for each prediction, got {}", list_inputs()));
    if (!(op.smoothing >= 0 && op.smoothing < 1))
      return misfit(fmt::format("label smoothing is in [0, 1), got {}", op.smoothing));
    return {{per_row(in_[1].dims), like(in_[0]), per_row(in_[1].dims, dtype::i32)}};
  }
  inferred operator()(const ops::mean_squared_error&) const {
    if (!is_number_for_number())
      return misfit(fmt::format("the loss needs a number for each that is predicted, got {}", list_inputs()));
    return {{per_row(without_last(in_[0].dims)), like(in_[0])}};
  }
  inferred operator()(const ops::sigmoid_cross_entropy&) const {
    if (!is_number_for_number())
      return misfit(fmt::format("the loss needs a number from 0 to 1 for each logit, got {}", list_inputs()));
    const auto predictions = without_last(in_[0].dims);
    return {{per_row(predictions), like(in_[0]), per_row(predictions, dtype::i32)}};
  }

  // -- backward: autodiff.cpp makes them, and they fit

  inferred operator()(const ops::unary_backward&) const { return {{like(in_[1])}}; }
  inferred operator()(const ops::conv2d_backward&) const { return {{like(in_[0]), like(in_[1]), fixed({in_[1].dims[0]})}}; }
  inferred operator()(const ops::max_pool_backward& op) const { return {{per_row(op.image)}}; }
  inferred operator()(const ops::avg_pool_backward& op) const { return {{per_row(op.image)}}; }
  inferred operator()(const ops::layernorm_backward&) const { return norm_backward(); }
  inferred operator()(const ops::rmsnorm_backward&) const { return {{like(in_[0]), like(in_[1])}}; }
  inferred operator()(const ops::groupnorm_backward&) const { return norm_backward(); }
  inferred operator()(const ops::batchnorm_backward&) const { return norm_backward(); }
  inferred operator()(const ops::softmax_backward&) const { return {{like(in_[0])}}; }
  inferred operator()(const ops::embedding_backward& op) const { return {{fixed(op.table)}}; }
  inferred operator()(const ops::attention_backward&) const {
    std::vector<value> out;
    for (std::size_t i = 0; i + 3 < in_.size(); ++i)
      out.push_back(like(in_[i]));
    return out;
  }
  inferred operator()(const ops::lstm_backward&) const { return recurrent_backward(); }
  inferred operator()(const ops::gru_backward&) const { return recurrent_backward(); }

private:
  static bool is_matrix(const value& v) { return v.dims.rank() >= (v.per_row ? 1 : 2); }
  static bool is_image(const value& v) { return v.per_row && v.dims.rank() == 3; }
  static bool is_sequence(const value& v) { return v.per_row && v.dims.rank() == 2; }
  bool is_norm_over_last_axes() const {
    return in_[0].per_row && !in_[1].per_row && in_[1].dims.rank() > 0 && ends_with(in_[0].dims, in_[1].dims);
  }
  bool is_norm_of_channels() const {
    return in_[0].per_row && in_[0].dims.rank() > 0 && in_[1].dims == shape{in_[0].dims[0]} && in_[2].dims == in_[1].dims;
  }
  bool is_number_for_number() const {
    return in_.size() == 2 && in_[0].per_row && in_[1].per_row && in_[1].type == dtype::f32 && in_[0].dims.rank() > 0
           && (in_[1].dims == in_[0].dims || (last_of(in_[0].dims) == 1 && in_[1].dims == without_last(in_[0].dims)));
  }

  inferred norm_backward() const { return {{like(in_[0]), like(in_[1]), like(in_[1])}}; }

  inferred recurrent(std::int64_t gates, const char* layer) const {
    const auto width = in_.size() == 3 && is_sequence(in_[0]) ? in_[0].dims[1] / gates : 0;
    if (width < 1 || in_[0].dims[1] != gates * width || in_[1].dims != shape{gates * width, width}
        || in_[2].dims != shape{gates * width})
      return misfit(fmt::format("{} needs {} gates (rows, length, {} width), weights ({} width, width) and a bias, got {}", layer,
                                gates, gates, gates, list_inputs()));
    const auto y = per_row({in_[0].dims[0], width});
    return {{y, like(in_[0]), y}};
  }
  inferred recurrent_backward() const { return {{like(in_[2]), like(in_[0]), fixed({in_[0].dims[0]})}}; }

  /// (OH, OW), or nothing where the window does not fit.
  static std::optional<shape> output_plane(const shape& image, std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride,
                                           std::int64_t padding, std::int64_t dilation = 1) {
    if (kernel_h < 1 || kernel_w < 1 || stride < 1 || padding < 0 || dilation < 1
        || image[1] + 2 * padding < dilation * (kernel_h - 1) + 1 || image[2] + 2 * padding < dilation * (kernel_w - 1) + 1)
      return std::nullopt;
    auto window = window_over(image, 1, kernel_h, kernel_w, stride, padding, dilation);
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

  static result<void> few_axes(const value& v) {
    if (v.dims.rank() + 1 <= kernels::most_axes)
      return {};
    return misfit(fmt::format("{} has more than {} axes", v.to_string(), kernels::most_axes));
  }

  std::string list_inputs() const {
    std::string text;
    for (const auto& v : in_)
      text += (text.empty() ? "" : " and ") + v.to_string();
    return text;
  }

  std::vector<value> in_;
};

/// Which inputs may be integers. Whatever only moves elements takes any.
struct takes_integers {
  std::size_t input;
  bool operator()(const ops::reshape&) const { return true; }
  bool operator()(const ops::permute&) const { return true; }
  bool operator()(const ops::split&) const { return true; }
  bool operator()(const ops::concat&) const { return true; }
  bool operator()(const ops::embedding&) const { return input == 0; }
  bool operator()(const ops::embedding_backward&) const { return input == 0; }
  bool operator()(const ops::max_pool_backward&) const { return input == 0; }
  bool operator()(const ops::cross_entropy&) const { return input == 1; }
  template <class Op>
  bool operator()(const Op&) const {
    return false;
  }
};

} // namespace

result<std::vector<value>> infer(const ops::any& op, std::vector<value> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].type == dtype::i32 && !std::visit(takes_integers{i}, op))
      return misfit(
          fmt::format("needs numbers, and {} holds ids; an \"embedding\" makes numbers of them", inputs[i].to_string()));
  return std::visit(inference{std::move(inputs)}, op);
}

bool repeats_to(const value& part, const value& whole) {
  // Two values with rows are matched axis by axis: else it would not be clear which axis lacks.
  if (part.per_row ? !whole.per_row || part.dims.rank() != whole.dims.rank() : part.dims.rank() > whole.dims.rank())
    return false;
  const auto missing = whole.dims.rank() - part.dims.rank();
  for (std::size_t i = 0; i < part.dims.rank(); ++i)
    if (part.dims[i] != 1 && part.dims[i] != whole.dims[missing + i])
      return false;
  return true;
}

namespace {

/// Extents at the end of the axes, the rows before those of `whole`. Allocates nothing.
kernels::axes axes_of(const value& v, const value& whole, std::int64_t rows) {
  TROUPE_ASSERT(whole.dims.rank() + 1 <= kernels::most_axes);
  kernels::axes axes;
  axes.fill(1);
  for (std::size_t i = 0; i < v.dims.rank(); ++i)
    axes[kernels::most_axes - v.dims.rank() + i] = v.dims[i];
  axes[kernels::most_axes - whole.dims.rank() - 1] = v.per_row ? rows : 1;
  return axes;
}

} // namespace

kernels::axes extents_with_rows(const value& whole, std::int64_t rows) {
  return axes_of(whole, whole, rows);
}

kernels::axes steps_within(const value& part, const value& whole, std::int64_t rows) {
  TROUPE_ASSERT(repeats_to(part, whole));
  const auto own = axes_of(part, whole, rows), all = axes_of(whole, whole, rows);
  auto steps = kernels::row_major(own);
  for (std::size_t axis = 0; axis < kernels::most_axes; ++axis)
    if (own[axis] == 1 && all[axis] != 1)
      steps[axis] = 0;
  return steps;
}

} // namespace troupe
