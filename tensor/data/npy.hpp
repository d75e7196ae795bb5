// SPDX-License-Identifier: BSD-3-Clause
// NumPy's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tensor/data/stored_array.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// An array of NumPy (numpy.lib.format, versions 1 to 3). Refused: truncated or too long, in Fortran's order, big-endian, of
/// other elements.
result<stored_array> open_npy(const std::filesystem::path& path);

/// Writes (rows, extents...) floats; the file appears whole or not at all.
result<void> save_npy(const std::filesystem::path& path, const std::vector<std::int64_t>& extents, std::span<const float> values);

} // namespace troupe
