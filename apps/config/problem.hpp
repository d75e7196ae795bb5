// SPDX-License-Identifier: BSD-3-Clause
// The errors of a configuration.
#pragma once

#include <string>
#include <vector>

#include <boost/system/result.hpp>

namespace troupe::config {

/// One error.
struct problem {
  std::string where;   ///< "job.toml:3:7" (line and column from 1), "job.toml", or "--set data.batch"
  std::string message; ///< "what is wrong; what would be right"
  std::string text() const { return where + ": " + message; }
  friend bool operator==(const problem&, const problem&) = default;
};

/// All errors; never empty inside a failed `checked`.
using problems = std::vector<problem>;

/// A wrapper that gives `problems` a namespace of ours, which boost::system::result needs.
struct refusal {
  problems all;
  std::string text() const; ///< one problem a line
};

[[noreturn]] void throw_exception_from_error(const refusal& r, const boost::source_location& where);

/// A value, or all errors of its source.
template <class T>
using checked = boost::system::result<T, refusal>;

} // namespace troupe::config
