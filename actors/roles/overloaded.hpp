// SPDX-License-Identifier: BSD-3-Clause
// Visiting a closed set of verbs with one lambda each.
#pragma once

namespace troupe::actors {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};

} // namespace troupe::actors
