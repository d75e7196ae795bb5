// SPDX-License-Identifier: BSD-3-Clause
// Convolutions on the CPU, by oneDNN.
#include "kernels/cpu/conv2d.hpp"

#include <array>
#include <compare>
#include <optional>
#include <unordered_map>

#include "kernels/cpu/onednn_versions.hpp"

namespace troupe::kernels {

namespace {

using dnnl::memory;
using tag = memory::format_tag;
constexpr auto f32 = memory::data_type::f32;
constexpr auto direct = dnnl::algorithm::convolution_direct;

/// What distinguishes one prepared convolution from another: the window, the channels out, bias and relu.
using conv_key = std::array<std::int64_t, 13>;

conv_key key_of(const window2d& w, std::int64_t out_channels, bool bias, bool relu) {
  return {w.n, w.c, w.h, w.w, w.kernel_h, w.kernel_w, w.stride, w.padding, w.dilation, w.groups, out_channels, bias, relu};
}

/// The shapes of one convolution, in the layout of the contract and as oneDNN may choose.
struct conv_shape {
  memory::dims x, weight, bias, y, stride, dilation, padding, padding_end;
  tag weight_tag;

  conv_shape(const window2d& w, std::int64_t out_channels)
      : x{w.n, w.c, w.h, w.w}, weight{out_channels, w.c, w.kernel_h, w.kernel_w}, bias{out_channels}, y{w.n, out_channels,
                                                                                                        w.out_h(), w.out_w()},
        stride{w.stride, w.stride}, dilation{w.dilation - 1, w.dilation - 1}, padding{w.padding, w.padding},
        // What the last window reaches past the image: less than `padding` where the stride does not divide.
        padding_end{(w.out_h() - 1) * w.stride + w.dilation * (w.kernel_h - 1) + 1 - w.h - w.padding,
                    (w.out_w() - 1) * w.stride + w.dilation * (w.kernel_w - 1) + 1 - w.w - w.padding},
        weight_tag(tag::oihw) {
    if (w.groups == 1)
      return;
    weight = {w.groups, out_channels / w.groups, w.c / w.groups, w.kernel_h, w.kernel_w};
    weight_tag = tag::goihw;
  }

  memory::desc any(const memory::dims& dims) const { return {dims, f32, tag::any}; }
};

} // namespace

/// Primitives, and the memory for what they want in another layout.
struct conv2d_runner::state {
  /// One operand: the caller's plain memory, and a blocked copy where the primitive wants one.
  struct operand {
    memory plain, used;
    std::optional<dnnl::reorder> reorder;
  };

  struct forward_set {
    dnnl::convolution_forward primitive;
    operand x, weight, y;
    memory bias;
  };

  struct backward_set {
    dnnl::convolution_backward_data data;
    dnnl::convolution_backward_weights weights;
    operand data_dy, data_weight, dx;       // what `data` reads and writes
    operand weights_dy, weights_x, dweight; // what `weights` reads and writes
    memory dbias;
    bool same_dy; // both want dy in one layout: it is reordered once
  };

  /// Which blocked image an operand is; each has its own growing block, shared by all geometries.
  enum role { images_in, images_out, other_images_out, weights, sums, role_count };

  std::shared_ptr<memory_pool> pool;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::array<buffer, role_count> scratch;
  std::map<conv_key, forward_set> forwards;
  std::map<conv_key, backward_set> backwards;

  operand read_operand(const memory::dims& dims, tag plain, const memory::desc& wanted) {
    operand out{memory({dims, f32, plain}, engine, nullptr), memory(wanted, engine, nullptr), {}};
    if (out.plain.get_desc() != wanted)
      out.reorder.emplace(out.plain, out.used);
    return out;
  }

  operand write_operand(const memory::dims& dims, tag plain, const memory::desc& wanted) {
    operand out{memory({dims, f32, plain}, engine, nullptr), memory(wanted, engine, nullptr), {}};
    if (out.plain.get_desc() != wanted)
      out.reorder.emplace(out.used, out.plain);
    return out;
  }

