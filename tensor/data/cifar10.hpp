// SPDX-License-Identifier: BSD-3-Clause
// The binary version of CIFAR-10.
#pragma once

#include <filesystem>
#include <vector>

#include "tensor/data/memory_set.hpp"

namespace troupe {

/// Reads `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin` from `folder`: records of 3,073 bytes, a label (0 to
/// 9) and 32 x 32 pixels of red, then green, then blue (Krizhevsky, "The CIFAR-10 dataset"). A file may hold any number of
/// whole records but none.
result<image_halves> read_cifar10_folder(const std::filesystem::path& folder);
/// The files that it would read, the test's last.
std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& folder);

} // namespace troupe
