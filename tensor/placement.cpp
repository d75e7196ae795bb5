// SPDX-License-Identifier: BSD-3-Clause
// Buffers by lifetime.
#include "tensor/placement.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/assert.hpp"
#include "tensor/layout.hpp"

namespace troupe {

namespace {

constexpr int before_all = -1;
constexpr int never = -2;

/// A piece of the workspace from the instruction that writes it first to the one that reads it last.
struct block {
  std::int64_t floats = 0, offset = 0;
  int first = 0, last = 0;
  bool meets(const block& other) const { return first <= other.last && other.first <= last; }
};

/// A result and an input whose memory it may take.
struct overwriting {
  std::size_t result, input;
};

/// Inputs that an op may overwrite: elementwise ops read element i before they write it, and some others as much as they need.
struct overwritable_inputs {
  using list = std::vector<overwriting>;
  list operator()(const ops::unary&) const { return {{0, 0}}; }
  list operator()(const ops::add_bias&) const { return {{0, 0}}; }
  list operator()(const ops::dropout&) const { return {{0, 0}}; }
  list operator()(const ops::binary&) const { return {{0, 0}, {0, 1}}; }
  list operator()(const ops::rotary&) const { return {{0, 0}}; }
  list operator()(const ops::lstm&) const { return {{1, 0}}; }
  list operator()(const ops::gru&) const { return {{1, 0}}; }
  list operator()(const ops::cross_entropy&) const { return {{1, 0}}; }
  list operator()(const ops::mean_squared_error&) const { return {{1, 0}}; }
  list operator()(const ops::sigmoid_cross_entropy&) const { return {{1, 0}}; }
  list operator()(const ops::unary_backward&) const { return {{0, 1}}; }
  list operator()(const ops::layernorm_backward&) const { return {{0, 4}}; }
  list operator()(const ops::rmsnorm_backward&) const { return {{0, 3}}; }
  list operator()(const ops::groupnorm_backward&) const { return {{0, 4}}; }
  list operator()(const ops::batchnorm_backward&) const { return {{0, 4}}; }
  list operator()(const ops::softmax_backward&) const { return {{0, 0}, {0, 1}}; }
  list operator()(const ops::lstm_backward&) const { return {{0, 2}}; }
  list operator()(const ops::gru_backward&) const { return {{0, 2}}; }
  template <class Op>
  list operator()(const Op&) const {
    return {};
  }
};

/// Whether a backend takes a null pointer for result `output` when it is never read, or is not asked for it at all.
struct may_be_absent {
  std::size_t output;
  bool operator()(const ops::split&) const { return true; }
  bool operator()(const ops::conv2d_backward&) const { return output != 1; }
  bool operator()(const ops::lstm_backward&) const { return output == 2; }
  bool operator()(const ops::gru_backward&) const { return output == 2; }
  bool operator()(const ops::cross_entropy&) const { return output != 0; }
  bool operator()(const ops::mean_squared_error&) const { return output != 0; }
  bool operator()(const ops::sigmoid_cross_entropy&) const { return output != 0; }
  template <class Op>
  bool operator()(const Op&) const {
    return false;
  }
};

class placer {
public:
  placer(const graph& g, const std::vector<node>& program, std::map<value_id, place> fixed, std::int64_t max_rows)
      : g_(g), program_(program), fixed_(std::move(fixed)), max_rows_(max_rows), last_read_(g.values().size(), never),
        block_of_(g.values().size(), no_block) {
    result_.by_value.resize(g.values().size());
    // A sum that ends at a fixed place is there from its first term on, and one that begins at one ends there.
    for (auto n = program_.rbegin(); n != program_.rend(); ++n)
      for (std::size_t i = 0; i < n->sums.size(); ++i)
        if (n->sums[i] != value_id::none && fixed_.contains(n->outputs[i]))
          fixed_.emplace(n->sums[i], fixed_.at(n->outputs[i]));
    for (const auto& n : program_)
      for (std::size_t i = 0; i < n.sums.size(); ++i)
        if (n.sums[i] != value_id::none && fixed_.contains(n.sums[i]))
          TROUPE_ASSERT(fixed_.emplace(n.outputs[i], fixed_.at(n.sums[i])).first->second == fixed_.at(n.sums[i]));
  }

