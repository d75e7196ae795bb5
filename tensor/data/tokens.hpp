// SPDX-License-Identifier: BSD-3-Clause
// Files of token ids, as programs for language models write them.
#pragma once

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// The ids of `path` and `test_path`, each of `token_type` and below `vocabulary_size`, as windows.hpp cuts them. A file is ids
/// alone (nanoGPT's train.bin), or begins with llm.c's header of 256 words of 32 bits: 20240520, version 1, how many ids follow.
/// Refused with its place: an id beyond the vocabulary, in the first 4 GiB of a file. Behind that, and later, such an id is an
/// error as it is read.
result<data_pair> load_tokens(const data_spec& spec);

} // namespace troupe
