// SPDX-License-Identifier: BSD-3-Clause
// Ordering and fusion.
#include "tensor/lowering.hpp"

#include <algorithm>
#include <optional>
#include <queue>
#include <set>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

template <class Id>
std::size_t index(Id id) {
  return static_cast<std::size_t>(id);
}

/// Nodes that run before `n`: those whose results it reads, and those that it is told to follow.
std::vector<node_id> predecessors(const graph& g, const node& n) {
  auto before = n.after;
  for (auto in : n.inputs)
    before.push_back(g.at(in).producer);
  return before;
}

/// Marks what the wanted values depend on.
std::vector<bool> needed_nodes(const graph& g, const std::vector<value_id>& wanted) {
  std::vector<bool> needed(g.nodes().size(), false);
  for (auto v : wanted)
    needed[index(g.at(v).producer)] = true;
  // Both have smaller numbers, so one sweep from the end is enough.
  for (auto id = needed.size(); id-- > 0;)
    if (needed[id])
      for (auto before : predecessors(g, g.nodes()[id]))
        needed[index(before)] = true;
  return needed;
}

/// Results that a backend can add to what is there: all of a node's, or none.
struct adding_results {
  using list = std::vector<std::size_t>;
  list operator()(const ops::matmul& op) const { return op.act == kernels::activation::none ? list{0} : list{}; }
  list operator()(const ops::batched_matmul&) const { return {0}; }
  list operator()(const ops::sum_to&) const { return {0}; }
  list operator()(const ops::expand&) const { return {0}; }
  list operator()(const ops::permute&) const { return {0}; }
  list operator()(const ops::concat&) const { return {0}; }
  list operator()(const ops::conv2d_backward&) const { return {1, 2}; }
  list operator()(const ops::layernorm_backward&) const { return {1, 2}; }
  list operator()(const ops::rmsnorm_backward&) const { return {1}; }
  list operator()(const ops::groupnorm_backward&) const { return {1, 2}; }
  list operator()(const ops::batchnorm_backward&) const { return {1, 2}; }
  list operator()(const ops::embedding_backward&) const { return {0}; }
  list operator()(const ops::lstm_backward&) const { return {1, 2}; }
  list operator()(const ops::gru_backward&) const { return {1, 2}; }
  template <class Op>
  list operator()(const Op&) const {
    return {};
  }
};

/// Takes followers into a node's epilogue; a follower that was taken is erased at the end.
class fusion {
public:
  fusion(const graph& g, std::vector<node> ordered, const std::vector<value_id>& wanted)
      : g_(g), nodes_(std::move(ordered)), taken_(nodes_.size(), false), wanted_(wanted.begin(), wanted.end()),
        readers_(g.values().size()), made_by_(g.values().size(), nobody) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (auto in : nodes_[i].inputs)
        if (readers_[index(in)].empty() || readers_[index(in)].back() != i)
          readers_[index(in)].push_back(i);
      makes(i);
    }
  }

  std::vector<node> run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (auto* product = std::get_if<ops::matmul>(&nodes_[i].op)) {
        take_bias(i);
        take_activation(i, product->act, true);
      } else if (auto* convolution = std::get_if<ops::conv2d>(&nodes_[i].op)) {
        take_activation(i, convolution->act, false);
      }
    }
    // In the backward alone: so that the forward has the same bits in training, in an evaluation, and where it is computed again.
    const auto loss = std::ranges::find_if(nodes_, [](const node& n) { return is_loss(n.op); });
    for (auto i = loss == nodes_.end() ? 0 : static_cast<std::size_t>(loss - nodes_.begin()); i < nodes_.size(); ++i)
      if (!taken_[i] && nodes_[i].block == no_block)
        add_to_sums(i);
    std::vector<node> kept;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!taken_[i])
        kept.push_back(std::move(nodes_[i]));
    return kept;
  }

