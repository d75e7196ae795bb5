// SPDX-License-Identifier: BSD-3-Clause
// From flags to settings, and from mistyped flags to keys.
#include "apps/job_flags.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/config/job_draft.hpp"
#include "apps/config/suggest.hpp"

namespace troupe::apps {

config::checked<job_options> job_of(const job_flags& flags, bool resumes, const actors::extensions& added) {
  job_options job{flags.file, {}, added};
  config::refusal wrong;
  for (const std::string& argument : flags.sets) {
    auto set = config::parse_setting(argument);
    if (set) {
      job.sets.push_back(std::move(*set));
    } else {
      const config::refusal why = set.error(); // a copy: error() returns one each time
      wrong.all.insert(wrong.all.end(), why.all.begin(), why.all.end());
    }
  }
  if (!flags.nodes.empty())
    job.sets.push_back({"cluster.nodes", flags.nodes, "--nodes"});
  if (!flags.workers.empty())
    job.sets.push_back({"cluster.workers", flags.workers, "--workers"});
  if (resumes)
    job.sets.push_back({"model.init", "", "--resume"});
  if (!flags.seed.empty())
    job.sets.push_back({"seed", flags.seed, "--seed"});
  for (const auto& [name, specs] : {std::pair{"straggler", &flags.stragglers}, {"link", &flags.links}, {"fault", &flags.faults}})
    for (const std::string& spec : *specs)
      job.sets.push_back({fmt::format("inject.{}", name), spec, fmt::format("--{} {}", name, spec), true});
  if (!wrong.all.empty())
    return wrong;
  return job;
}

namespace {

/// Keys of a job whose last part is `part`: what `--workers 4` was likely meant to set.
std::vector<std::string> keys_named(const std::string& part, const actors::extensions& added) {
  std::vector<std::string> keys;
  for (const auto& key : config::job_keys(added))
    if (key.name == part && !key.section.empty())
      keys.push_back(key.full_name());
  for (const auto& entry : protocols::catalog(added.protocols))
    for (const auto& parameter : entry.parameters)
      if (parameter.name == part && keys.empty())
        keys.push_back("protocol." + part);
  return keys;
}

} // namespace

std::string likely_flag(const std::vector<std::string>& flags, const std::string& unexpected, const std::string& value,
                        const actors::extensions& added) {
  const std::string flag = config::nearest(unexpected, flags);
  if (std::ranges::find(flags, "--set") == flags.end())
    return flag;
  const auto as_settings = [&](const std::string& part) {
    std::string settings;
    for (const std::string& key : keys_named(part, added))
      settings += fmt::format("{}--set {}={}", settings.empty() ? "" : " or ", key, value.empty() ? "VALUE" : value);
    return settings;
  };
  std::string part = unexpected.substr(2, unexpected.find('=') - 2);
  std::ranges::replace(part, '-', '_');
  if (std::string exact = as_settings(part); !exact.empty() || !flag.empty())
    return exact.empty() ? flag : exact;
  std::vector<std::string> parts;
  for (const auto& key : config::job_keys(added))
    parts.push_back(key.name);
  return as_settings(config::nearest(part, parts));
}

} // namespace troupe::apps
