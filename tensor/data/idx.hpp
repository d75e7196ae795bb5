// SPDX-License-Identifier: BSD-3-Clause
// The IDX format of MNIST and its relatives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tensor/data/memory_set.hpp"

namespace troupe {

/// An array of unsigned bytes, outermost extent first.
struct idx_array {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> bytes;
};

/// Reads an IDX file of unsigned bytes with `rank` dimensions, plain or gzip. The format (LeCun, "The MNIST database"): two
/// zero bytes, the element type (8: unsigned byte), the rank, then each extent as 32 bits big-endian, then the elements.
/// What the header claims is compared with what the file can hold before any of it is allocated; a claim that the file
/// does not meet exactly is an error.
result<idx_array> read_idx(const std::filesystem::path& path, int rank);

/// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same of `t10k`, each plain or with `.gz` behind its
/// name, from `folder`. Labels are 0 to 9.
result<image_halves> read_idx_folder(const std::filesystem::path& folder);
/// The files that it would read; where neither of a name is there, the plain one.
std::vector<std::filesystem::path> idx_files(const std::filesystem::path& folder);

} // namespace troupe
