// SPDX-License-Identifier: BSD-3-Clause
// Tables of numbers, separated by commas.
#pragma once

#include <filesystem>

#include "tensor/data/memory_set.hpp"

namespace troupe {

/// Reads a CSV file of numbers, one sample a line. A first line that has a column named `label`, or no number at all, is a
/// header. Integer labels, 0 to 9,999, stand in the column named `label`, else in the last one; there are as many classes
/// as the largest label says. Fields may be quoted and surrounded by blanks; empty lines count for nothing. Every error
/// begins with FILE:LINE:COLUMN, where COLUMN counts bytes from 1; NaN and infinity are errors.
result<labelled_rows> read_csv(const std::filesystem::path& path);

/// Reads `path`, and `test_path` or, where that is empty, takes the last tenth of the rows (at least one) for the test.
result<table_halves> read_csv_files(const std::filesystem::path& path, const std::filesystem::path& test_path);

} // namespace troupe
