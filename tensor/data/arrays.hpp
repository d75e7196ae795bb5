// SPDX-License-Identifier: BSD-3-Clause
// Features and labels that are arrays in files: .npy and safetensors.
#pragma once

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// source = "npy": the arrays of `path` and `labels_path`, and of `test_path` and `test_labels_path`. source = "safetensors":
/// the tensors features and labels of `path`, and test_features and test_labels. Where there are none for the test, the last
/// tenth of the rows, at least one, is the test half. All stay on the disk and may be larger than memory; one pass finds
/// what there is.
///
/// Features are (rows, sample): bytes are pixels, floats are numbers, other integers are ids. Labels are (rows) or (rows, ...):
/// integers are classes from 0 on, -1 and -100 are not predicted; floats are numbers. Bytes are scaled by `scale` with a pair for
/// each channel of (C, H, W), else with one pair; numbers with a pair for each column of (columns), or "unit" as they are.
/// Refused: another number of rows or another shape in one than in the other, what is not finite, ids and labels below 0.
result<data_pair> load_arrays(const data_spec& spec);

} // namespace troupe
