// SPDX-License-Identifier: BSD-3-Clause
// What a weights file says of itself, and how far a job agrees with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/config/job_file.hpp"
#include "tensor/data/data_set.hpp"

namespace troupe::apps {

/// For whoever uses weights elsewhere, as texts: "layers", "mean" and "deviation" are JSON arrays, "scaling" says in words what
/// is done with these, "step" and "version" (of this program) where the weights come from. A model or data of an application's
/// own leave theirs out.
std::map<std::string, std::string> weights_metadata(const actors::job& what, const data_scaling& scaling, std::uint64_t step);

/// The first few, with as many digits as a person needs.
std::string numbers_text(const std::vector<double>& all);

/// "(x - mean) / deviation, one pair a channel, x = pixel / 255"; empty: unknown.
std::string scaling_text(const data_scaling& scaling);

/// Why these are not the weights of the job's model; empty: nothing says so. The metadata is a file's, which anybody may have
/// written.
std::string other_model(const std::map<std::string, std::string>& metadata, const actors::job& what);
/// Whether the weights were trained on data that were scaled by other numbers than the job's: those of both. Empty: nothing says
/// so.
std::string other_scaling(const std::map<std::string, std::string>& metadata, const data_scaling& scaling);

} // namespace troupe::apps
