// SPDX-License-Identifier: BSD-3-Clause
// A machine's term, once its driver has looked up the ticket.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::protocols {

/// A tensor in a sum; in a worker's sums also its own parameters or its dual variable.
template <class Tensor>
struct operand {
  enum class source : std::uint8_t { given, own, dual } from = source::given;
  Tensor tensor{}; ///< given
  double weight = 1;
};

template <class Tensor>
using operands = std::vector<operand<Tensor>>;

} // namespace troupe::protocols
