// SPDX-License-Identifier: BSD-3-Clause
// Nodes that join the cluster, come back to its jobs, and leave it.
#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/io/middleman.hpp>
#include <fmt/format.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

namespace {

/// So long a node may take to answer whether it is there.
constexpr std::chrono::seconds sign_of_life{2};

/// For good where the first one of that name lives. One that is gone will be missed soon, and then its place is free.
caf::result<std::uint32_t> refuse_second(cluster_control::stateful_pointer<cluster_state> self, const node_actor& first,
                                         const std::string& who) {
  auto promise = self->make_response_promise<std::uint32_t>();
  self->request(first, sign_of_life, wall_clock_query{})
      .then(
          [promise, who](const clock_reading&) mutable {
            promise.deliver(failure(who + "; end that one, or start this with another name"));
          },
          [promise, who](const caf::error&) mutable {
            promise.deliver(caf::make_error(caf::sec::request_timeout, who + ", which does not answer"));
          });
  return promise;
}

/// Asks by which connection a process has come, then has the same request come again.
caf::result<std::uint32_t> look_up(cluster_control::stateful_pointer<cluster_state> self, admission& admits,
                                   const node_hello& hello, const node_actor& node) {
  auto promise = self->make_response_promise<std::uint32_t>();
  self->request(self->system().middleman().actor_handle(), caf::infinite, caf::get_atom_v, node.node())
      .then(
          [=, &admits](const caf::node_id& process, const std::string& address, std::uint16_t port) mutable {
            admits.note(process, address, port);
            promise.delegate(cluster_control{self}, hello, node);
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

} // namespace

caf::result<std::uint32_t> cluster_state::join(const node_hello& hello, const node_actor& node) {
  const auto why = admission_.objection(hello, self_->current_sender(), node.node());
  if (!why)
    return look_up(self_, admission_, hello, node);
  if (!why->empty()) {
    say(fmt::format("turns away node \"{}\": {}", hello.name, *why));
    return failure(*why);
  }
  auto* member = find(hello.name);
  if (member == nullptr || member == &members_.front())
    return failure(fmt::format("the cluster's file on {} names no node \"{}\" that may join", members_.front().description.name,
                               hello.name));
  const auto number = static_cast<std::uint32_t>(member - members_.data());
  if (member->actor == node) { // it had lost sight of this coordinator for a moment
    self_->send(node, led_by{decisions_.term()});
    return number;
  }
  if (member->actor)
    return refuse_second(
        self_, member->actor,
        fmt::format("node \"{}\" has joined already: process {} on {}", hello.name, member->pid, member->description.host));
  member->actor = node;
  member->pid = hello.pid;
  member->leaving = false;
  self_->monitor(node);
  decisions_.joined(hello.name);
  say(fmt::format("node {} has joined", hello.name));
  self_->send(node, led_by{decisions_.term()});
  succession_.is_back(number, hello.standing);
  if (member->job == 0) // else it has its part still
    come_back(number);
  start_what_fits();
  return number;
}

/// It was lost, or drained, and what it had of a job is still wanted.
void cluster_state::come_back(std::uint32_t number) {
  for (auto& [id, job] : jobs_)
    if (const auto place = std::ranges::find(job.gang, number) - job.gang.begin();
        !job.ended && place < static_cast<std::ptrdiff_t>(job.begins_with))
      take_part(number, job, place);
}

void cluster_state::take_part(std::uint32_t number, const cluster_job& job, std::ptrdiff_t place) {
  members_[number].job = job.number;
  self_->send(job.coordinator, node_back{static_cast<std::uint32_t>(place), caf::actor_cast<caf::actor>(members_[number].actor)});
}

/// Nodes that nobody waits for go to jobs that may grow.
void cluster_state::grow() {
  for (auto& [id, job] : jobs_)
    for (std::size_t place = job.begins_with; job.runs() && place < job.gang.size(); ++place)
      if (const auto& seat = members_[job.gang[place]]; seat.actor && !seat.leaving && seat.job == 0)
        take_part(job.gang[place], job, static_cast<std::ptrdiff_t>(place));
}

caf::result<void> cluster_state::leave(const leave_cluster& msg) {
  const auto& node = msg.name;
  auto* member = find(node);
  if (member == &members_.front())
    return failure(fmt::format(
        "node {} is the coordinator's: it takes part in every job, and the cluster ends with it; to end both, end its process",
        node));
  if (member == nullptr || !member->actor)
    return failure(fmt::format("no node \"{}\" is here", node));
  member->leaving_ns = member->leaving ? member->leaving_ns : steady_ns();
  member->leaving = true;
  member->ends = member->ends || msg.ends;
  auto promise = member->may_leave.emplace_back(self_->make_response_promise<void>());
  say(fmt::format("node {} {}", node, msg.ends ? "wants to leave" : "is drained"));
  start_what_fits(); // those in the queue say for what they wait now
  auto* job = find(member->job);
  if (job != nullptr && !msg.why.empty()) {
    const auto text = fmt::format("node {} leaves the job: {}", node, msg.why);
    say(job->number, text);
    self_->send(job->client, job_says{text});
  }
  if (job == nullptr) {
    let_go(*member);
    return promise;
  }
  const auto number = static_cast<std::uint32_t>(member - members_.data());
  const auto place = static_cast<std::uint32_t>(std::ranges::find(job->gang, number) - job->gang.begin());
  self_->request(job->coordinator, std::chrono::seconds{10}, node_leaves{place})
      .then(
          [this, number, of = job->number](bool gone) {
            auto& left = members_[number];
            if (left.job != of)
              return; // that job has ended meanwhile
            if (!gone && !left.leaving)
              return;    // it was undrained meanwhile
            if (!gone) { // at the job's end
              const auto why = fmt::format("holds what job {} needs, and leaves when that ends", of);
              say(fmt::format("node {} {}", left.description.name, why));
              return self_->send(left.actor, node_notice{why});
            }
            left.job = 0;
            let_go(left);
            if (!left.leaving)
              come_back(number);
            start_what_fits();
          },
          [](const caf::error&) {}); // its end comes soon
  return promise;
}

/// Of a node that was drained, not of one whose process wants to end.
caf::result<void> cluster_state::undrain(const std::string& node) {
  auto* member = find(node);
  if (member == nullptr || (member != &members_.front() && !member->actor))
    return failure(fmt::format("no node \"{}\" is here", node));
  if (!member->leaving)
    return failure(fmt::format("node {} is not drained", node));
  if (member->ends)
    return failure(fmt::format("node {} leaves because its process ends; start it again", node));
  member->leaving = false;
  for (auto& promise : std::exchange(member->may_leave, {}))
    promise.deliver(failure(fmt::format("node {} stays: it was undrained", node)));
  say(fmt::format("node {} is undrained", node));
  self_->send(member->actor, node_notice{"is undrained: the cluster places jobs here again"});
  if (member->job == 0)
    come_back(static_cast<std::uint32_t>(member - members_.data()));
  start_what_fits();
  return caf::unit;
}

void cluster_state::let_go(cluster_member& member) {
  if (member.leaving && !member.ends && member.actor)
    self_->send(member.actor,
                node_notice{fmt::format("is drained: the cluster places nothing here until `undrain {}` in its console",
                                        member.description.name)});
  for (auto& promise : std::exchange(member.may_leave, {}))
    promise.deliver();
}

} // namespace troupe::actors