private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  const std::vector<std::size_t>& readers(value_id v) const { return readers_[index(v)]; }

  void makes(std::size_t i) {
    for (auto out : nodes_[i].outputs)
      made_by_[index(out)] = i;
  }
  void reads(std::size_t i, value_id v) {
    nodes_[i].inputs.push_back(v);
    readers_[index(v)].push_back(i);
  }
  void drop(std::size_t i) {
    taken_[i] = true;
    for (auto in : nodes_[i].inputs)
      std::erase(readers_[index(in)], i);
  }
  /// Node `first` makes what `follower` made.
  void take(std::size_t first, std::size_t follower) {
    drop(follower);
    nodes_[first].outputs = nodes_[follower].outputs;
    makes(first);
  }

  void take_bias(std::size_t first) {
    const auto product = nodes_[first].outputs[0];
    if (readers(product).size() != 1 || wanted_.contains(product))
      return;
    const auto i = readers(product)[0];
    const auto& follower = nodes_[i];
    // Only a parameter is certain to be there already.
    if (!std::holds_alternative<ops::add_bias>(follower.op) || follower.inputs[0] != product
        || !std::holds_alternative<ops::parameter>(g_.producer(follower.inputs[1]).op))
      return;
    const auto bias = follower.inputs[1];
    take(first, i);
    reads(first, bias);
  }

  void take_activation(std::size_t first, kernels::activation& act, bool can_keep_argument) {
    const auto argument = nodes_[first].outputs[0];
    const bool argument_is_read = readers(argument).size() > 1 || wanted_.contains(argument);
    for (auto i : readers(argument)) {
      const auto* unary = std::get_if<ops::unary>(&nodes_[i].op);
      const auto found = unary ? kernels::as_activation(unary->op) : std::nullopt;
      if (!found || (!can_keep_argument && (argument_is_read || *found != kernels::activation::relu)))
        continue;
      act = *found;
      take(first, i);
      if (argument_is_read) {
        nodes_[first].outputs.push_back(argument);
        makes(first);
      }
      return;
    }
  }

  /// Where all that node i adds to sums, if it can, ends sums that nothing reads afterwards, it does so, and the additions go.
  void add_to_sums(std::size_t i) {
    struct addition {
      std::size_t result, by;
      value_id sum;
    };
    std::vector<addition> found;
    for (auto result : std::visit(adding_results{}, nodes_[i].op)) {
      const auto v = nodes_[i].outputs[result];
      if (readers(v).empty() && !wanted_.contains(v))
        continue;
      if (readers(v).size() != 1 || wanted_.contains(v))
        return;
      const auto by = readers(v)[0];
      const auto* add = std::get_if<ops::binary>(&nodes_[by].op);
      if (!add || add->op != kernels::binary_op::add)
        return;
      const auto sum = nodes_[by].inputs[nodes_[by].inputs[0] == v ? 1 : 0];
      if (sum == v || made_by_[index(sum)] >= i || !may_be_overwritten(sum, i, by)
          || std::ranges::find(found, sum, &addition::sum) != found.end())
        return;
      found.push_back({result, by, sum});
    }
    for (const auto& [result, by, sum] : found) {
      auto& n = nodes_[i];
      n.sums.resize(n.outputs.size(), value_id::none);
      n.sums[result] = sum;
      n.outputs[result] = nodes_[by].outputs[0];
      drop(by);
      makes(i);
      readers_[index(sum)].push_back(i);
    }
  }

  /// Whether `sum` is all that addition `by` adds to, in memory of its own that no other node reads from node `last` on.
  bool may_be_overwritten(value_id sum, std::size_t last, std::size_t by) const {
    const auto& whole = g_.at(nodes_[by].outputs[0]);
    const auto& source = nodes_[made_by_[index(sum)]].op;
    const bool own =
        (!is_source(source) || std::holds_alternative<ops::gradient>(source)) && !std::holds_alternative<ops::reshape>(source);
    return own && !wanted_.contains(sum) && g_.at(sum).dims == whole.dims && g_.at(sum).per_row == whole.per_row
           && std::ranges::all_of(readers(sum), [&](auto reader) {
                return reader == by || (reader < last && !std::holds_alternative<ops::reshape>(nodes_[reader].op));
              });
  }

  const graph& g_;
  std::vector<node> nodes_;
  std::vector<bool> taken_;
  std::set<value_id> wanted_;
  std::vector<std::vector<std::size_t>> readers_; ///< per value: the nodes that read it, in order
  std::vector<std::size_t> made_by_;              ///< per value: the node
};

} // namespace

std::vector<node> order_nodes(const graph& g, const std::vector<value_id>& wanted, const std::vector<value_id>& early) {
  const auto needed = needed_nodes(g, wanted);
  const auto count = g.nodes().size();
  std::vector<std::size_t> unresolved(count, 0);
  std::vector<std::vector<std::size_t>> followers(count);
  for (std::size_t id = 0; id < count; ++id)
    if (needed[id])
      for (auto before : predecessors(g, g.nodes()[id])) {
        ++unresolved[id];
        followers[index(before)].push_back(id);
      }
  std::vector<bool> comes_first(count, false);
  for (auto v : early)
    comes_first[index(g.at(v).producer)] = true;

  using candidate = std::pair<bool, std::size_t>; // (can wait, number): the smallest runs next
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> ready;
  for (std::size_t id = 0; id < count; ++id)
    if (needed[id] && unresolved[id] == 0)
      ready.emplace(!comes_first[id], id);
  std::vector<node> ordered;
  while (!ready.empty()) {
    const auto id = ready.top().second;
    ready.pop();
    ordered.push_back(g.nodes()[id]);
    for (auto follower : followers[id])
      if (--unresolved[follower] == 0)
        ready.emplace(!comes_first[follower], follower);
  }
  TROUPE_ASSERT(static_cast<std::size_t>(std::ranges::count(needed, true)) == ordered.size());
  return ordered;
}

std::vector<node> fuse_epilogues(const graph& g, std::vector<node> ordered, const std::vector<value_id>& wanted) {
  return fusion{g, std::move(ordered), wanted}.run();
}

std::vector<node> for_evaluation(const graph& g, std::vector<node> ordered) {
  for (auto& n : ordered)
    if (std::holds_alternative<ops::dropout>(n.op)) {
      n.op = ops::reshape{g.at(n.outputs[0]).dims};
    } else if (auto* attention = std::get_if<ops::attention>(&n.op)) {
      attention->rate = 0;
    } else if (const auto* norm = std::get_if<ops::batchnorm>(&n.op)) {
      n.op = ops::batchnorm_inference{norm->epsilon};
      n.outputs.resize(1);
    }
  return ordered;
}

} // namespace troupe
