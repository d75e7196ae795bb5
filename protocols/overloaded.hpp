// SPDX-License-Identifier: BSD-3-Clause
// Visits a variant with one lambda per alternative.
#pragma once

namespace troupe {

template <class... Functions>
struct overloaded : Functions... {
  using Functions::operator()...;
};

} // namespace troupe
