// SPDX-License-Identifier: BSD-3-Clause
// A text as a data set: windows of ids, each with the ids that follow them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// A text as ids.
struct encoded_text {
  std::vector<std::string> vocabulary; ///< the bytes of each id, in the order of the bytes
  std::vector<std::uint16_t> ids;
};

/// `vocabulary` "characters": an id for each character of UTF-8 that occurs; "bytes": 256 ids. An error says at which byte.
result<encoded_text> encode_text(std::string_view text, std::string_view vocabulary);

/// The text of `data.path` by its `vocabulary`, `context` and `stride`. Sample i is ids [i stride, i stride + context), its
/// labels are those one place on. The last tenth of the text is the test half.
result<data_pair> load_text(const data_spec& spec);

} // namespace troupe
