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

std::size_t index(node_id id) {
  return static_cast<std::size_t>(id);
}

/// Marks what the wanted values depend on.
std::vector<bool> needed_nodes(const graph& g, const std::vector<value_id>& wanted) {
  std::vector<bool> needed(g.nodes().size(), false);
  for (auto v : wanted)
    needed[index(g.at(v).producer)] = true;
  // Inputs have smaller numbers, so one sweep from the end is enough.
  for (auto id = needed.size(); id-- > 0;)
    if (needed[id])
      for (auto in : g.nodes()[id].inputs)
        needed[index(g.at(in).producer)] = true;
  return needed;
}

/// Takes followers into a node's epilogue; a follower that was taken is erased at the end.
class fusion {
public:
  fusion(const graph& g, std::vector<node> ordered, const std::vector<value_id>& wanted)
      : g_(g), nodes_(std::move(ordered)), taken_(nodes_.size(), false), wanted_(wanted.begin(), wanted.end()) {}

  std::vector<node> run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (auto* product = std::get_if<ops::matmul>(&nodes_[i].op)) {
        take_bias(nodes_[i]);
        take_activation(nodes_[i], product->act, true);
      } else if (auto* convolution = std::get_if<ops::conv2d>(&nodes_[i].op)) {
        take_activation(nodes_[i], convolution->act, false);
      }
    }
    std::vector<node> kept;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!taken_[i])
        kept.push_back(std::move(nodes_[i]));
    return kept;
  }

private:
  std::vector<std::size_t> readers(value_id v) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!taken_[i] && std::ranges::find(nodes_[i].inputs, v) != nodes_[i].inputs.end())
        found.push_back(i);
    return found;
  }

  void take_bias(node& first) {
    const auto followers = readers(first.outputs[0]);
    if (followers.size() != 1 || wanted_.contains(first.outputs[0]))
      return;
    const auto& follower = nodes_[followers[0]];
    // Only a parameter is certain to be there already.
    if (!std::holds_alternative<ops::add_bias>(follower.op) || follower.inputs[0] != first.outputs[0]
        || !std::holds_alternative<ops::parameter>(g_.producer(follower.inputs[1]).op))
      return;
    first.inputs.push_back(follower.inputs[1]);
    first.outputs = follower.outputs;
    taken_[followers[0]] = true;
  }

  void take_activation(node& first, kernels::activation& act, bool can_keep_argument) {
    const auto argument = first.outputs[0];
    const auto followers = readers(argument);
    const bool argument_is_read = followers.size() > 1 || wanted_.contains(argument);
    for (auto i : followers) {
      const auto* unary = std::get_if<ops::unary>(&nodes_[i].op);
      const auto found = unary ? kernels::as_activation(unary->op) : std::nullopt;
      if (!found || (!can_keep_argument && (argument_is_read || *found != kernels::activation::relu)))
        continue;
      act = *found;
      first.outputs = nodes_[i].outputs;
      if (argument_is_read)
        first.outputs.push_back(argument);
      taken_[i] = true;
      return;
    }
  }

  const graph& g_;
  std::vector<node> nodes_;
  std::vector<bool> taken_;
  std::set<value_id> wanted_;
};

} // namespace

std::vector<node> order_nodes(const graph& g, const std::vector<value_id>& wanted, const std::vector<value_id>& early) {
  const auto needed = needed_nodes(g, wanted);
  const auto count = g.nodes().size();
  std::vector<std::size_t> unresolved(count, 0);
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t id = 0; id < count; ++id)
    if (needed[id])
      for (auto in : g.nodes()[id].inputs) {
        ++unresolved[id];
        readers[index(g.at(in).producer)].push_back(id);
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
    for (auto reader : readers[id])
      if (--unresolved[reader] == 0)
        ready.emplace(!comes_first[reader], reader);
  }
  TROUPE_ASSERT(static_cast<std::size_t>(std::ranges::count(needed, true)) == ordered.size());
  return ordered;
}

std::vector<node> fuse_epilogues(const graph& g, std::vector<node> ordered, const std::vector<value_id>& wanted) {
  return fusion{g, std::move(ordered), wanted}.run();
}

std::vector<node> without_dropout(const graph& g, std::vector<node> ordered) {
  for (auto& n : ordered)
    if (std::holds_alternative<ops::dropout>(n.op))
      n.op = ops::reshape{g.at(n.outputs[0]).dims};
  return ordered;
}

} // namespace troupe
