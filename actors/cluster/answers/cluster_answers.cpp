// SPDX-License-Identifier: BSD-3-Clause
// Looking things up, and asking those that know.
#include "actors/cluster/answers/cluster_answers.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

/// How long a node may take to say which shards it has.
constexpr std::chrono::milliseconds shards_deadline{2500};
/// Longer than the coordinator gathers what its nodes have recorded.
constexpr std::chrono::seconds record_deadline{30};
/// What fits a message of the control plane, with room to spare (system.cpp).
constexpr std::uint64_t floats_per_piece = 128 * 1024;

/// Of all nodes of a job together. One that does not answer has shards that nobody can read: the asker is told so.
caf::result<shards_view> gather_shards(cluster_control::pointer self, shards_view known, const std::vector<node_actor>& nodes,
                                       std::uint64_t number) {
  auto promise = self->make_response_promise<shards_view>();
  const join_counter<shards_view> all([promise](shards_view whole) mutable {
    std::ranges::sort(whole.shards, {}, &shard_place::index);
    if (promise.pending())
      promise.deliver(std::move(whole));
  });
  *all = std::move(known);
  for (const auto& node : nodes) {
    if (!node) // it is gone, and so is a shard that it had: the job ends
      continue;
    all.one_more();
    self->request(node, shards_deadline, shards_query{number})
        .then(
            [all](shards_view& said) {
              std::ranges::move(said.shards, std::back_inserter(all->shards));
              if (all->parameters.empty())
                all->parameters = std::move(said.parameters);
              all.one_less();
            },
            [promise](const caf::error& e) mutable {
              if (promise.pending())
                promise.deliver(e);
            });
  }
  all.one_less();
  return promise;
}

} // namespace

cluster_job* cluster_answers::find(std::uint64_t number) const {
  const auto found = from_.jobs.find(number);
  return found == from_.jobs.end() ? nullptr : &found->second;
}

std::vector<member_view> cluster_answers::members() const {
  std::vector<member_view> out;
  for (const auto& member : from_.members)
    out.push_back(member.view(&member == &from_.members.front()));
  return out;
}

cluster_view cluster_answers::view(double orphan_s) const {
  cluster_view out{.name = from_.name, .members = members(), .orphan_s = orphan_s};
  for (const bool running : {true, false})
    for (const auto& [number, job] : from_.jobs) {
      if (job.ended || static_cast<bool>(job.coordinator) != running)
        continue;
      auto shown = job.view(self_->clock().now());
      for (auto node : job.nodes(from_.members))
        shown.nodes.push_back(from_.members[node].description.name);
      out.jobs.push_back(std::move(shown));
    }
  return out;
}

caf::result<history> cluster_answers::history_of(std::uint64_t job) const {
  if (!from_.past.knows(job))
    return failure(fmt::format("there is no job {}", job));
  auto out = from_.past.of(job);
  for (auto& title : out.jobs)
    if (const auto* live = find(title.number); title.state.empty() && live != nullptr)
      title.state = live->state();
  return out;
}

caf::result<weights_piece> cluster_answers::weights_of(const weights_query& msg) const {
  const auto* job = find(msg.number);
  if (job == nullptr || !job->ended)
    return failure(fmt::format("job {} has no result here", msg.number));
  return job->weights(msg.offset, floats_per_piece);
}

caf::result<node_trace_piece> cluster_answers::trace_of(const node_trace_query& msg) const {
  const auto* job = find(msg.number);
  if (job == nullptr || !(job->ended || job->recorded))
    return failure(fmt::format("job {} has no result here", msg.number));
  return job->trace(msg);
}

caf::result<recording> cluster_answers::record(const record_order& msg) const {
  const auto* job = find(msg.number);
  if (job == nullptr || job->ended || !job->coordinator)
    return failure(fmt::format("there is no job {} that runs", msg.number));
  auto promise = self_->make_response_promise<recording>();
  self_->request(job->coordinator, record_deadline, msg)
      .then(
          [this, promise, msg](const traces_ptr& recorded) mutable {
            auto* of = find(msg.number);
            if (of == nullptr)
              return promise.deliver(failure("the job has ended"));
            of->recorded = recorded;
            if (msg.on)
              of->record_to = msg.file;
            promise.deliver(recording{of->submission.job, of->record_to});
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

caf::result<shards_view> cluster_answers::shards_of(std::uint64_t number) const {
  const auto found = std::ranges::find_if(
      from_.jobs, [number](const auto& job) { return job.second.runs() && (number == 0 || job.first == number); });
  if (found == from_.jobs.end())
    return failure(number == 0 ? "no job runs here" : fmt::format("job {} does not run here", number));
  std::vector<node_actor> nodes;
  for (auto member : found->second.nodes(from_.members))
    nodes.push_back(found->second.actor_of(member, from_.members));
  return gather_shards(self_, {.job = found->first, .name = found->second.submission.job.name}, nodes, number);
}

} // namespace troupe::actors
