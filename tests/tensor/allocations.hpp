// SPDX-License-Identifier: BSD-3-Clause
// Counts every allocation of the program: the test binary replaces the global operator new.
#pragma once

namespace troupe::testing {

/// How many calls of operator new there have been since this was made, on any thread.
class allocation_count {
public:
  allocation_count();
  long since() const;

private:
  long before_;
};

} // namespace troupe::testing
