// SPDX-License-Identifier: BSD-3-Clause
// Visits a variant with one lambda per alternative.
#pragma once

namespace troupe::actors {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};

} // namespace troupe::actors