  /// Points an operand at the caller's memory and, where it is reordered, at the scratch of its role.
  void bind(operand& o, const float* data, role where) {
    o.plain.set_data_handle(const_cast<float*>(data));
    if (!o.reorder)
      return o.used.set_data_handle(const_cast<float*>(data));
    o.used.set_data_handle(room(where, o.used.get_desc().get_size()).data());
  }

  /// The scratch of a role, of this size at least.
  buffer& room(role where, std::size_t bytes) {
    auto& block = scratch[where];
    if (block.bytes() < bytes) {
      block = {}; // back to the pool before the larger one is made
      block = pool->allocate(bytes);
    }
    return block;
  }

  /// Binds and fills an input.
  void read(operand& o, const float* data, role where) {
    bind(o, data, where);
    if (o.reorder)
      o.reorder->execute(stream, o.plain, o.used);
  }

  /// Moves a bound output to where the caller wants it.
  void write(operand& o) {
    if (o.reorder)
      o.reorder->execute(stream, o.used, o.plain);
  }

  forward_set& prepare(const conv2d& args);
  backward_set& prepare(const conv2d_backward& args);
  /// Overwrites every gradient.
  void run(const conv2d_backward& args);
  void run_data(const conv2d_backward& args, backward_set& set);
};

conv2d_runner::state::forward_set& conv2d_runner::state::prepare(const conv2d& args) {
  const bool relu = args.act == activation::relu;
  const auto key = key_of(args.window, args.out_channels, args.bias != nullptr, relu);
  if (auto found = forwards.find(key); found != forwards.end())
    return found->second;
  const conv_shape shape(args.window, args.out_channels);
  dnnl::post_ops after;
  if (relu)
    append_relu(after);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  const memory::desc bias = args.bias ? memory::desc(shape.bias, f32, tag::x) : memory::desc();
  const auto chosen = choose_forward<dnnl::convolution_forward>(
      engine, attributes, dnnl::prop_kind::forward_training, direct, shape.any(shape.x), shape.any(shape.weight), bias,
      shape.any(shape.y), shape.stride, shape.dilation, shape.padding, shape.padding_end);
  forward_set set{.primitive = dnnl::convolution_forward(chosen),
                  .x = read_operand(shape.x, tag::nchw, chosen.src_desc()),
                  .weight = read_operand(shape.weight, shape.weight_tag, chosen.weights_desc()),
                  .y = write_operand(shape.y, tag::nchw, chosen.dst_desc()),
                  .bias = args.bias ? memory(bias, engine, nullptr) : memory()};
  return forwards.emplace(key, std::move(set)).first->second;
}

conv2d_runner::state::backward_set& conv2d_runner::state::prepare(const conv2d_backward& args) {
  const auto key = key_of(args.window, args.out_channels, args.dbias != nullptr, false);
  if (auto found = backwards.find(key); found != backwards.end())
    return found->second;
  const conv_shape shape(args.window, args.out_channels);
  const auto x = shape.any(shape.x), weight = shape.any(shape.weight), y = shape.any(shape.y);
  const memory::desc bias = args.dbias ? memory::desc(shape.bias, f32, tag::x) : memory::desc();
  const auto hint =
      choose_forward<dnnl::convolution_forward>(engine, dnnl::primitive_attr(), dnnl::prop_kind::forward_training, direct, x,
                                                weight, bias, y, shape.stride, shape.dilation, shape.padding, shape.padding_end);
  const auto data = choose_backward<dnnl::convolution_backward_data>(engine, hint, direct, x, weight, y, shape.stride,
                                                                     shape.dilation, shape.padding, shape.padding_end);
  const auto weights_desc = choose_backward<dnnl::convolution_backward_weights>(
      engine, hint, direct, x, weight, bias, y, shape.stride, shape.dilation, shape.padding, shape.padding_end);
  backward_set set{.data = dnnl::convolution_backward_data(data),
                   .weights = dnnl::convolution_backward_weights(weights_desc),
                   .data_dy = read_operand(shape.y, tag::nchw, data.diff_dst_desc()),
                   .data_weight = read_operand(shape.weight, shape.weight_tag, data.weights_desc()),
                   .dx = write_operand(shape.x, tag::nchw, data.diff_src_desc()),
                   .weights_dy = read_operand(shape.y, tag::nchw, weights_desc.diff_dst_desc()),
                   .weights_x = read_operand(shape.x, tag::nchw, weights_desc.src_desc()),
                   .dweight = write_operand(shape.weight, shape.weight_tag, weights_desc.diff_weights_desc()),
                   .dbias = args.dbias ? memory(bias, engine, nullptr) : memory(),
                   .same_dy = data.diff_dst_desc() == weights_desc.diff_dst_desc()};
  return backwards.emplace(key, std::move(set)).first->second;
}

conv2d_runner::conv2d_runner(std::shared_ptr<memory_pool> pool) : state_(std::make_unique<state>()) {
  state_->pool = std::move(pool);
}

conv2d_runner::~conv2d_runner() = default;

void conv2d_runner::forward(const conv2d& args) {
  if (args.window.n == 0)
    return;
  auto& set = state_->prepare(args);
  state_->read(set.x, args.x, state::images_in);
  state_->read(set.weight, args.weight, state::weights);
  state_->bind(set.y, args.y, state::images_out);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, set.x.used}, {DNNL_ARG_WEIGHTS, set.weight.used}, {DNNL_ARG_DST, set.y.used}};
  if (args.bias) {
    set.bias.set_data_handle(const_cast<float*>(args.bias));
    arguments.emplace(DNNL_ARG_BIAS, set.bias);
  }
  set.primitive.execute(state_->stream, arguments);
  state_->write(set.y);
}

