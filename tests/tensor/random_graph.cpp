// SPDX-License-Identifier: BSD-3-Clause
// Draws one operation after the other.
#include "tests/tensor/random_graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace troupe::testing {

namespace {

constexpr std::int64_t classes = 3;
/// The epsilon of norms: what is divided by a smaller deviation would keep no digits.
constexpr float blunt = 0.1F;

class drawing {
public:
  explicit drawing(std::mt19937& random) : random_(random) {
    const std::vector<shape> samples{{4}, {6}, {3, 4}, {2, 6}, {2, 3, 4}};
    if (below(4) == 0) {
      input_ = apply(ops::input{{1 + below(5)}, dtype::i32}, {});
      pool_.push_back(apply(ops::embedding{}, {input_, parameter({7, 2 + below(4)})}));
    } else {
      input_ = apply(ops::input{pick_from(samples)}, {});
      pool_.push_back(input_);
    }
  }

  model finish() {
    for (auto count = 3 + below(9); count > 0; --count)
      pool_.push_back(drawn(pick()));
    auto last = pool_.back();
    if (dims_of(last).rank() == 3)
      last = apply(ops::reshape{merged(dims_of(last))}, {last});
    auto predictions = linear(last, classes);
    // Whatever has the same places joins in, so that most of what was drawn matters.
    for (auto v : pool_)
      if (places_of(v) == places_of(predictions) && below(2) == 0)
        predictions = apply(ops::binary{kernels::binary_op::add}, {predictions, linear(v, classes)});
    const auto labels = apply(ops::input{places_of(predictions), dtype::i32}, {});
    const auto loss = apply(ops::cross_entropy{below(2) == 0 ? 0.1F : 0.0F}, {predictions, labels});
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

  value_id statistic(const shape& dims) {
    const auto slot = static_cast<int>(layout_.slots.size());
    layout_.slots.push_back({.name = fmt::format("s{}", slot),
                             .dims = dims,
                             .offset = layout_.floats(),
                             .init = {initializer::kind::ones},
                             .kind = slot_kind::statistic});
    return apply(ops::parameter{slot, dims}, {});
  }

  value_id linear(value_id x, std::int64_t width) {
    const bool outputs_first = below(2) == 0;
    const auto w = parameter(outputs_first ? shape{width, width_of(x)} : shape{width_of(x), width});
    return apply(ops::matmul{false, outputs_first}, {x, w});
  }
  value_id unary(value_id x) {
    using enum kernels::unary_op;
    return apply(ops::unary{pick_from(std::vector{relu, tanh, sigmoid, gelu, gelu_erf, silu, negate, copy})}, {x});
  }
  /// Another value of the same extents, or the same one.
  value_id partner(value_id x) {
    std::vector<value_id> alike;
    std::ranges::copy_if(pool_, std::back_inserter(alike), [&](auto v) { return dims_of(v) == dims_of(x); });
    return pick_from(alike);
  }

  value_id drawn(value_id x) {
    using enum kernels::binary_op;
    switch (below(22)) {
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
      return apply(ops::layernorm{blunt}, {x, parameter(kept), parameter(kept)});
    }
    case 7:
      return apply(ops::dropout{0.25F, dropouts_++}, {x});
    case 8:
      return dims_of(x).rank() > 1 ? apply(ops::reshape{merged(dims_of(x))}, {x}) : unary(x);
    case 9: { // a factor for some axes
      auto extents = dims_of(x).extents();
      extents[static_cast<std::size_t>(below(static_cast<int>(extents.size())))] = 1;
      return apply(ops::binary{below(2) == 0 ? multiply : add}, {x, parameter(shape{extents})});
    }
    case 10: { // less a mean
      auto extents = dims_of(x).extents();
      auto& axis = extents[static_cast<std::size_t>(below(static_cast<int>(extents.size())))];
      const auto share = 1 / static_cast<float>(std::exchange(axis, 1));
      return apply(ops::binary{subtract}, {x, apply(ops::sum_to{shape{extents}, true, share}, {x})});
    }
    case 11: {
      std::vector<std::size_t> axes(dims_of(x).rank());
      std::iota(axes.begin(), axes.end(), 0U);
      std::ranges::shuffle(axes, random_);
      return apply(ops::permute{std::move(axes)}, {x});
    }
    case 12:
      return cut(x);
    case 13:
      return apply(ops::concat{static_cast<std::size_t>(below(static_cast<int>(dims_of(x).rank())))}, {x, partner(x)});
    case 14:
      return apply(ops::softmax{}, {x});
    case 15:
      return apply(ops::rmsnorm{blunt}, {x, parameter({width_of(x)})});
    case 16: {
      const auto channels = dims_of(x)[0];
      return apply(ops::groupnorm{channels % 2 == 0 ? 2 : 1, blunt}, {x, parameter({channels}), parameter({channels})});
    }
    case 17: {
      const shape channels{dims_of(x)[0]};
      return apply(ops::batchnorm{blunt},
                   {x, parameter(channels), parameter(channels), statistic(channels), statistic(channels)});
    }
    case 18: // x x' for each matrix
      return dims_of(x).rank() > 1
                 ? apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::batched_matmul{false, true, 0.5F}, {x, partner(x)})})
                 : linear(x, 3);
    default:
      return dims_of(x).rank() == 2 ? sequence(x, dims_of(x)[0]) : linear(x, 4);
    }
  }

  value_id sequence(value_id x, std::int64_t length) {
    const auto bias = [this](value_id y) { return parameter({width_of(y)}); };
    switch (below(5)) {
    case 0: {
      const std::int64_t heads = 2 * (1 + below(2)), keys = heads / (1 + below(2));
      const auto rate = below(2) == 0 ? 0.3F : 0.0F;
      const ops::attention op{heads, keys, below(2) == 0, rate, dropouts_++};
      if (below(2) == 0)
        return apply(op, {linear(x, (heads + 2 * keys) * 2)});
      return apply(op, {linear(x, heads * 2), linear(x, keys * 2), linear(x, keys * 2)});
    }
    case 1:
      return apply(ops::rotary{.heads = 2, .head_size = 2, .base = 50, .interleaved = below(2) == 0}, {linear(x, 5)});
    case 2: {
      const auto gates = linear(x, 4 * 3);
      return apply(ops::lstm{}, {gates, parameter({12, 3}), bias(gates)});
    }
    case 3: {
      const auto gates = linear(x, 3 * 3);
      return apply(ops::gru{}, {gates, parameter({9, 3}), bias(gates)});
    }
    default: // an image of one channel
      return apply(
          ops::reshape{{length, width_of(x)}},
          {apply(ops::conv2d{.padding = 1}, {apply(ops::reshape{{1, length, width_of(x)}}, {x}), parameter({1, 1, 3, 3})})});
    }
  }

  /// One of the parts of an axis; others may be read later.
  value_id cut(value_id x) {
    const auto axis = static_cast<std::size_t>(below(static_cast<int>(dims_of(x).rank())));
    const auto length = dims_of(x)[axis];
    if (length < 2)
      return unary(x);
    const std::int64_t first = 1 + below(static_cast<int>(length) - 1);
    const auto parts = g_.at(g_.add(ops::split{axis, {first, length - first}}, {x}).value()).outputs;
    if (below(2) == 0)
      pool_.push_back(parts[0]);
    return parts[1];
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
