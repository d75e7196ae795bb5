// SPDX-License-Identifier: BSD-3-Clause
// The data sets that are held in memory: what readers fill in, and what becomes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/data/data_set.hpp"

namespace troupe {

/// Images as a file holds them. Bytes are kept as bytes (a quarter of the memory) and scaled when they are gathered.
struct labelled_images {
  shape sample; ///< (channels, height, width)
  int classes = 10;
  std::vector<std::uint8_t> pixels; ///< (samples, sample)
  std::vector<std::uint8_t> labels; ///< (samples), each below `classes`
};

/// Rows of a table.
struct labelled_rows {
  std::int64_t columns = 0; ///< without the label's
  int classes = 0;
  std::vector<float> values;        ///< (samples, columns), finite
  std::vector<std::int32_t> labels; ///< (samples), each below `classes`
};

/// Both halves of a data set, of one sample shape and number of classes.
struct image_halves {
  labelled_images train, test;
};
struct table_halves {
  labelled_rows train, test;
};

/// How pixels become floats.
enum class pixel_scale : std::uint8_t {
  standard, ///< (x - mean) / std, one mean and std a channel, over every pixel of the training set
  unit,     ///< x / 255
};

/// Mean and (population) standard deviation of one channel or column.
struct moments {
  double mean = 0;
  double std = 1;
};

/// Per channel, over every pixel of every image. Exact: sums of integers.
std::vector<moments> pixel_moments(const labelled_images& images);

/// Data sets scaled by the training set's moments. What does not vary is only centred. There is a training sample.
data_pair make_image_pair(image_halves images, pixel_scale scale);

/// The same for tables, each column by its own moments.
data_pair make_table_pair(table_halves rows);

} // namespace troupe
