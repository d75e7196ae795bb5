// SPDX-License-Identifier: BSD-3-Clause
// What one row of a batch holds: the contract between data sets and models.
#pragma once

#include <cstdint>

#include "kernels/operations/losses.hpp"
#include "tensor/shape.hpp"

namespace troupe {

/// A row is a sample and its labels. A text's row, for one, has `context` ids as its sample and as many labels.
struct data_format {
  shape sample;                  ///< of x; without the rows
  int classes = 0;               ///< labels are below it; 0 where they are numbers
  dtype type = dtype::f32;       ///< of x: numbers, or ids
  std::int64_t ids = 0;          ///< where x holds ids, they are below this
  shape labels = {};             ///< of one row; rank 0: one label
  dtype label_type = dtype::i32; ///< classes, or numbers
  /// How many predictions a row is: one for each class, one for each list of numbers.
  std::int64_t predictions() const {
    return label_type == dtype::i32 || labels.rank() == 0 ? labels.elements() : labels.elements() / labels[labels.rank() - 1];
  }
  friend bool operator==(const data_format&, const data_format&) = default;
};

/// Such a label is not predicted: the loss, its mean and the accuracy leave it out. Files may also say -100, as PyTorch does.
using kernels::ignored_label;

/// Elements of samples and labels are all of one size.
inline constexpr std::int64_t element_bytes = 4;

} // namespace troupe
