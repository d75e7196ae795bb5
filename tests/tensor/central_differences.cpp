// SPDX-License-Identifier: BSD-3-Clause
// Central differences of the mean loss.
#include "tests/tensor/central_differences.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tensor/autodiff.hpp"

namespace troupe::testing {

namespace {

double mean_loss(const graph& g, value_id loss, const interpreter_inputs& in) {
  const auto all = interpret(g, in);
  double sum = 0;
  for (auto l : all[static_cast<std::size_t>(loss)])
    sum += l;
  return sum / counted_predictions(g, loss, in);
}

} // namespace

void expect_gradients(const graph& forward, value_id loss, const parameter_layout& layout, interpreter_inputs in,
                      std::size_t most, bool some_have_none) {
  auto g = forward;
  const auto gradients = differentiate(g, loss, layout);
  const auto all = interpret(g, in);
  constexpr double tolerance = 1e-7;
  for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
    if ((some_have_none && gradients[slot] == value_id::none) || layout.slots[slot].kind == slot_kind::statistic)
      continue;
    ASSERT_NE(gradients[slot], value_id::none) << "slot " << slot;
    const auto& gradient = all[static_cast<std::size_t>(gradients[slot])];
    ASSERT_EQ(gradient.size(), in.parameters[slot].size());
    const auto stride = std::max<std::size_t>(gradient.size() / most, 1);
    for (std::size_t i = 0; i < gradient.size(); i += stride) {
      auto& w = in.parameters[slot][i];
      const auto before = w;
      const auto difference = [&](double h) {
        w = before + h;
        const auto above = mean_loss(forward, loss, in);
        w = before - h;
        const auto below = mean_loss(forward, loss, in);
        w = before;
        return (above - below) / (2 * h);
      };
      // A step across a corner of a rectifier or a change of a maximum is seen from nearer.
      auto found = difference(1e-5);
      if (std::abs(found - gradient[i]) > tolerance)
        found = difference(1e-7);
      EXPECT_NEAR(gradient[i], found, std::max(tolerance, 1e-6 * std::abs(gradient[i]))) << "slot " << slot << " element " << i;
    }
  }
}

} // namespace troupe::testing
