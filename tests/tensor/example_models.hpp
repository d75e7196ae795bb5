// SPDX-License-Identifier: BSD-3-Clause
// Small models of every layer and kind: each is differentiated, planned and interpreted.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tensor/model.hpp"

namespace troupe::testing {

struct example_model {
  std::string name;
  model_spec spec;
  data_format data;
  /// Gradients complete from the last layer to the first.
  bool chain = true;
  friend std::ostream& operator<<(std::ostream& out, const example_model& of) { return out << of.name; }
};

std::vector<example_model> example_models();

/// Features of each of `length` places, with a label for each.
data_format tokens(std::int64_t length, std::int64_t features);
/// So many places of `vocabulary` ids, with the next for each.
data_format text(std::int64_t length, std::int64_t vocabulary);

} // namespace troupe::testing
