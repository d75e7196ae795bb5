// SPDX-License-Identifier: BSD-3-Clause
// The errors of a configuration as text.
#include "apps/config/problem.hpp"

#include <stdexcept>

#include <boost/throw_exception.hpp>

namespace troupe::config {

std::string refusal::text() const {
  std::string lines;
  for (const problem& p : all)
    lines += p.text() + "\n";
  return lines;
}

void throw_exception_from_error(const refusal& r, const boost::source_location& where) {
  boost::throw_with_location(std::runtime_error(r.text()), where);
}

} // namespace troupe::config
