// SPDX-License-Identifier: BSD-3-Clause
// A text as a data set: windows of ids, each with the ids that follow them.
#pragma once

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// The text of `data.path` by its `vocabulary` ("characters": an id for each character of UTF-8 that occurs; "bytes": 256 ids),
/// `context` and `stride`, as windows.hpp cuts them. One pass over the file finds the vocabulary, and refuses what is no
/// character, with its place. Ids are made as samples are gathered: the text stays on the disk.
result<data_pair> load_text(const data_spec& spec);

} // namespace troupe
