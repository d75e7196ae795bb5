// SPDX-License-Identifier: BSD-3-Clause
// Applying decisions, each once.
#include "protocols/ledger.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace troupe::protocols::ledger {

namespace {

/// Of a job and of each text in it, beside its bytes: numbers, lengths, pointers.
constexpr std::size_t overhead = 128, overhead_of_text = 16;

std::size_t size_of_nodes(const std::vector<std::string>& nodes) {
  std::size_t out = 0;
  for (const auto& each : nodes)
    out += each.size() + overhead_of_text;
  return out;
}
std::size_t size_of_end(const std::string& reason, const bytes& outcome) {
  return reason.size() + outcome.size();
}
bool fits(ending how, const std::string& reason, const bytes& outcome) {
  return how <= ending::interrupted && size_of_end(reason, outcome) <= most_of_end;
}
/// With what is kept free for it.
std::size_t size_of_job(std::size_t submission) {
  return submission + overhead + most_of_nodes + most_of_end;
}

job* find_job(state& in, job_number number) {
  const auto found = in.jobs.find(number);
  return found == in.jobs.end() ? nullptr : &found->second;
}

bool apply_to(state& to, const submitted& what) {
  if (what.number <= to.last)
    return false;
  to.last = what.number;
  to.jobs.emplace(what.number, job{.detached = what.detached, .submission = what.submission});
  return true;
}

bool apply_to(state& to, const started& what) {
  auto* of = find_job(to, what.number);
  if (of == nullptr || of->end || what.life != of->life + 1 || what.life == 0 || size_of_nodes(what.nodes) > most_of_nodes)
    return false;
  of->life = what.life;
  of->nodes = what.nodes;
  return true;
}

bool apply_to(state& to, const ended& what) {
  auto* of = find_job(to, what.number);
  if (of == nullptr || of->end || !fits(what.how, what.reason, what.outcome))
    return false;
  of->end = job_end{what.how, what.reason, what.outcome};
  return true;
}

bool apply_to(state& to, const forgotten& what) {
  const auto* of = find_job(to, what.number);
  return of != nullptr && of->end && to.jobs.erase(what.number) != 0;
}

} // namespace

std::size_t size_of(const state& of) {
  std::size_t out = 0;
  for (const auto& [number, each] : of.jobs)
    out += size_of_job(each.submission.size());
  return out;
}

std::string no_room_for(const state& in, const entry& what) {
  const auto* job = std::get_if<submitted>(&what);
  if (job == nullptr || size_of(in) + size_of_job(job->submission.size()) <= most_bytes)
    return {};
  return fmt::format(
      "the queue is full: {} jobs, which the journal keeps, have no room for one of {} bytes more; submit it again "
      "when some of them have ended",
      in.jobs.size(), job->submission.size());
}

bool apply(state& to, const entry& what) {
  return std::visit([&](const auto& each) { return apply_to(to, each); }, what);
}

bool sound(const state& what) {
  const auto is_sound = [&](const auto& each) {
    const auto& [number, job] = each;
    return number >= 1 && number <= what.last && (job.life != 0 || job.nodes.empty()) && size_of_nodes(job.nodes) <= most_of_nodes
           && (!job.end || fits(job.end->how, job.end->reason, job.end->outcome));
  };
  return std::ranges::all_of(what.jobs, is_sound);
}

} // namespace troupe::protocols::ledger
