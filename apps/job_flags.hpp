// SPDX-License-Identifier: BSD-3-Clause
// The flags that name a job and change it, the same for every command that takes one.
#pragma once

#include <string>
#include <vector>

#include "apps/commands.hpp"
#include "apps/config/problem.hpp"

namespace troupe::apps {

/// As they were written; empty: not given.
struct job_flags {
  std::string file;
  std::vector<std::string> sets; ///< KEY=VALUE
  std::string nodes, seed, workers;
  std::vector<std::string> stragglers, links, faults; ///< of [inject]
};

/// These flags as settings; those with a name of their own come after --set and win over it. `resumes`: the job goes on from a
/// checkpoint, and its first parameters do not matter.
config::checked<job_options> job_of(const job_flags& flags, bool resumes, const actors::extensions& added);

/// What an unexpected flag was likely meant to be: one of `flags`, or where --set is one of them, a key of the job. Empty:
/// unknown.
std::string likely_flag(const std::vector<std::string>& flags, const std::string& unexpected, const std::string& value,
                        const actors::extensions& added);

} // namespace troupe::apps
