// SPDX-License-Identifier: BSD-3-Clause
// One rule per op: from the gradients of its results to the gradients of its inputs.
#include "tensor/autodiff.hpp"

#include <algorithm>
#include <set>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// Walks the graph from the loss to the parameters. `grad_[v]` is the gradient of value v as far as it is known.
class reverse_pass {
public:
  reverse_pass(graph& g, const parameter_layout& layout, const differentiation& how)
      : g_(g), how_(how), grad_(g.values().size(), value_id::none), again_(g.values().size()), wanted_(g.values().size(), false) {
    for (std::size_t v = 0; v < again_.size(); ++v)
      again_[v] = static_cast<value_id>(v);
    const auto forward_nodes = g.nodes().size();
    for (std::size_t id = 0; id < forward_nodes; ++id) {
      const auto n = g.nodes()[id];
      last_block_ = std::max(last_block_, n.block);
      const auto* parameter = std::get_if<ops::parameter>(&n.op);
      bool leads_to_parameter = parameter && layout.slots[static_cast<std::size_t>(parameter->slot)].kind != slot_kind::frozen;
      for (auto in : n.inputs)
        leads_to_parameter = leads_to_parameter || wants(in);
      for (auto out : n.outputs)
        wanted_[index(out)] = leads_to_parameter;
      if (leads_to_parameter && parameter && how.accumulate)
        grad_[index(n.outputs[0])] = make(ops::gradient{parameter->slot, parameter->dims}, {});
    }
    before_ = grad_;
  }

  void run(node_id root) {
    const auto loss = g_.at(root);
    TROUPE_ASSERT(is_loss(loss.op));
    accumulate(loss.inputs[0], loss.outputs[1]);
    for (auto id = static_cast<int>(root) - 1; id >= 0; --id) {
      // By value: rules append nodes, which moves the ones that are there.
      const auto n = g_.at(static_cast<node_id>(id));
      const auto first = std::ranges::find_if(n.outputs, [this](auto v) { return grad_[index(v)] != value_id::none; });
      if (first == n.outputs.end() || is_source(n.op))
        continue;
      if (how_.recompute && n.block != no_block && n.block != last_block_ && n.block != block_)
        compute_again(n.block, g_.at(grad_[index(*first)]).producer);
      in_ = n.inputs;
      out_ = n.outputs;
      dy_ = grad_[index(out_[0])];
      g_.begin_layer(n.layer);
      std::visit(*this, n.op);
    }
  }

  /// None where nothing was added to it.
  value_id gradient_of(value_id v) const { return grad_[index(v)] == before_[index(v)] ? value_id::none : grad_[index(v)]; }

  // -- the rules. dy_ is the gradient of the node's first result, none where the loss does not depend on it. x(i) and y(i) are
  // what a backward node reads, in_[i] what a gradient belongs to.

  void operator()(const ops::input&) {}
  void operator()(const ops::parameter&) {}
  void operator()(const ops::gradient&) {}
  void operator()(const ops::constant&) {}

  // y = A B with A = op(a), B = op(b):  dA = dy B', dB = A' dy, transposed back where op is a transposition.
  void operator()(const ops::matmul& op) {
    TROUPE_ASSERT(op.act == kernels::activation::none);
    product(op.transpose_a, op.transpose_b, [](bool ta, bool tb) { return ops::matmul{ta, tb}; });
  }
  void operator()(const ops::batched_matmul& op) {
    product(op.transpose_a, op.transpose_b, [&](bool ta, bool tb) { return ops::batched_matmul{ta, tb, op.scale}; });
  }

  void operator()(const ops::conv2d& op) {
    auto backward = make_all(ops::conv2d_backward{op.stride, op.padding, op.dilation, op.groups}, {x(0), x(1), dy_});
    accumulate(in_[1], backward[1]);
    if (in_.size() == 3)
      accumulate(in_[2], backward[2]);
    accumulate(in_[0], backward[0]);
  }

