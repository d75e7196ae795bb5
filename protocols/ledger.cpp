// SPDX-License-Identifier: BSD-3-Clause
// Applying decisions, each once.
#include "protocols/ledger.hpp"

#include <algorithm>
#include <functional>
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
std::size_t size_of_job(std::size_t submission, std::uint32_t roles) {
  return submission + overhead + most_of_nodes + most_of_end + most_of_protocol + most_of_role * roles;
}

std::size_t size_of_value(const spec_value& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return text->size();
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    return size_of_nodes(*texts);
  return 0;
}
std::size_t size_of_protocol(const protocol_spec& protocol) {
  std::size_t out = protocol.name.size();
  for (const auto& [name, value] : protocol.parameters)
    out += name.size() + size_of_value(value) + overhead_of_text;
  return out;
}
bool fits(const plan& newest, std::uint32_t roles) {
  return newest.workers.size() <= roles && newest.gone.size() <= roles && size_of_protocol(newest.protocol) <= most_of_protocol;
}

job* find_job(state& in, job_number number) {
  const auto found = in.jobs.find(number);
  return found == in.jobs.end() ? nullptr : &found->second;
}
/// While it is in this life.
job* find_life(state& in, job_number number, std::uint32_t life) {
  auto* of = find_job(in, number);
  return of != nullptr && !of->end && of->life == life && life != 0 ? of : nullptr;
}

/// Puts a newer incarnation in.
template <class Key>
bool renew(std::map<Key, incarnation>& all, Key key, incarnation newer, std::uint32_t most) {
  const auto known = all.find(key);
  if (known == all.end() ? newer == incarnation{} || all.size() >= most : newer <= known->second)
    return false;
  all[key] = newer;
  return true;
}

bool apply_to(state& to, const submitted& entry) {
  if (entry.number <= to.last)
    return false;
  to.last = entry.number;
  to.jobs.emplace(entry.number, job{.detached = entry.detached, .submission = entry.submission, .roles = entry.roles});
  return true;
}

bool apply_to(state& to, const started& entry) {
  auto* of = find_job(to, entry.number);
  if (of == nullptr || of->end || entry.life != of->life + 1 || entry.life == 0 || size_of_nodes(entry.nodes) > most_of_nodes)
    return false;
  of->life = entry.life;
  of->nodes = entry.nodes;
  of->course = {.key = entry.key};
  return true;
}

bool apply_to(state& to, const ended& entry) {
  auto* of = find_job(to, entry.number);
  if (of == nullptr || of->end || !fits(entry.how, entry.reason, entry.outcome))
    return false;
  of->end = job_end{entry.how, entry.reason, entry.outcome};
  return true;
}

bool apply_to(state& to, const forgotten& entry) {
  const auto* of = find_job(to, entry.number);
  return of != nullptr && of->end && to.jobs.erase(entry.number) != 0;
}

bool apply_to(state& to, const planned& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr || entry.plan.epoch <= of->course.plan.epoch || !fits(entry.plan, of->roles))
    return false;
  of->course.plan = entry.plan;
  return true;
}

bool apply_to(state& to, const incarnated& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr)
    return false;
  return entry.worker ? renew(of->course.workers, worker_id{entry.index}, incarnation{entry.incarnation}, of->roles)
                      : renew(of->course.nodes, entry.index, incarnation{entry.incarnation}, of->roles);
}

/// Of a backup that came later nothing is kept once it is lost: its number says that it was one.
bool takes_place(course& in, const promoted& entry, std::uint32_t roles) {
  if (!in.is_late(entry.by))
    return in.gone.size() < roles && in.gone.insert(entry.by).second;
  const auto copy = in.copies.find(entry.by);
  return copy != in.copies.end() && copy->second.whole && copy->second.shard == entry.shard && !in.acts(entry.by);
}

bool apply_to(state& to, const promoted& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr)
    return false;
  auto& course = of->course;
  const auto follows = course.view + (entry.shard == holder_id{0} ? 1 : 0);
  if (entry.view != follows || !takes_place(course, entry, of->roles))
    return false;
  if (const auto before = course.acting.find(entry.shard); before != course.acting.end())
    course.copies.erase(before->second); // it is lost
  course.acting[entry.shard] = entry.by;
  course.view = entry.view;
  return true;
}

