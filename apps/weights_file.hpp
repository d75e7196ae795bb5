// SPDX-License-Identifier: BSD-3-Clause
// The metadata of weights files, and whether a job matches it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/config/job_file.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/data/vocabulary.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

/// Metadata as texts, for using the weights elsewhere. "layers", "mean" and "deviation" are JSON arrays; "scaling" says in words
/// how the latter are used; "vocabulary" is a JSON array of what each id stands for, or "bytes"; "step" and "version" (of this
/// program) tell where the weights come from. Custom models and data leave theirs out. `words` may be null.
std::map<std::string, std::string> weights_metadata(const actors::job& job, const data_scaling& scaling, const vocabulary* words,
                                                    std::uint64_t step);

/// Gives tensors that are to be saved the names of `whose`: "troupe" (they have these) or "huggingface", for which `metadata`
/// says that PyTorch may read them. Why they cannot have these; empty: they have.
std::string with_names(const std::string& whose, std::vector<tensor_to_save>& tensors,
                       std::map<std::string, std::string>& metadata);

/// The first few numbers, with five digits each.
std::string numbers_text(const std::vector<double>& all);

/// "(x - mean) / deviation, one pair a channel, x = pixel / 255"; empty: unknown.
std::string scaling_text(const data_scaling& scaling);

/// Why these are not the weights of the job's model; empty: no sign of that. The metadata is not trusted.
std::string other_model(const std::map<std::string, std::string>& metadata, const actors::job& job);
/// Both scalings, where the weights were trained on data scaled differently from the job's. Empty: no sign of that.
std::string other_scaling(const std::map<std::string, std::string>& metadata, const data_scaling& scaling);

/// How the weights' data were scaled, as far as they say; else as `otherwise`.
data_scaling scaling_of_weights(const std::map<std::string, std::string>& metadata, const data_scaling& otherwise);

/// Nothing where the metadata has none. An error where it is none.
result<std::optional<vocabulary>> read_vocabulary(const std::map<std::string, std::string>& metadata);
/// Why these weights know other ids than the job's data, which may have no vocabulary (null); empty: no sign of that.
std::string other_vocabulary(const std::map<std::string, std::string>& metadata, const vocabulary* words);

} // namespace troupe::apps