  void operator()(const ops::add_bias&) {
    if (wants(in_[1]))
      accumulate(in_[1], make(ops::sum_to{g_.at(in_[1]).dims}, {dy_}));
    accumulate(in_[0], dy_);
  }

  void operator()(const ops::unary& op) {
    using enum kernels::unary_op;
    if (op.op == copy)
      accumulate(in_[0], dy_);
    else
      accumulate(in_[0], make(ops::unary_backward{op.op}, {kernels::saves_result(op.op) ? y(0) : x(0), dy_}));
  }

  void operator()(const ops::binary& op) {
    using enum kernels::binary_op;
    const auto a = in_[0], b = in_[1];
    switch (op.op) {
    case add:
      accumulate_part(a, [&] { return dy_; });
      accumulate_part(b, [&] { return dy_; });
      break;
    case subtract:
      accumulate_part(a, [&] { return dy_; });
      accumulate_part(b, [&] { return negative(dy_); });
      break;
    case multiply:
      accumulate_part(a, [&] { return make(ops::binary{multiply}, {dy_, x(1)}); });
      accumulate_part(b, [&] { return make(ops::binary{multiply}, {dy_, x(0)}); });
      break;
    case divide: { // d(a/b) = da / b - (a/b) db / b
      const auto da = make(ops::binary{divide}, {dy_, x(1)});
      accumulate_part(a, [&] { return da; });
      accumulate_part(b, [&] { return negative(make(ops::binary{multiply}, {da, y(0)})); });
      break;
    }
    }
  }

  // What was dropped gets no gradient, what was kept is scaled alike: the same draw, applied to dy.
  void operator()(const ops::dropout& op) { accumulate(in_[0], make(op, {dy_})); }

  void operator()(const ops::reshape&) { accumulate(in_[0], make(ops::reshape{g_.at(in_[0]).dims}, {dy_})); }
  void operator()(const ops::permute& op) {
    std::vector<std::size_t> back(op.axes.size());
    for (std::size_t i = 0; i < back.size(); ++i)
      back[op.axes[i]] = i;
    accumulate(in_[0], make(ops::permute{std::move(back)}, {dy_}));
  }
  void operator()(const ops::split& op) {
    std::vector<value_id> parts;
    for (auto out : out_)
      parts.push_back(grad_[index(out)] != value_id::none ? grad_[index(out)]
                                                          : make(ops::constant{g_.at(out).dims, g_.at(out).per_row}, {}));
    accumulate(in_[0], make(ops::concat{op.axis}, std::move(parts)));
  }
  void operator()(const ops::concat& op) {
    std::vector<std::int64_t> lengths;
    for (auto in : in_)
      lengths.push_back(g_.at(in).dims[op.axis]);
    const auto parts = make_all(ops::split{op.axis, std::move(lengths)}, {dy_});
    for (std::size_t i = 0; i < in_.size(); ++i)
      accumulate(in_[i], parts[i]);
  }
  void operator()(const ops::sum_to& op) {
    accumulate(in_[0], make(ops::expand{g_.at(in_[0]).dims, g_.at(in_[0]).per_row, op.scale}, {dy_}));
  }
  void operator()(const ops::expand& op) {
    accumulate(in_[0], make(ops::sum_to{g_.at(in_[0]).dims, g_.at(in_[0]).per_row, op.scale}, {dy_}));
  }

  void operator()(const ops::max_pool& op) {
    accumulate(in_[0], make(ops::max_pool_backward{op.size, op.stride, op.padding, g_.at(in_[0]).dims}, {y(1), dy_}));
  }
  void operator()(const ops::avg_pool& op) {
    accumulate(in_[0], make(ops::avg_pool_backward{op.size, op.stride, op.padding, g_.at(in_[0]).dims}, {dy_}));
  }

  void operator()(const ops::layernorm&) { norm(ops::layernorm_backward{}); }
  void operator()(const ops::groupnorm& op) { norm(ops::groupnorm_backward{op.groups}); }
  void operator()(const ops::rmsnorm&) {
    auto backward = make_all(ops::rmsnorm_backward{}, {x(0), x(1), y(1), dy_});
    accumulate(in_[1], backward[1]);
    accumulate(in_[0], backward[0]);
  }
  void operator()(const ops::batchnorm&) {
    norm(ops::batchnorm_backward{});
    accumulate(in_[3], out_[3]);
    accumulate(in_[4], out_[4]);
  }
  void operator()(const ops::softmax&) { accumulate(in_[0], make(ops::softmax_backward{}, {y(0), dy_})); }