bool apply_to(state& to, const placed& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr || entry.copy <= of->course.newest_copy || of->course.copies.size() >= of->roles)
    return false;
  auto& course = of->course;
  course.copies.emplace(entry.copy, late_copy{entry.shard, entry.node});
  if (course.first_copy == holder_id{})
    course.first_copy = entry.copy;
  course.newest_copy = entry.copy;
  return true;
}

bool apply_to(state& to, const copied& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr)
    return false;
  const auto copy = of->course.copies.find(entry.copy);
  return copy != of->course.copies.end() && !std::exchange(copy->second.whole, true);
}

bool apply_to(state& to, const holder_lost& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr)
    return false;
  auto& course = of->course;
  if (course.is_late(entry.holder))
    return !course.acts(entry.holder) && course.copies.erase(entry.holder) != 0;
  return course.gone.size() < of->roles && course.gone.insert(entry.holder).second;
}

bool apply_to(state& to, const checkpointed& entry) {
  auto* of = find_life(to, entry.number, entry.life);
  if (of == nullptr)
    return false;
  auto& all = of->course.checkpoints;
  if (!all.empty() && entry.ver <= all.back())
    return false;
  if (all.size() == most_checkpoints)
    all.erase(all.begin());
  all.push_back(entry.ver);
  return true;
}

bool sound(const course& known, std::uint32_t roles) {
  const auto was_backup = [&](const auto& each) {
    const auto copy = known.copies.find(each.second);
    return known.gone.contains(each.second)
           || (copy != known.copies.end() && copy->second.whole && copy->second.shard == each.first);
  };
  const auto has_number = [&](const auto& each) { return known.is_late(each.first) && each.first <= known.newest_copy; };
  return fits(known.plan, roles) && known.nodes.size() <= roles && known.workers.size() <= roles && known.gone.size() <= roles
         && std::ranges::all_of(known.acting, was_backup) && known.copies.size() <= roles
         && std::ranges::all_of(known.copies, has_number) && known.checkpoints.size() <= most_checkpoints
         && std::ranges::adjacent_find(known.checkpoints, std::greater_equal<>{}) == known.checkpoints.end();
}

} // namespace

std::size_t size_of(const state& of) {
  std::size_t out = 0;
  for (const auto& [number, each] : of.jobs)
    out += size_of_job(each.submission.size(), each.roles);
  return out;
}

std::string no_room_for(const state& in, const entry& entry) {
  if (const auto* plan = std::get_if<planned>(&entry))
    if (const auto of = in.jobs.find(plan->number); of != in.jobs.end() && !fits(plan->plan, of->second.roles))
      return fmt::format(
          "the journal has no room for a plan of {} workers whose protocol takes {} bytes; there is room for {}, and "
          "{} bytes",
          plan->plan.workers.size(), size_of_protocol(plan->plan.protocol), of->second.roles, most_of_protocol);
  const auto* job = std::get_if<submitted>(&entry);
  if (job == nullptr || size_of(in) + size_of_job(job->submission.size(), job->roles) <= most_bytes)
    return {};
  return fmt::format(
      "the queue is full: {} jobs, which the journal keeps, have no room for one of {} bytes and {} roles more; submit it again "
      "when some of them have ended",
      in.jobs.size(), job->submission.size(), job->roles);
}

bool apply(state& to, const entry& entry) {
  return std::visit([&](const auto& each) { return apply_to(to, each); }, entry);
}

bool sound(const state& all) {
  const auto is_sound = [&](const auto& each) {
    const auto& [number, job] = each;
    return number >= 1 && number <= all.last && (job.life != 0 || (job.nodes.empty() && job.course == course{}))
           && size_of_nodes(job.nodes) <= most_of_nodes && sound(job.course, job.roles)
           && (!job.end || fits(job.end->how, job.end->reason, job.end->outcome));
  };
  return std::ranges::all_of(all.jobs, is_sound);
}

} // namespace troupe::protocols::ledger
