// SPDX-License-Identifier: BSD-3-Clause
// The checkpoint that `run --resume` names, and whether the job can go on from it.
#include "apps/resume.hpp"

#include <cmath>
#include <filesystem>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "actors/checkpoint/job_facts.hpp"

namespace troupe::apps {

namespace {

const std::string flag = "--resume";

/// Facts that differ. Of keys that only one side has, one a section where nothing else differs: without a common `name` or
/// `source` the rest says nothing.
config::problems other_facts(const config::loaded_job& loaded, const resume_point& from) {
  const auto& theirs = from.manifest.facts;
  const auto ours = actors::checkpoint_facts(loaded.job);
  config::problems wrong;
  std::set<std::string> told; // sections
  const auto differ = [&](const std::string& key, const std::string& mine, const std::string& its) {
    told.insert(key.substr(0, key.find('.')));
    wrong.push_back({where_of(loaded, key), fmt::format("{} is {}, and {} was made with {}; give that, or leave out {}", key,
                                                        mine, from.folder, its, flag)});
  };
  for (const auto& [key, mine] : ours)
    if (const auto its = theirs.find(key); its != theirs.end() && its->second != mine)
      differ(key, mine, its->second);
  auto both = theirs;
  both.insert(ours.begin(), ours.end());
  for (const auto& key : both | std::views::keys)
    if (ours.contains(key) != theirs.contains(key) && !told.contains(key.substr(0, key.find('.'))))
      differ(key, ours.contains(key) ? ours.at(key) : "not given", theirs.contains(key) ? theirs.at(key) : "none");
  return wrong;
}

/// Limits of [stop] that were reached before the checkpoint was made.
config::problems reached_limits(const config::loaded_job& loaded, const resume_point& from, std::int64_t train_samples) {
  const auto& stop = loaded.job.stop;
  const auto& made = from.manifest;
  const auto seconds = static_cast<double>(made.training_ns) * 1e-9;
  const auto samples = static_cast<double>(made.samples);
  config::problems wrong;
  const auto check = [&](const char* name, double limit, double needed, double there, const std::string& reason) {
    if (const auto key = fmt::format("stop.{}", name); limit > 0 && there >= needed)
      wrong.push_back({where_of(loaded, key), fmt::format("{} = {} ends the job where {} already is, after {}; give more", key,
                                                          limit, from.folder, reason)});
  };
  const auto applied = fmt::format("{} samples", made.samples);
  check("steps", static_cast<double>(stop.steps), static_cast<double>(stop.steps), static_cast<double>(made.ver.value),
        fmt::format("{} steps", made.ver.value));
  check("samples", static_cast<double>(stop.samples), static_cast<double>(stop.samples), samples, applied);
  check("seconds", stop.seconds, stop.seconds, seconds, fmt::format("{:.1f} s of training", seconds));
  check("epochs", stop.epochs, std::ceil(stop.epochs * static_cast<double>(train_samples)), samples, applied);
  return wrong;
}

} // namespace

config::checked<resume_point> find_checkpoint(const std::string& given) {
  namespace fs = std::filesystem;
  const std::string folder = actors::absolute_folder(given);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    return config::refusal{
        {{flag, fmt::format("there is no folder {}; name a checkpoint, or the checkpoint.dir of a run", folder)}}};
  std::vector<std::string> candidates; // the newest first
  if (actors::checkpoint_version(fs::path(folder).filename()))
    candidates.push_back(folder);
  else
    for (const auto ver : actors::checkpoints_in(folder) | std::views::reverse)
      candidates.push_back(fs::path(folder) / actors::checkpoint_name(ver));
  if (candidates.empty())
    return config::refusal{{{flag, fmt::format("{} has no checkpoint, such as {}", folder, folder + "/step-100")}}};
  resume_point found;
  for (const std::string& each : candidates) {
    auto fault = actors::fault_of(each);
    if (!fault)
      try {
        found.manifest = actors::read_manifest(each);
        found.folder = each;
        return found;
      } catch (const std::exception& e) { // it was there a moment ago
        fault = e.what();
      }
    found.passed_over.push_back({flag, fmt::format("{} cannot be used: {}", each, *fault)});
  }
  return config::refusal{std::move(found.passed_over)};
}

config::problems cannot_resume(const config::loaded_job& loaded, const resume_point& from, std::uint64_t floats,
                               std::int64_t train_samples) {
  if (auto wrong = other_facts(loaded, from); !wrong.empty())
    return wrong;
  if (from.manifest.floats != floats)
    return {{flag, fmt::format("{} has {} parameters, and this job's model has {}; give it the job that made it", from.folder,
                               from.manifest.floats, floats)}};
  return reached_limits(loaded, from, train_samples);
}

config::problems other_checkpoints(const config::loaded_job& loaded) {
  namespace fs = std::filesystem;
  const auto& [dir, every_steps, every_s, keep, resume] = loaded.job.checkpoint;
  const auto from = actors::checkpoint_version(fs::path(resume).filename());
  for (const auto ver : dir.empty() ? std::vector<protocols::version>{} : actors::checkpoints_in(dir)) {
    const auto folder = fs::path(dir) / actors::checkpoint_name(ver);
    if ((from && ver <= *from) || actors::fault_of(folder))
      continue;
    return {{where_of(loaded, "checkpoint.dir"),
             fmt::format("{0} has {1} of another run; go on from it with {2} {0}, or give another folder, or remove it", dir,
                         actors::checkpoint_name(ver), flag)}};
  }
  return {};
}

} // namespace troupe::apps