  void operator()(const ops::embedding&) {
    if (wants(in_[1]))
      accumulate(in_[1], make(ops::embedding_backward{g_.at(in_[1]).dims}, {x(0), dy_}));
  }
  void operator()(const ops::attention& op) {
    std::vector<value_id> inputs;
    for (std::size_t i = 0; i < in_.size(); ++i)
      inputs.push_back(x(i));
    inputs.insert(inputs.end(), {y(0), y(1), dy_});
    const auto backward = make_all(ops::attention_backward{op}, std::move(inputs));
    for (std::size_t i = 0; i < in_.size(); ++i)
      accumulate(in_[i], backward[i]);
  }
  void operator()(const ops::rotary& op) {
    auto back = op;
    back.inverse = !op.inverse;
    accumulate(in_[0], make(back, {dy_}));
  }
  void operator()(const ops::lstm&) { recurrent(ops::lstm_backward{}); }
  void operator()(const ops::gru&) { recurrent(ops::gru_backward{}); }

  // A loss is where a pass begins, and what a backward node makes is not differentiated again.
  void operator()(const ops::cross_entropy&) { refuse(); }
  void operator()(const ops::mean_squared_error&) { refuse(); }
  void operator()(const ops::sigmoid_cross_entropy&) { refuse(); }
  void operator()(const ops::batchnorm_inference&) { refuse(); }
  void operator()(const ops::unary_backward&) { refuse(); }
  void operator()(const ops::conv2d_backward&) { refuse(); }
  void operator()(const ops::max_pool_backward&) { refuse(); }
  void operator()(const ops::avg_pool_backward&) { refuse(); }
  void operator()(const ops::layernorm_backward&) { refuse(); }
  void operator()(const ops::rmsnorm_backward&) { refuse(); }
  void operator()(const ops::groupnorm_backward&) { refuse(); }
  void operator()(const ops::batchnorm_backward&) { refuse(); }
  void operator()(const ops::softmax_backward&) { refuse(); }
  void operator()(const ops::embedding_backward&) { refuse(); }
  void operator()(const ops::attention_backward&) { refuse(); }
  void operator()(const ops::lstm_backward&) { refuse(); }
  void operator()(const ops::gru_backward&) { refuse(); }

private:
  static std::size_t index(value_id v) { return static_cast<std::size_t>(v); }
  static void refuse() { TROUPE_ASSERT(!"only forward nodes are differentiated"); }
  bool wants(value_id v) const { return wanted_[index(v)]; }
  value_id x(std::size_t i) const { return again_[index(in_[i])]; }
  value_id y(std::size_t i) const { return again_[index(out_[i])]; }

  template <class Make>
  void product(bool ta, bool tb, Make op) {
    if (wants(in_[1]))
      accumulate(in_[1], tb ? make(op(true, ta), {dy_, x(0)}) : make(op(!ta, false), {x(0), dy_}));
    if (wants(in_[0]))
      accumulate(in_[0], ta ? make(op(tb, true), {x(1), dy_}) : make(op(false, !tb), {dy_, x(1)}));
  }

  /// A norm with a scale, a shift, a mean and a deviation.
  void norm(ops::any op) {
    auto backward = make_all(std::move(op), {x(0), x(1), y(1), y(2), dy_});
    accumulate(in_[1], backward[1]);
    accumulate(in_[2], backward[2]);
    accumulate(in_[0], backward[0]);
  }

  void recurrent(ops::any op) {
    auto backward = make_all(std::move(op), {x(1), y(0), y(1), y(2), dy_});
    accumulate(in_[1], backward[1]);
    accumulate(in_[2], backward[2]);
    accumulate(in_[0], backward[0]);
  }

