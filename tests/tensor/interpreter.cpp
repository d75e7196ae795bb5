// SPDX-License-Identifier: BSD-3-Clause
// Loops that can be checked against the definitions by reading.
#include "tests/tensor/interpreter.hpp"

#include <algorithm>

#include "tensor/data_format.hpp"
#include "tests/tensor/interpreter/sequences.hpp"

namespace troupe::testing {

namespace {

/// Each class adds ops to those of the one before.
class interpreter : public interpreting::sequences {
public:
  using sequences::sequences;

  std::vector<interpreting::array> run() {
    for (const auto& n : g_.nodes()) {
      begin(n);
      std::visit(*this, n.op);
    }
    return take();
  }
};

} // namespace

double counted_predictions(const graph& g, value_id loss, const interpreter_inputs& inputs) {
  if (!std::holds_alternative<ops::cross_entropy>(g.producer(loss).op))
    return static_cast<double>(g.at(loss).elements(inputs.rows));
  return static_cast<double>(std::ranges::count_if(inputs.labels, [](double label) { return label != ignored_label; }));
}

std::vector<std::vector<double>> interpret(const graph& g, const interpreter_inputs& inputs) {
  return interpreter{g, inputs}.run();
}

std::vector<std::vector<double>> slots_of(const parameter_layout& layout, const float* flat) {
  std::vector<interpreting::array> slots;
  for (const auto& slot : layout.slots)
    slots.emplace_back(flat + slot.offset, flat + slot.offset + slot.elements());
  return slots;
}

} // namespace troupe::testing
