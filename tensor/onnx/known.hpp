// SPDX-License-Identifier: BSD-3-Clause
// Arrays that are known before anything runs: constants, and the arithmetic on shapes that files are full of. The number of rows
// stays symbolic in them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/onnx/document.hpp"

namespace troupe::onnx {

/// Why a node cannot be imported, without its name. Thrown inside this folder, and caught for each node.
struct misfit {
  std::string why;
};

/// An array of numbers or truth values. Integers to 2^53 are exact; those beyond, such as "to the end", stay large.
struct known {
  std::vector<std::int64_t> dims{}; ///< the rows' axis has extent 1: all rows are alike
  int batch_axis = -1;              ///< -1: it has none
  bool is_float = false;
  std::vector<double> data{};
  std::vector<bool> rows{}; ///< empty, or by element: whether it is a multiple of the number of rows
  bool counts_rows(std::size_t i) const { return i < rows.size() && rows[i]; }
  /// The number that every element is.
  std::optional<double> uniform() const;
};

/// What depends on the number of rows in another way than as its multiple.
misfit not_a_multiple_of_rows();

/// Elements that all folded arrays of a file may have together: a bound on memory.
inline constexpr double most_known_elements = 1 << 26;

known known_of(const tensor& from);
known known_scalar(double value, bool is_float);
/// 0 <= axis < rank, of one that may count from the end.
std::size_t axis_of(std::int64_t axis, std::size_t rank);
/// The elements of a list as whole numbers; misfit where one depends on the number of rows.
std::vector<std::int64_t> integers_of(const known& list);

/// Begin and length of what a slice of step 1 takes from an extent.
struct taken {
  std::int64_t begin = 0, length = 0;
};
taken slice_of(double begin, double end, std::int64_t extent);

/// The result of a node of known inputs, empty ones left out; nothing: this operator is not folded.
std::optional<known> fold(const node& n, const std::vector<const known*>& inputs);

/// Attributes, or what holds where they are left out.
std::int64_t integer_attribute(const node& n, const std::string& name, std::int64_t fallback);
float float_attribute(const node& n, const std::string& name, float fallback);
std::string text_attribute(const node& n, const std::string& name, const std::string& fallback);
std::optional<std::vector<std::int64_t>> integers_attribute(const node& n, const std::string& name);
const tensor* tensor_attribute(const node& n, const std::string& name);

} // namespace troupe::onnx
