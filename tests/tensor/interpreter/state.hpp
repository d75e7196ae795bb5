// SPDX-License-Identifier: BSD-3-Clause
// What the interpreter's ops share: the values so far, and places in tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/tensor/interpreter.hpp"

namespace troupe::testing::interpreting {

using array = std::vector<double>;

/// A graph with the values of the nodes so far, and the node whose turn it is.
class state {
public:
  state(const graph& g, const interpreter_inputs& inputs) : g_(g), given_(inputs), all_(g.values().size()) {}

  void begin(const node& n) {
    n_ = &n;
    for (auto out : n.outputs)
      all_[static_cast<std::size_t>(out)].assign(static_cast<std::size_t>(g_.at(out).elements(given_.rows)), 0);
  }
  std::vector<array> take() { return std::move(all_); }

  static double& at(array& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }
  static const double& at(const array& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }
  const value& shape_of(std::size_t input) const { return g_.at(n_->inputs[input]); }
  const array& x(std::size_t input) const { return all_[static_cast<std::size_t>(n_->inputs[input])]; }
  array& y(std::size_t output = 0) { return all_[static_cast<std::size_t>(n_->outputs[output])]; }

  // -- places in tensors

  static std::size_t elements(const shape& dims) { return static_cast<std::size_t>(dims.elements()); }
  /// Along each axis, of element i of a row.
  static std::vector<std::int64_t> place(const shape& dims, std::size_t i) {
    std::vector<std::int64_t> at(dims.rank());
    for (auto axis = dims.rank(); axis-- > 0; i /= static_cast<std::size_t>(dims[axis]))
      at[axis] = static_cast<std::int64_t>(i % static_cast<std::size_t>(dims[axis]));
    return at;
  }
  static std::size_t flat(const shape& dims, const std::vector<std::int64_t>& at) {
    std::int64_t i = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      i = i * dims[axis] + at[axis];
    return static_cast<std::size_t>(i);
  }
  /// Where element i of a whole is in what repeats to it.
  static std::size_t part_of(const value& part, const value& whole, std::size_t i) {
    auto at = place(whole.dims, i);
    at.erase(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(at.size() - part.dims.rank()));
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      at[axis] = part.dims[axis] == 1 ? 0 : at[axis];
    return (part.per_row ? i / elements(whole.dims) * elements(part.dims) : 0) + flat(part.dims, at);
  }
  std::size_t part_of(const value& part, std::size_t i) const { return part_of(part, result(0), i); }
  /// Where element i of a part that begins at `begin` of an axis is in the whole.
  static std::size_t within(const shape& whole, const shape& part, std::size_t axis, std::int64_t begin, std::size_t i) {
    auto at = place(part, i);
    at[axis] += begin;
    return i / elements(part) * elements(whole) + flat(whole, at);
  }
  std::int64_t last_of(std::size_t input) const { return shape_of(input).dims[shape_of(input).dims.rank() - 1]; }
  const value& result(std::size_t output) const { return g_.at(n_->outputs[output]); }

  const graph& g_;
  const interpreter_inputs& given_;
  std::vector<array> all_;
  const node* n_ = nullptr;
};

} // namespace troupe::testing::interpreting
