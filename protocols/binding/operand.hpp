// SPDX-License-Identifier: BSD-3-Clause
// What a machine's term names, once its driver has looked the ticket up.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::protocols {

/// A tensor in a sum; in a worker's sums also its own parameters or its dual variable.
template <class Tensor>
struct operand {
  enum class source : std::uint8_t { given, own, dual } from = source::given;
  Tensor what{}; ///< given
  double weight = 1;
};

template <class Tensor>
using operands = std::vector<operand<Tensor>>;

} // namespace troupe::protocols
