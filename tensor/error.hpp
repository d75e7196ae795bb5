// SPDX-License-Identifier: BSD-3-Clause
// Expected failures of the tensor layer: a code for programs, a sentence for people.
#pragma once

#include <string>

#include <boost/system/result.hpp>

namespace troupe {

/// What kind of thing was wrong.
enum class errc : int {
  bad_model = 1, ///< layers that do not parse or do not fit; the message names the layer and both shapes
  bad_data,      ///< a data file that is truncated, mislabelled, oversized or missing
  bad_weights,   ///< a safetensors file that does not match the model
  bad_option,    ///< a value out of range
  io,            ///< the operating system refused (disk full, permission)
};

/// `message` says what was wrong, where (file, layer, byte), and what would be right.
struct error {
  errc code;
  std::string message;
  friend bool operator==(const error&, const error&) = default;
};

[[noreturn]] void throw_exception_from_error(const error& e, const boost::source_location& where);

template <class T>
using result = boost::system::result<T, error>;

} // namespace troupe
