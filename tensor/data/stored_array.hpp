// SPDX-License-Identifier: BSD-3-Clause
// Arrays within files, read in place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/data/data_file.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// What an array's elements are, little-endian. Enumerators are named as safetensors names them.
enum class array_type : std::uint8_t { U8, I8, U16, I16, U32, I32, I64, F32, F64 };

std::size_t bytes_of(array_type type);
/// By the names of safetensors ("F32"); nothing: another one.
std::optional<array_type> array_type_named(std::string_view name);
const char* name_of(array_type type);
inline bool is_real(array_type type) {
  return type == array_type::F32 || type == array_type::F64;
}

/// An array of rows, the last extent varying fastest. Immutable; any thread.
struct stored_array {
  std::shared_ptr<const data_file> file;
  std::string name; ///< with which errors begin: a path, or `PATH: tensor "x"`
  array_type type = array_type::F32;
  std::vector<std::int64_t> extents; ///< rows first
  std::uint64_t begin = 0;           ///< byte in the file

  std::int64_t rows() const { return extents.empty() ? 1 : extents[0]; }
  std::int64_t row_elements() const;

  /// Elements [first, first + into.size()) of the whole array. Errors of the file, and integers beyond 32 bits.
  result<void> read(std::int64_t first, std::span<float> into) const;
  result<void> read(std::int64_t first, std::span<std::int32_t> into) const;

  /// An error that begins with its name.
  error fail(const std::string& message) const { return {errc::bad_data, name + ": " + message}; }
};

} // namespace troupe
