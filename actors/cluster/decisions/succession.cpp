// SPDX-License-Identifier: BSD-3-Clause
// Waiting for nodes, and deciding without those that do not come.
#include "actors/cluster/decisions/succession.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/cluster/decisions/going_on.hpp"
#include "actors/cluster/gang.hpp"

namespace troupe::actors {

namespace {

/// Nodes dial every two seconds at least.
constexpr std::chrono::seconds for_all_nodes{2}, for_needed_nodes{5};
constexpr std::chrono::seconds own_answer{2};

} // namespace

void succession::begin() {
  if (const auto& own = members_.front().actor)
    self_->request(own, own_answer, standing_query{})
        .then([this](const std::optional<job_standing>& standing) { is_back(0, standing); },
              [this](const caf::error&) { is_back(0, {}); });
  else
    is_back(0, {});
  self_->run_delayed(for_all_nodes, [this] { consider_all(patience::for_the_needed); });
  self_->run_delayed(for_needed_nodes, [this] { consider_all(patience::over); });
}

void succession::is_back(std::uint32_t number, const std::optional<job_standing>& standing) {
  auto& member = members_[number];
  bool known = !standing;
  for (auto& [id, job] : jobs_) {
    if (standing && standing->job_key == job.key && job.runs())
      known = true; // it comes late, and joins the job as a node that was lost
    if (!job.returning)
      continue;
    job.returning->on(member.description.name, number, standing);
    if (standing && standing->job_key == job.returning->decided().key) {
      known = true;
      member.job = id;
    }
    consider(job);
  }
  if (!known) // that job has ended, or has begun again
    self_->send(member.actor, stop_job{true, "its job goes on without this node's part"});
}

void succession::consider_all(patience now) {
  patience_ = now;
  for (auto& [number, job] : jobs_)
    consider(job);
}

void succession::consider(cluster_job& job) {
  if (!job.returning || job.ending)
    return;
  const bool all = job.returning->awaited().empty(), whole = job.returning->is_whole(job.submission.job.shape());
  if (whole && (all || patience_ != patience::for_all))
    take_over(job);
  else if (all || patience_ == patience::over)
    go_back(job, whole ? "its nodes have not come back" : "its roles are gone");
}

void succession::take_over(cluster_job& job) {
  const auto back = *std::exchange(job.returning, {});
  std::vector<member_node> nodes;
  for (std::uint32_t i = 0; i < back.names().size(); ++i) {
    const auto member = std::ranges::find(members_, back.names()[i], [](const auto& each) { return each.description.name; });
    if (member == members_.end())
      return go_back(job, fmt::format("the cluster's file names no node {} any more", back.names()[i]));
    job.gang.push_back(static_cast<std::uint32_t>(member - members_.begin()));
    nodes.push_back(member_of(job.submission.job, member->view(member == members_.begin())));
    if (!back.members().contains(i))
      nodes.back().actor = nullptr;
  }
  job.begins_with = job.gang.size();
  job.key = back.decided().key;
  job.told_here = job.taken_over = true;
  const auto count = back.members().size();
  job.what_now = fmt::format("ran when the coordinator was lost, and goes on where it is; {} of its {} nodes {} back", count,
                             back.names().size(), count == 1 ? "is" : "are");
  by_.say(job.number, job.what_now);
  if (job.client) // it may have come back before its job's nodes did
    self_->send(job.client, job_says{fmt::format("job {} {}", job.number, job.what_now)});
  by_.go_on(job, std::move(nodes), back);
}

void succession::go_back(cluster_job& job, const std::string& why) {
  by_.say(job.number, fmt::format("cannot go on as it is: {}", why));
  for (const auto& member : members_)
    if (member.job == job.number && member.actor)
      self_->send(member.actor, stop_job{true, why});
  job.returning.reset();
  job.rests = true;
  by_.release(job);
  self_->spawn<caf::detached>(
      [me = cluster_control{self_}, number = job.number, description = job.submission.job](caf::event_based_actor*) mutable {
        auto text = begin_where_it_can(description);
        caf::anon_send(me, job_goes_back{number, description.checkpoint.resume, std::move(text)});
      });
}

void succession::on(const job_goes_back& msg) {
  const auto found = jobs_.find(msg.number);
  if (found == jobs_.end())
    return;
  auto& job = found->second;
  job.rests = false;
  job.submission.job.checkpoint.resume = msg.resume;
  job.what_now = msg.text;
  by_.say(job.number, msg.text);
  self_->send(job.client, job_says{fmt::format("job {} {}", job.number, msg.text)});
  by_.start_what_fits();
}

} // namespace troupe::actors
