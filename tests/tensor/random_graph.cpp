// SPDX-License-Identifier: BSD-3-Clause
// Draws one operation after the other.
#include "tests/tensor/random_graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include <fmt/format.h>

namespace troupe::testing {

namespace {

constexpr std::int64_t classes = 3;

class drawing {
public:
  explicit drawing(std::mt19937& random) : random_(random) {
    const std::vector<shape> samples{{4}, {6}, {3, 4}, {2, 6}, {2, 3, 4}};
    input_ = apply(ops::input{pick_from(samples)}, {});
    pool_.push_back(input_);
  }

  model finish() {
    for (auto count = 3 + below(9); count > 0; --count)
      grow();
    auto last = pool_.back();
    if (dims_of(last).rank() == 3)
      last = apply(ops::reshape{merged(dims_of(last))}, {last});
    auto predictions = linear(last, classes);
    // Whatever has the same places joins in, so that most of what was drawn matters.
    for (auto v : pool_)
      if (places_of(v) == places_of(predictions) && below(2) == 0)
        predictions = apply(ops::binary{kernels::binary_op::add}, {predictions, linear(v, classes)});
    const auto labels = apply(ops::input{places_of(predictions), dtype::i32}, {});
    const auto loss = apply(ops::cross_entropy{}, {predictions, labels});
    return model::from_graph({.forward = g_, .layout = layout_, .input = input_, .labels = labels, .loss = loss}).value();
  }

private:
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  template <class T>
  const T& pick_from(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  /// Mostly one of the newest.
  value_id pick() {
    return pool_[pool_.size() - 1 - static_cast<std::size_t>(std::min(below(static_cast<int>(pool_.size())), below(4)))];
  }

  const shape& dims_of(value_id v) const { return g_.at(v).dims; }
  std::int64_t width_of(value_id v) const { return dims_of(v)[dims_of(v).rank() - 1]; }
  shape places_of(value_id v) const {
    const auto& extents = dims_of(v).extents();
    return shape{std::vector(extents.begin(), extents.end() - 1)};
  }
  static shape merged(const shape& dims) {
    auto extents = dims.extents();
    extents[1] *= extents[0];
    extents.erase(extents.begin());
    return shape{std::move(extents)};
  }

  value_id apply(ops::any op, std::vector<value_id> inputs) { return g_.apply(std::move(op), std::move(inputs)).value(); }
  value_id parameter(const shape& dims) {
    std::vector<value_id> alike;
    std::ranges::copy_if(parameters_, std::back_inserter(alike), [&](auto v) { return dims_of(v) == dims; });
    if (!alike.empty() && below(3) == 0)
      return pick_from(alike);
    const auto slot = static_cast<int>(layout_.slots.size());
    layout_.slots.push_back({fmt::format("p{}", slot), dims, layout_.floats(), {initializer::kind::xavier_uniform, 4, 4}});
    parameters_.push_back(apply(ops::parameter{slot, dims}, {}));
    return parameters_.back();
  }

  value_id linear(value_id x, std::int64_t width) {
    const bool outputs_first = below(2) == 0;
    const auto w = parameter(outputs_first ? shape{width, width_of(x)} : shape{width_of(x), width});
    return apply(ops::matmul{false, outputs_first}, {x, w});
  }
  value_id unary(value_id x) {
    using enum kernels::unary_op;
    return apply(ops::unary{pick_from(std::vector{relu, tanh, sigmoid, gelu, negate, copy})}, {x});
  }
  /// Another value of the same extents, or the same one.
  value_id partner(value_id x) {
    std::vector<value_id> alike;
    std::ranges::copy_if(pool_, std::back_inserter(alike), [&](auto v) { return dims_of(v) == dims_of(x); });
    return pick_from(alike);
  }

  void grow() {
    const auto x = pick();
    pool_.push_back(drawn(x));
  }
  value_id drawn(value_id x) {
    using enum kernels::binary_op;
    switch (below(9)) {
    case 0:
      return linear(x, 2 + below(5));
    case 1: {
      const auto y = linear(x, 2 + below(5));
      return unary(apply(ops::add_bias{}, {y, parameter({width_of(y)})}));
    }
    case 2: // a residual sum
      return apply(ops::binary{add}, {x, linear(unary(x), width_of(x))});
    case 3: // a sum of products
      return apply(ops::binary{add}, {linear(x, 4), linear(x, 4)});
    case 4:
      return apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::binary{multiply}, {x, partner(x)})});
    case 5:
      return apply(ops::binary{below(2) == 0 ? add : subtract}, {x, partner(x)});
    case 6: {
      const auto& extents = dims_of(x).extents();
      const auto axes = 1 + below(static_cast<int>(extents.size()));
      const shape kept{std::vector(extents.end() - axes, extents.end())};
      return apply(ops::layernorm{}, {x, parameter(kept), parameter(kept)});
    }
    case 7:
      return apply(ops::dropout{0.25F, dropouts_++}, {x});
    default:
      return dims_of(x).rank() > 1 ? apply(ops::reshape{merged(dims_of(x))}, {x}) : unary(x);
    }
  }

  std::mt19937& random_;
  graph g_;
  parameter_layout layout_;
  value_id input_{};
  std::vector<value_id> pool_, parameters_;
  std::uint32_t dropouts_ = 0;
};

} // namespace

model random_model(std::mt19937& random) {
  return drawing{random}.finish();
}

unsigned seed_or(unsigned usual) {
  const auto* chosen = std::getenv("TROUPE_TEST_SEED");
  return chosen ? static_cast<unsigned>(std::strtoul(chosen, nullptr, 10)) : usual;
}

} // namespace troupe::testing
