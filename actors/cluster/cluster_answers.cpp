// SPDX-License-Identifier: BSD-3-Clause
// What a cluster says of itself and of its jobs, and what it hands out of their results.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

/// How long a node may take to say which shards it has.
constexpr std::chrono::milliseconds shards_deadline{2500};
/// What fits a message of the control plane, with room to spare (system.cpp).
constexpr std::uint64_t floats_per_piece = 128 * 1024;

} // namespace

cluster_view cluster_state::view() const {
  cluster_view out{.name = setup_.name, .members = members()};
  for (const bool running : {true, false})
    for (const auto& [number, job] : jobs_) {
      if (job.ended || static_cast<bool>(job.coordinator) != running)
        continue;
      job_view shown{number, job.what.job.name, job.what.job.protocol.name, state_of(job),
                     std::chrono::duration<double>(self_->clock().now() - job.since).count()};
      for (auto node : job.gang)
        shown.nodes.push_back(seats_[node].what.name);
      if (job.meter) {
        shown.steps = job.meter->steps;
        shown.samples = job.meter->samples;
        shown.epochs = static_cast<double>(shown.samples) / static_cast<double>(job.meter->data_size);
      }
      out.jobs.push_back(std::move(shown));
    }
  return out;
}

caf::result<history> cluster_state::history_of(std::uint64_t job) const {
  if (!history_.knows(job))
    return failure(fmt::format("there is no job {}", job));
  auto out = history_.of(job);
  for (auto& title : out.jobs)
    if (const auto live = jobs_.find(title.number); title.state.empty() && live != jobs_.end())
      title.state = state_of(live->second);
  return out;
}

std::string cluster_state::state_of(const entry& job) {
  return job.coordinator ? "runs" : "waits: " + job.waits_for;
}

caf::result<weights_piece> cluster_state::weights_of(const weights_query& msg) {
  const auto* job = find(msg.number);
  if (job == nullptr || !job->ended)
    return failure(fmt::format("job {} has no result here", msg.number));
  const auto all = job->result.parameters.span<const float>();
  const auto begin = std::min<std::uint64_t>(msg.offset, all.size());
  const auto piece = all.subspan(begin, std::min(all.size() - begin, floats_per_piece));
  return weights_piece{{piece.begin(), piece.end()}};
}

/// Of a job that runs, what was recorded last; of one that has ended, the whole.
caf::result<node_trace_piece> cluster_state::trace_of(const node_trace_query& msg) {
  const auto* job = find(msg.number);
  if (job == nullptr || !(job->ended || job->recorded))
    return failure(fmt::format("job {} has no result here", msg.number));
  const auto& traces = job->ended || !job->recorded ? job->result.trace : *job->recorded;
  if (msg.node >= traces.size())
    return node_trace_piece{.nodes = static_cast<std::uint32_t>(traces.size())};
  const auto& of = traces[msg.node];
  const auto begin = of.events.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(msg.offset, of.events.size()));
  const auto end = begin + fitting(begin, of.events.end());
  trace_chunk chunk{{begin, end}, of.dropped, end == of.events.end()};
  return node_trace_piece{of.name, std::move(chunk), static_cast<std::uint32_t>(traces.size())};
}

/// Of all nodes of a job together. One that does not answer has shards that nobody can read: the asker is told so.
caf::result<shards_view> cluster_state::shards_of(std::uint64_t number) {
  const auto runs = [number](const auto& job) {
    return !job.second.ended && job.second.coordinator && (number == 0 || job.first == number);
  };
  const auto found = std::ranges::find_if(jobs_, runs);
  if (found == jobs_.end())
    return failure(number == 0 ? "no job runs here" : fmt::format("job {} does not run here", number));
  const auto& job = found->second;
  auto promise = self_->make_response_promise<shards_view>();
  const join_counter<shards_view> all([promise](shards_view whole) mutable {
    std::ranges::sort(whole.shards, {}, &shard_place::index);
    if (promise.pending())
      promise.deliver(std::move(whole));
  });
  all->job = job.number;
  all->name = job.what.job.name;
  for (auto member : job.gang) {
    const auto actor = member == 0 ? job.own : seats_[member].actor;
    if (!actor) // it is gone, and so is a shard that it had: the job ends
      continue;
    all.one_more();
    self_->request(actor, shards_deadline, shards_query{number})
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

} // namespace troupe::actors