void conv2d_runner::backward(const conv2d_backward& args) {
  if (!args.accumulate)
    return state_->run(args);
  // The library overwrites: what it gives is added afterwards.
  const auto weights = args.weights(), biases = args.dbias ? args.out_channels : 0;
  auto* sums = state_->room(state::sums, static_cast<std::size_t>(weights + biases) * sizeof(float)).as<float>();
  auto into_sums = args;
  into_sums.dweight = sums;
  into_sums.dbias = args.dbias ? sums + weights : nullptr;
  state_->run(into_sums);
  const auto add = [](const float* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] += from[i];
  };
  add(sums, args.dweight, weights);
  add(sums + weights, args.dbias, biases);
}

void conv2d_runner::state::run(const conv2d_backward& args) {
  auto& set = prepare(args);
  read(set.weights_dy, args.dy, images_out);
  read(set.weights_x, args.x, images_in);
  bind(set.dweight, args.dweight, state::weights);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST, set.weights_dy.used}, {DNNL_ARG_SRC, set.weights_x.used}, {DNNL_ARG_DIFF_WEIGHTS, set.dweight.used}};
  if (args.dbias) {
    set.dbias.set_data_handle(args.dbias);
    arguments.emplace(DNNL_ARG_DIFF_BIAS, set.dbias);
  }
  set.weights.execute(stream, arguments);
  write(set.dweight);
  if (args.dx)
    run_data(args, set);
}

void conv2d_runner::state::run_data(const conv2d_backward& args, backward_set& set) {
  if (set.same_dy)
    bind(set.data_dy, args.dy, images_out); // filled for the weights already
  else
    read(set.data_dy, args.dy, other_images_out);
  read(set.data_weight, args.weight, weights);
  bind(set.dx, args.dx, images_in);
  set.data.execute(
      stream,
      {{DNNL_ARG_DIFF_DST, set.data_dy.used}, {DNNL_ARG_WEIGHTS, set.data_weight.used}, {DNNL_ARG_DIFF_SRC, set.dx.used}});
  write(set.dx);
}

} // namespace troupe::kernels