  /// Makes the block's nodes anew, to run after node `arrived`: without that edge they would run at once, being ready, and
  /// nothing would be saved.
  void compute_again(int block, node_id arrived) {
    block_ = block;
    g_.begin_block(block); // they are forward nodes too
    const auto forward_values = again_.size();
    for (std::size_t id = 0; id < g_.nodes().size(); ++id) {
      const auto n = g_.nodes()[id];
      if (n.block != block || is_source(n.op) || index(n.outputs[0]) >= forward_values)
        continue;
      auto inputs = n.inputs;
      bool begins = true; // reads nothing that is computed again
      for (auto& in : inputs) {
        begins = begins && again_[index(in)] == in;
        in = again_[index(in)];
      }
      g_.begin_layer(n.layer);
      const auto made = g_.add(n.op, std::move(inputs));
      TROUPE_ASSERT(made.has_value());
      if (begins)
        g_.follow(*made, arrived);
      for (std::size_t i = 0; i < n.outputs.size(); ++i)
        again_[index(n.outputs[i])] = g_.output(*made, i);
    }
    g_.begin_block(no_block);
  }

  /// The rules' own nodes fit by construction.
  std::vector<value_id> make_all(ops::any op, std::vector<value_id> inputs) {
    auto id = g_.add(std::move(op), std::move(inputs));
    TROUPE_ASSERT(id.has_value());
    return g_.at(*id).outputs;
  }
  value_id make(ops::any op, std::vector<value_id> inputs) { return make_all(std::move(op), std::move(inputs))[0]; }
  value_id negative(value_id v) { return make(ops::unary{kernels::unary_op::negate}, {v}); }

  void accumulate(value_id v, value_id gradient) {
    if (!wants(v))
      return;
    auto& sum = grad_[index(v)];
    sum = sum == value_id::none ? gradient : make(ops::binary{kernels::binary_op::add}, {sum, gradient});
  }
  /// Of an operand that may have been repeated: `make_gradient` has the extents of the result.
  template <class Make>
  void accumulate_part(value_id v, Make make_gradient) {
    if (!wants(v))
      return;
    auto gradient = make_gradient();
    const auto part = g_.at(v), whole = g_.at(gradient);
    if (part.dims != whole.dims || part.per_row != whole.per_row)
      gradient = make(ops::sum_to{part.dims, part.per_row}, {gradient});
    accumulate(v, gradient);
  }

  graph& g_;
  const differentiation& how_;
  std::vector<value_id> grad_;   ///< per forward value
  std::vector<value_id> before_; ///< the same when the pass began
  std::vector<value_id> again_;  ///< per forward value: itself, or what was computed a second time
  std::vector<bool> wanted_;     ///< per forward value: a parameter is among its ancestors
  int last_block_ = no_block, block_ = no_block;
  value_id dy_ = value_id::none;
  std::vector<value_id> in_, out_;
};

} // namespace

std::vector<value_id> differentiate(graph& g, value_id loss, const parameter_layout& layout, const differentiation& how) {
  const auto forward_nodes = g.nodes().size();
  g.begin_block(no_block);
  reverse_pass pass{g, layout, how};
  pass.run(g.at(loss).producer);

  std::vector<value_id> gradients(layout.slots.size(), value_id::none);
  std::set<value_id> taken;
  for (std::size_t id = 0; id < forward_nodes; ++id) {
    const auto n = g.nodes()[id];
    const auto* parameter = std::get_if<ops::parameter>(&n.op);
    if (!parameter)
      continue;
    auto gradient = pass.gradient_of(n.outputs[0]);
    // A plan writes each gradient at a place of its own, so it can be neither a view nor another one's gradient.
    if (gradient != value_id::none
        && (std::holds_alternative<ops::reshape>(g.producer(gradient).op) || !taken.insert(gradient).second))
      gradient = *g.apply(ops::unary{kernels::unary_op::copy}, {gradient});
    gradients[static_cast<std::size_t>(parameter->slot)] = gradient;
  }
  return gradients;
}

} // namespace troupe
