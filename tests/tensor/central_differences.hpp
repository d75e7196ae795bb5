// SPDX-License-Identifier: BSD-3-Clause
// A graph's gradients against central differences, both in double, by the plain interpreter.
#pragma once

#include <cstddef>
#include <limits>

#include "tensor/graph.hpp"
#include "tensor/layout.hpp"
#include "tests/tensor/interpreter.hpp"

namespace troupe::testing {

/// Compares elements of every parameter's gradient with (f(w + h) - f(w - h)) / 2h, where f is the mean loss over the labels that
/// are not ignored: all of them, or about `most` of each parameter. Every parameter must have a gradient, unless
/// `some_have_none`.
void expect_gradients(const graph& forward, value_id loss, const parameter_layout& layout, interpreter_inputs in,
                      std::size_t most = std::numeric_limits<std::size_t>::max(), bool some_have_none = false);

} // namespace troupe::testing
