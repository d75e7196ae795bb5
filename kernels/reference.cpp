// SPDX-License-Identifier: BSD-3-Clause
// Hands each operation to the plain loops of its family.
#include "kernels/reference.hpp"

#include <variant>

#include "kernels/reference/compute.hpp"

namespace troupe::kernels::reference {

void run(const operation& op) {
  validate(op);
  std::visit([](const auto& own) { compute(own); }, op);
}

} // namespace troupe::kernels::reference
