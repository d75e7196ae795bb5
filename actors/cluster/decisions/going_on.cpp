// SPDX-License-Identifier: BSD-3-Clause
// Judging checkpoints of a job that ran.
#include "actors/cluster/decisions/going_on.hpp"

#include <cmath>
#include <exception>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/job_facts.hpp"
#include "protocols/lead.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::actors {
namespace {

/// A job does not go on from where a limit of [stop] has ended it: there is nothing left to do, and it would do more.
bool is_the_end(const job& job, const checkpoint_manifest& made) {
  const auto& stop = job.stop;
  const auto lead = protocols::wire::decode_state<protocols::lead_state>(made.lead);
  const auto data_size = lead ? static_cast<double>(lead->plan.data_size) : 0.0;
  const auto samples = static_cast<double>(made.samples);
  return (stop.steps > 0 && made.ver.value >= stop.steps) || (stop.samples > 0 && made.samples >= stop.samples)
         || (stop.seconds > 0 && static_cast<double>(made.training_ns) * 1e-9 >= stop.seconds)
         || (stop.epochs > 0 && data_size > 0 && samples >= std::ceil(stop.epochs * data_size));
}

/// Empty: it can.
std::string why_not_from(const job& job, const std::string& folder) {
  if (auto fault = fault_of(folder))
    return *fault;
  try {
    const auto made = read_manifest(folder);
    if (made.facts != checkpoint_facts(job))
      return "it was made by another job";
    return is_the_end(job, made) ? "the job was at its end there" : "";
  } catch (const std::exception& e) { // it was there a moment ago
    return e.what();
  }
}

} // namespace

going_on newest_checkpoint_of(const job& job) {
  going_on out;
  const auto& dir = job.checkpoint.dir;
  const auto known = dir.empty() ? std::vector<protocols::version>{} : checkpoints_in(dir);
  for (const auto ver : known | std::views::reverse) {
    const auto folder = fmt::format("{}/{}", dir, checkpoint_name(ver));
    const auto why = why_not_from(job, folder);
    if (why.empty()) {
      out.from = folder;
      return out;
    }
    out.passed_over.push_back(fmt::format("{}: {}", folder, why));
  }
  return out;
}

std::string begin_where_it_can(job& job) {
  const auto found = newest_checkpoint_of(job);
  const auto passed = found.passed_over.empty() ? "" : fmt::format(" (passed over: {})", fmt::join(found.passed_over, "; "));
  if (!found.from.empty()) {
    job.checkpoint.resume = found.from;
    return fmt::format("ran when the coordinator was lost, and goes on from {}{}", found.from, passed);
  }
  const auto begins = job.checkpoint.resume.empty() ? "begins again at step 0" : "begins again from " + job.checkpoint.resume;
  return job.checkpoint.enabled()
             ? fmt::format("ran when the coordinator was lost, and {}: {} has no checkpoint of it{}", begins, job.checkpoint.dir,
                           passed)
             : fmt::format("ran when the coordinator was lost, and {}: it keeps no checkpoints ([checkpoint] dir)", begins);
}

} // namespace troupe::actors