  placement run() {
    find_last_reads();
    for (int i = 0; i < static_cast<int>(program_.size()); ++i)
      for (std::size_t output = 0; output < program_[static_cast<std::size_t>(i)].outputs.size(); ++output)
        assign(i, output);
    pack();
    for (std::size_t v = 0; v < block_of_.size(); ++v)
      if (block_of_[v] != no_block)
        result_.by_value[v] = {region::workspace, blocks_[block_of_[v]].offset};
    return std::move(result_);
  }

private:
  static constexpr std::size_t no_block = static_cast<std::size_t>(-1);
  static std::size_t index(value_id v) { return static_cast<std::size_t>(v); }

  /// A view is read whenever one of its own views is.
  void find_last_reads() {
    for (int i = static_cast<int>(program_.size()) - 1; i >= 0; --i) {
      const auto& n = program_[static_cast<std::size_t>(i)];
      const bool view = std::holds_alternative<ops::reshape>(n.op);
      for (auto in : n.inputs)
        last_read_[index(in)] = std::max(last_read_[index(in)], view ? std::max(i, last_read_[index(n.outputs[0])]) : i);
      for (auto sum : n.sums)
        if (sum != value_id::none)
          last_read_[index(sum)] = std::max(last_read_[index(sum)], i);
    }
  }

  void assign(int i, std::size_t output) {
    const auto& n = program_[static_cast<std::size_t>(i)];
    const auto v = n.outputs[output];
    if (auto hit = fixed_.find(v); hit != fixed_.end()) {
      TROUPE_ASSERT(!std::holds_alternative<ops::reshape>(n.op));
      result_.by_value[index(v)] = hit->second;
    } else if (std::holds_alternative<ops::reshape>(n.op)) {
      result_.by_value[index(v)] = result_.by_value[index(n.inputs[0])];
      block_of_[index(v)] = block_of_[index(n.inputs[0])];
    } else if (last_read_[index(v)] == never && std::visit(may_be_absent{output}, n.op)) {
      result_.by_value[index(v)] = {};
    } else if (n.sum_of(output) != value_id::none) {
      TROUPE_ASSERT(take_over(n.sum_of(output), i, v)); // it dies here
    } else if (take_over_an_input(n, output, i)) {
      return;
    } else {
      const int first = std::holds_alternative<ops::input>(n.op) ? before_all : i;
      block_of_[index(v)] = blocks_.size();
      blocks_.push_back({align_up(g_.at(v).elements(max_rows_)), 0, first, std::max(last_read_[index(v)], i)});
    }
  }

  bool take_over_an_input(const node& n, std::size_t output, int i) {
    return std::ranges::any_of(std::visit(overwritable_inputs{}, n.op), [&](const overwriting& pair) {
      return pair.result == output && take_over(n.inputs[pair.input], i, n.outputs[output]);
    });
  }

  /// Value v takes the place of one that dies with instruction i.
  bool take_over(value_id dying, int i, value_id v) {
    const auto b = block_of_[index(dying)];
    // Of as many elements: an operand that is repeated is read more than once.
    if (b == no_block || blocks_[b].last != i || g_.at(dying).elements(max_rows_) != g_.at(v).elements(max_rows_))
      return false;
    block_of_[index(v)] = b;
    blocks_[b].last = std::max(last_read_[index(v)], i);
    return true;
  }

  /// Largest first, each at the lowest offset where nothing alive at the same time lies (Pisarchyk & Lee 2020, "greedy by size").
  void pack() {
    std::vector<std::size_t> by_size(blocks_.size());
    std::iota(by_size.begin(), by_size.end(), 0U);
    std::ranges::stable_sort(by_size, std::greater<>{}, [&](auto b) { return blocks_[b].floats; });
    std::vector<const block*> placed; // by offset
    for (auto b : by_size) {
      auto& current = blocks_[b];
      for (const auto* other : placed)
        if (other->meets(current)) {
          if (current.offset + current.floats <= other->offset)
            break;
          current.offset = std::max(current.offset, other->offset + other->floats);
        }
      placed.insert(std::ranges::upper_bound(placed, current.offset, {}, &block::offset), &current);
      result_.workspace_floats = std::max(result_.workspace_floats, current.offset + current.floats);
    }
  }

  const graph& g_;
  const std::vector<node>& program_;
  std::map<value_id, place> fixed_;
  std::int64_t max_rows_;
  std::vector<int> last_read_;        ///< per value: the instruction that reads it last
  std::vector<std::size_t> block_of_; ///< per value
  std::vector<block> blocks_;
  placement result_;
};

} // namespace

placement place_values(const graph& g, const std::vector<node>& program, const std::map<value_id, place>& fixed,
                       std::int64_t max_rows) {
  return placer{g, program, fixed, max_rows}.run();
}

} // namespace troupe
