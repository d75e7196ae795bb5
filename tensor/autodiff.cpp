// SPDX-License-Identifier: BSD-3-Clause
// One rule per op: from the gradient of its result to the gradients of its inputs.
#include "tensor/autodiff.hpp"

#include <algorithm>
#include <set>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// Walks the graph from the loss to the parameters. `grad_[v]` is the gradient of value v as far as it is known.
class reverse_pass {
public:
  explicit reverse_pass(graph& g) : g_(g), grad_(g.values().size(), value_id::none), wanted_(g.values().size(), false) {
    for (const auto& n : g.nodes()) {
      bool leads_to_parameter = std::holds_alternative<ops::parameter>(n.op);
      for (auto in : n.inputs)
        leads_to_parameter = leads_to_parameter || wants(in);
      for (auto out : n.outputs)
        wanted_[index(out)] = leads_to_parameter;
    }
  }

  void run(node_id root) {
    const auto loss = g_.at(root);
    TROUPE_ASSERT(std::holds_alternative<ops::cross_entropy>(loss.op));
    accumulate(loss.inputs[0], loss.outputs[1]);
    for (auto id = static_cast<int>(root) - 1; id >= 0; --id) {
      // By value: rules append nodes, which moves the ones that are there.
      const auto n = g_.at(static_cast<node_id>(id));
      if (std::ranges::all_of(n.outputs, [this](auto v) { return gradient_of(v) == value_id::none; }))
        continue;
      in_ = n.inputs;
      out_ = n.outputs;
      dy_ = gradient_of(out_[0]);
      g_.begin_layer(n.layer);
      std::visit(*this, n.op);
    }
  }

  value_id gradient_of(value_id v) const { return grad_[index(v)]; }

  // -- the rules; dy_ is the gradient of the node's first result. One with several that lead to the loss asks
  // gradient_of(out_[i]), which is none where the loss does not depend on that result

  void operator()(const ops::input&) {}
  void operator()(const ops::parameter&) {}

  // y = A B with A = op(a), B = op(b):  dA = dy B', dB = A' dy, transposed back where op is a transposition.
  void operator()(const ops::matmul& op) {
    TROUPE_ASSERT(op.act == kernels::activation::none);
    const auto a = in_[0], b = in_[1];
    const bool ta = op.transpose_a, tb = op.transpose_b;
    if (wants(b))
      accumulate(b, tb ? make(ops::matmul{true, ta}, {dy_, a}) : make(ops::matmul{!ta, false}, {a, dy_}));
    if (wants(a))
      accumulate(a, ta ? make(ops::matmul{tb, true}, {b, dy_}) : make(ops::matmul{false, !tb}, {dy_, b}));
  }

  void operator()(const ops::add_bias&) {
    if (wants(in_[1]))
      accumulate(in_[1], make(ops::sum_rows{g_.at(in_[1]).dims}, {dy_}));
    accumulate(in_[0], dy_);
  }

  void operator()(const ops::unary& op) {
    using enum kernels::unary_op;
    if (op.op == copy)
      accumulate(in_[0], dy_);
    else
      accumulate(in_[0], make(ops::unary_backward{op.op}, {kernels::saves_result(op.op) ? out_[0] : in_[0], dy_}));
  }

  void operator()(const ops::binary& op) {
    using enum kernels::binary_op;
    const auto a = in_[0], b = in_[1], y = out_[0];
    switch (op.op) {
    case add:
      accumulate(a, dy_);
      accumulate(b, dy_);
      break;
    case subtract:
      accumulate(a, dy_);
      if (wants(b))
        accumulate(b, make(ops::unary{kernels::unary_op::negate}, {dy_}));
      break;
    case multiply:
      if (wants(a))
        accumulate(a, make(ops::binary{multiply}, {dy_, b}));
      if (wants(b))
        accumulate(b, make(ops::binary{multiply}, {dy_, a}));
      break;
    case divide: { // d(a/b) = da / b - (a/b) db / b
      const auto da = make(ops::binary{divide}, {dy_, b});
      accumulate(a, da);
      if (wants(b))
        accumulate(b, make(ops::unary{kernels::unary_op::negate}, {make(ops::binary{multiply}, {da, y})}));
      break;
    }
    }
  }

  void operator()(const ops::conv2d& op) {
    auto backward = make_all(ops::conv2d_backward{op.stride, op.padding}, {in_[0], in_[1], dy_});
    accumulate(in_[1], backward[1]);
    if (in_.size() == 3)
      accumulate(in_[2], backward[2]);
    accumulate(in_[0], backward[0]);
  }

  void operator()(const ops::max_pool& op) {
    accumulate(in_[0], make(ops::max_pool_backward{op.size, op.stride, op.padding, g_.at(in_[0]).dims}, {out_[1], dy_}));
  }

  void operator()(const ops::avg_pool& op) {
    accumulate(in_[0], make(ops::avg_pool_backward{op.size, op.stride, op.padding, g_.at(in_[0]).dims}, {dy_}));
  }

  void operator()(const ops::reshape&) { accumulate(in_[0], make(ops::reshape{g_.at(in_[0]).dims}, {dy_})); }

  void operator()(const ops::layernorm&) {
    auto backward = make_all(ops::layernorm_backward{}, {in_[0], in_[1], out_[1], out_[2], dy_});
    accumulate(in_[1], backward[1]);
    accumulate(in_[2], backward[2]);
    accumulate(in_[0], backward[0]);
  }

  // What was dropped gets no gradient, what was kept is scaled alike: the same draw, applied to dy.
  void operator()(const ops::dropout& op) { accumulate(in_[0], make(op, {dy_})); }

  // A loss is where a pass begins, and what a backward node makes is not differentiated again.
  void operator()(const ops::cross_entropy&) { refuse(); }
  void operator()(const ops::unary_backward&) { refuse(); }
  void operator()(const ops::sum_rows&) { refuse(); }
  void operator()(const ops::conv2d_backward&) { refuse(); }
  void operator()(const ops::max_pool_backward&) { refuse(); }
  void operator()(const ops::avg_pool_backward&) { refuse(); }
  void operator()(const ops::layernorm_backward&) { refuse(); }

private:
  static std::size_t index(value_id v) { return static_cast<std::size_t>(v); }
  static void refuse() { TROUPE_ASSERT(!"only forward nodes are differentiated"); }
  bool wants(value_id v) const { return wanted_[index(v)]; }

  /// The rules' own nodes fit by construction.
  std::vector<value_id> make_all(ops::any op, std::vector<value_id> inputs) {
    auto id = g_.add(std::move(op), std::move(inputs));
    TROUPE_ASSERT(id.has_value());
    return g_.at(*id).outputs;
  }
  value_id make(ops::any op, std::vector<value_id> inputs) { return make_all(std::move(op), std::move(inputs))[0]; }

  void accumulate(value_id v, value_id gradient) {
    if (!wants(v))
      return;
    auto& sum = grad_[index(v)];
    sum = sum == value_id::none ? gradient : make(ops::binary{kernels::binary_op::add}, {sum, gradient});
  }

  graph& g_;
  std::vector<value_id> grad_; ///< per forward value
  std::vector<bool> wanted_;   ///< per forward value: a parameter is among its ancestors
  value_id dy_ = value_id::none;
  std::vector<value_id> in_, out_;
};

} // namespace

std::vector<value_id> differentiate(graph& g, value_id loss, int slots) {
  const auto forward_nodes = g.nodes().size();
  reverse_pass pass{g};
  pass.run(g.at(loss).producer);

  std::vector<value_id> gradients(static_cast<std::size_t>(slots), value_id::none);
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
