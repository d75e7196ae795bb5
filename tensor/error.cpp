// SPDX-License-Identifier: BSD-3-Clause
// What happens when a caller takes the value of a result that holds an error.
#include "tensor/error.hpp"

#include <stdexcept>

namespace troupe {

void throw_exception_from_error(const error& e, const boost::source_location&) {
  throw std::runtime_error(e.message);
}

} // namespace troupe
