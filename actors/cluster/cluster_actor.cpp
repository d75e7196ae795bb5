// SPDX-License-Identifier: BSD-3-Clause
// The cluster's handlers.
#include "actors/cluster/cluster_actor.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <ranges>
#include <utility>
#include <variant>

#include <caf/io/middleman.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors {

namespace {

/// A job that lost a node before it began waits so long, until that has been noticed here too.
constexpr std::chrono::seconds rest{1};
/// So long the nodes on which jobs ran have to join again; they dial every two seconds.
constexpr std::chrono::seconds return_of_nodes{5};
/// Of a job that was still waiting.
job_result unstarted(const std::string& reason) {
  job_result out;
  out.interrupted = true;
  out.reason = reason;
  return out;
}

bool is_client_of(const cluster_job* job, const caf::strong_actor_ptr& who) {
  return job != nullptr && caf::actor_cast<caf::strong_actor_ptr>(job->client) == who;
}

std::string how_it_ended(const job_result& result) {
  return result.reason.empty() ? "has ended" : "has ended: " + result.reason;
}

/// Those of which it is true, in their order.
template <class Predicate>
std::vector<std::uint64_t> numbers_of(const std::map<std::uint64_t, cluster_job>& jobs, Predicate is) {
  std::vector<std::uint64_t> out;
  for (const auto& [number, job] : jobs)
    if (is(job))
      out.push_back(number);
  return out;
}

/// Across hosts parameters and trace are fetched piece by piece; a client of this process has the same memory.
void report_to_client(cluster_control::pointer self, cluster_job& job) {
  if (job.client.node() == self->node()) {
    self->send(job.client, std::exchange(job.result, {}));
    return;
  }
  auto report = job.result;
  report.parameters = {};
  report.trace.clear();
  self->send(job.client, std::move(report));
}

std::int64_t wall_ms() {
  return wall_clock_ns() / 1'000'000;
}

} // namespace

cluster_state::cluster_state(cluster_control::stateful_pointer<cluster_state> self, cluster_setup setup)
    : self_(self), setup_(std::move(setup)), admission_(setup_.peers, names_of(setup_.own.added)),
      answers_(self, {setup_.name, members_, jobs_, history_}), succession_(self, members_, jobs_, *this),
      decisions_(self, setup_.kept, [this](const std::string& text) { say(text); }), idle_since_ns_(steady_ns()) {
  end_with_reason(*self);
  for (const auto& node : setup_.nodes)
    members_.push_back({.description = node});
  members_.front().pid = static_cast<std::int32_t>(getpid());
  members_.front().actor = setup_.node;
  self->set_down_handler([this](const caf::down_msg& msg) { on_down(msg); });
  self->set_exit_handler([this](const caf::exit_msg& msg) {
    for (auto& [number, job] : jobs_)
      if (!decisions_.durable())
        cancel(number, "the cluster ends");
      else if (job.coordinator) // what it would say of its end is not so: whoever leads next goes on with the job
        self_->send_exit(job.coordinator, caf::exit_reason::user_shutdown);
    for (auto& [number, job] : jobs_)
      if (job.own)
        self_->send_exit(job.own, caf::exit_reason::user_shutdown);
    self_->quit(msg.reason);
  });
  if (setup_.kept)
    begin_again(*setup_.kept);
}

void cluster_state::begin_again(kept_jobs& kept) {
  last_number_ = kept.last_number;
  for (auto& job : std::exchange(kept.jobs, {}))
    keep(std::move(job));
  for (const auto& node : kept.nodes)
    if (const auto* member = find(node); member == nullptr || member == &members_.front())
      decisions_.joined(node);
  succession_.begin();
  self_->run_delayed(kept.nodes.empty() ? std::chrono::seconds{0} : return_of_nodes, [this] {
    decisions_.settle();
    start_what_fits();
  });
  for (const auto& [number, job] : jobs_)
    if (job.orphan)
      await_client(job);
}

void cluster_state::keep(cluster_job kept) {
  auto& job = jobs_.emplace(kept.number, std::move(kept)).first->second;
  job.since = self_->clock().now();
  history_.open(job.number, job.submission.job.name, job.submission.job.protocol.name);
  if (!job.what_now.empty())
    say(job.number, job.what_now);
  if (job.ended)
    history_.close(job.number, how_it_ended(job.result));
}

void cluster_state::go_on(cluster_job& job, std::vector<member_node> nodes, const returning_job& back) {
  job.coordinator = coordinate(job, std::move(nodes), back.names(), back.decided());
  if (const auto own = std::ranges::find(job.gang, 0U) - job.gang.begin(); !members_.front().actor && own < std::ssize(job.gang))
    self_->send(job.coordinator, node_back{static_cast<std::uint32_t>(own),
                                           caf::actor_cast<caf::actor>(job.own = self_->spawn<node_impl>(setup_.own))});
}

/// Nothing of it is on any node.
void cluster_state::release(cluster_job& job) {
  free_nodes_of(job.number);
  job.coordinator = nullptr;
  job.gang.clear();
  job.begins_with = 0;
  job.since = self_->clock().now();
}

cluster_control::behavior_type cluster_state::make_behavior() {
  return {
      [this](const node_hello& hello, const node_actor& node) { return join(hello, node); },
      [this](const leave_cluster& msg) { return leave(msg); },
      [this](const undrain_node& msg) { return undrain(msg.name); },
      [this](const submit_job& submission, const client_actor& client) { return submit(submission, client); },
      [this](const attach_job& msg, const client_actor& client) { return attach(msg, client); },
      [this](const cancel_job& msg) {
        cancel(msg.number, is_client_of(find(msg.number), self_->current_sender()) ? "interrupted" : "stopped at the console");
      },
      [this](const actor_order& msg) { return pass_on(msg); },
      [this](const change_order& msg) { return pass_on(msg); },
      [this](const save_order& msg) { return pass_on(msg); },
      [this](const record_order& msg) { return answers_.record(msg); },
      [this](const weights_query& msg) { return answers_.weights_of(msg); },
      [this](const node_trace_query& msg) { return answers_.trace_of(msg); },
      [this](const release_job& msg) { forget(msg.number); },
      [this](cluster_query) { return answers_.view(decisions_.orphan_s()); },
      [this](const inspect_query& query) { return query.page == 0 ? inspect_all() : inspect_page(query); },
      [this](const history_query& query) { return answers_.history_of(query.job); },
      [this](const shards_query& msg) { return answers_.shards_of(msg.job); },
      [this](const probe_query& query) { return probe(query); },
      [this](leader_query) -> caf::result<caf::strong_actor_ptr> { return self_->ctrl(); },
      [this](const job_finished& msg) { finished(msg); },
      [this](const job_goes_back& msg) { succession_.on(msg); },
      [this](const job_news& msg) { hear(msg); },
  };
}

/// Of some jobs whoever has attached to them is told from here: when they began there may have been nobody.
void cluster_state::hear(const job_news& msg) {
  auto* job = find(msg.number);
  std::visit(overloaded{[&](const job_says& said) { history_.say(msg.number, said.text, wall_ms()); },
                        [&](const job_begins& begins) {
                          if (job != nullptr)
                            job->begun = begins;
                        },
                        [&](const auto& point) { history_.add(msg.number, point); }},
             msg.news);
  if (job != nullptr && job->told_here)
    std::visit([&](const auto& news) { self_->send(job->client, news); }, msg.news);
}

caf::result<std::uint64_t> cluster_state::submit(const submit_job& submission, const client_actor& client) {
  if (const auto missing = missing_names(submission.job, setup_.own.added); !missing.empty())
    return failure(fmt::format("the cluster's program has no {}; start its nodes from the program that adds it",
                               fmt::join(missing, ", no ")));
  const auto fits = choose_gang(submission.job, answers_.members());
  if (const auto* none = std::get_if<no_gang>(&fits); none != nullptr && none->never)
    return failure(none->reason);
  const auto number = ++last_number_;
  auto promise = self_->make_response_promise<std::uint64_t>();
  decisions_.submitted(number, submission, [=, this](const std::string& why_not) mutable {
    if (!why_not.empty())
      return promise.deliver(failure(why_not));
    enqueue(number, submission, client);
    promise.deliver(number);
  });
  return promise;
}

void cluster_state::enqueue(std::uint64_t number, const submit_job& submission, const client_actor& client) {
  jobs_.emplace(number, cluster_job{.number = number,
                                    .submission = submission,
                                    .client = submission.detached ? client_actor{} : client,
                                    .since = self_->clock().now(),
                                    .told_here = submission.detached});
  if (!submission.detached)
    self_->monitor(client);
  history_.open(number, submission.job.name, submission.job.protocol.name);
  say(number, fmt::format("is submitted, as {}", submission.job.name));
  start_what_fits();
}

caf::result<submit_job> cluster_state::attach(const attach_job& msg, const client_actor& client) {
  const auto number = msg.number;
  auto* job = find(number);
  if (job == nullptr)
    return failure(fmt::format("there is no job {} here, or its result is not kept any more", number));
  const bool unmissed =
      msg.returns && job->client && job->client == client; // its connection was reset, and here this is not known yet
  if (!job->submission.detached && !(msg.returns && (job->orphan || unmissed)))
    return failure(fmt::format("job {} was submitted without --detach, and belongs to its submitter", number));
  if (job->client && !unmissed)
    return failure(fmt::format("another client is attached to job {}", number));
  job->client = client;
  job->told_here = true;
  ++job->clients;
  self_->monitor(client);
  if (msg.returns && !job->what_now.empty())
    self_->send(client, job_says{fmt::format("job {} {}", number, job->what_now)});
  if (msg.returns && history_.knows(number))
    for (const auto& known : history_.of(number).evaluations) // it may have missed one
      self_->send(client, known);
  if (std::exchange(job->orphan, false))
    start_what_fits();
  if (job->ended)
    report_to_client(self_, *job);
  else if (job->begun)
    self_->send(client, *job->begun);
  else
    self_->send(client, job_waits{job->waits_for});
  return job->submission;
}

/// What a person asks of a running job is its coordinator's to do.
template <class Order>
caf::result<std::string> cluster_state::pass_on(const Order& msg) {
  const auto* job = find(msg.number);
  if (job == nullptr || job->ended || !job->coordinator)
    return failure(fmt::format("there is no job {} that runs", msg.number));
  return self_->delegate(job->coordinator, msg);
}

void cluster_state::cancel(std::uint64_t number, const std::string& reason) {
  auto* job = find(number);
  if (job == nullptr || job->ending)
    return;
  if (job->coordinator)
    self_->send(job->coordinator, stop_job{false, reason});
  else
    finished({number, std::make_shared<job_result>(unstarted(reason))});
}

/// In the order of coming.
void cluster_state::start_what_fits() {
  std::map<std::uint64_t, std::string> reasons;
  for (bool started = true; started;) { // what starts is what others wait for
    started = false;
    reasons.clear();
    kept_nodes kept;
    for (auto& [number, job] : jobs_) {
      if (!job.waits())
        continue;
      const auto members = answers_.members();
      const auto held_back = decisions_.holds_back(job);
      auto fits = choose_gang(job.submission.job, members, kept);
      if (auto* gang = std::get_if<std::vector<std::uint32_t>>(&fits); gang != nullptr && held_back.empty()) {
        start(job, std::move(*gang));
        started = true;
        continue;
      }
      for (const auto node : nodes_to_keep(job.submission.job, members, kept))
        kept.try_emplace(node, number);
      reasons.emplace(number, held_back.empty() ? std::get<no_gang>(fits).reason : held_back);
    }
  }
  for (const auto& [number, reason] : reasons)
    wait(jobs_.at(number), reason);
  if (reasons.empty())
    grow();
}

void cluster_state::wait(cluster_job& job, const std::string& reason) {
  if (std::exchange(job.waits_for, reason) == reason)
    return;
  self_->send(job.client, job_waits{reason});
  say(job.number, "waits: " + reason);
}

void cluster_state::start(cluster_job& job, std::vector<std::uint32_t> gang) {
  const auto& spec = job.submission.job;
  const auto members = answers_.members();
  const auto more = nodes_to_grow_onto(spec, members, gang);
  job.begins_with = gang.size();
  job.gang = std::move(gang);
  job.gang.insert(job.gang.end(), more.begin(), more.end());
  auto nodes = members_of(spec, members, job.gang, job.begins_with);
  if (job.gang.front() == 0 && !members.front().actor)
    nodes.front().actor = job.own = self_->spawn<node_impl>(setup_.own);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < job.begins_with; ++i) {
    names.push_back(nodes[i].name);
    if (job.gang[i] != 0 || first_node_serves(spec, members.front(), nodes))
      members_[job.gang[i]].job = job.number;
  }
  ++job.life;
  job.key = random_job_key();
  job.starts = true;
  job.taken_over = false;
  decisions_.started(job, job.key, names,
                     [this, number = job.number, nodes = std::move(nodes), names] { begin(number, nodes, names); });
}

/// It is decided that it begins.
void cluster_state::begin(std::uint64_t number, std::vector<member_node> nodes, const std::vector<std::string>& names) {
  auto* job = find(number);
  if (job == nullptr || job->ending)
    return;
  job->starts = false;
  say(number, fmt::format("starts on {}", fmt::join(names, ", ")));
  if (!std::exchange(job->waits_for, {}).empty())
    self_->send(job->client, job_waits{});
  job->coordinator = coordinate(*job, std::move(nodes), names);
}

coordinator_control cluster_state::coordinate(cluster_job& job, std::vector<member_node> nodes,
                                              const std::vector<std::string>& names,
                                              const std::optional<protocols::ledger::course>& taken_over) {
  job.since = self_->clock().now();
  job.meter = std::make_shared<job_meter>();
  auto observer = std::make_shared<job_forwarder>(job.number, job.told_here ? client_actor{} : job.client, names, job.meter,
                                                  job_metrics{setup_.own.metrics, job.number, job.submission.job.name},
                                                  cluster_control{self_}, taken_over.has_value());
  auto decided = decisions_.of(job);
  decided.taken_over = taken_over;
  return self_->spawn<coordinator_impl>(coordinator_setup{job.submission.job, job.key, std::move(nodes), observer,
                                                          job.submission.trace, setup_.own.added.protocols, job.submission.rounds,
                                                          std::move(decided)});
}

void cluster_state::finished(const job_finished& msg) {
  auto* job = find(msg.number);
  if (job == nullptr || job->ending)
    return;
  if (msg.result->lost_before_start && (job->client || job->submission.detached || job->orphan)) {
    self_->send(job->coordinator, end_decided{});
    return job->taken_over ? succession_.go_back(*job, msg.result->reason) : start_later(*job, *msg.result);
  }
  job->ending = true;
  decisions_.ended(msg.number, *msg.result, [this, msg](const std::string&) { conclude(msg.number, std::move(*msg.result)); });
}

/// Nothing is lost but time.
void cluster_state::start_later(cluster_job& job, const job_result& why) {
  say(job.number, "starts again: " + why.reason);
  self_->send(job.client, job_says{"the job starts again: " + why.reason});
  release(job);
  job.rests = true;
  self_->run_delayed(rest, [this, number = job.number] {
    if (auto* waiting = find(number))
      waiting->rests = false;
    start_what_fits();
  });
  start_what_fits();
}

/// Its end is decided: it will not run again.
void cluster_state::conclude(std::uint64_t number, job_result result) {
  auto* job = find(number);
  job->ended = true;
  job->result = std::move(result);
  if (job->coordinator)
    self_->send(job->coordinator, end_decided{});
  const auto how = how_it_ended(job->result);
  say(number, how);
  history_.close(number, how);
  free_nodes_of(number);
  if (job->client)
    report_to_client(self_, *job);
  else if (!job->submission.detached && !job->orphan)
    forget(number);
  forget_the_detached();
  start_what_fits();
}

void cluster_state::free_nodes_of(std::uint64_t number) {
  if (auto& own = find(number)->own) {
    self_->send_exit(own, caf::exit_reason::user_shutdown);
    own = nullptr;
    idle_since_ns_ = steady_ns();
  }
  for (auto& member : members_)
    if (member.job == number) {
      member.job = 0;
      let_go(member);
    }
}

void cluster_state::forget(std::uint64_t number) {
  const auto at = jobs_.find(number);
  if (at == jobs_.end() || !at->second.ended)
    return;
  if (at->second.client)
    self_->demonitor(at->second.client);
  jobs_.erase(at);
  decisions_.forgotten(number);
}

/// The result of a detached job is kept for as long as its history is.
void cluster_state::forget_the_detached() {
  for (const auto number :
       numbers_of(jobs_, [this](const cluster_job& job) { return job.ended && !job.client && !history_.knows(job.number); }))
    forget(number);
}

/// Ends an orphan unless its client comes back in time.
void cluster_state::await_client(const cluster_job& job) {
  const auto wait = decisions_.client_wait();
  self_->run_delayed(std::chrono::duration_cast<std::chrono::milliseconds>(wait),
                     [=, this, number = job.number, times = job.clients] {
                       if (const auto* its = find(number); its == nullptr || !its->orphan || its->clients != times)
                         return;
                       cancel(number, fmt::format("its client did not come back within {:g} s", wait.count()));
                       forget(number);
                     });
}

void cluster_state::on_down(const caf::down_msg& msg) {
  for (auto& member : members_)
    if (member.actor && member.actor.address() == msg.source) {
      const auto how = member.leaving ? std::string{"has left"} : "is gone: " + explain(msg.reason);
      say(fmt::format("node {} {}", member.description.name, how));
      let_go(member);
      member = {.description = member.description,
                .last = fmt::format("{}, at {:%H:%M:%S}", how, fmt::localtime(std::time(nullptr)))};
    }
  std::vector<std::uint64_t> orphans;
  for (auto& [number, job] : jobs_)
    if (job.client && job.client.address() == msg.source) {
      job.client = nullptr;
      if (job.submission.detached)
        continue;
      if (msg.reason != caf::exit_reason::remote_link_unreachable) { // it has ended
        orphans.push_back(number);
        continue;
      }
      job.orphan = true; // its process may be there still
      say(number, fmt::format("waits {:g} s for its client, whose connection is lost", decisions_.client_wait().count()));
      await_client(job);
    }
  // The last first: with one that still waits gone none of the others begins.
  for (auto number : std::views::reverse(orphans)) {
    cancel(number, "its submitter is gone");
    forget(number);
  }
  start_what_fits();
}

void cluster_state::say(const std::string& text) {
  history_.say(0, text, wall_ms());
  setup_.say(text);
}

void cluster_state::say(std::uint64_t job, const std::string& text) {
  history_.say(job, text, wall_ms());
  setup_.say(fmt::format("job {} {}", job, text));
}

cluster_member* cluster_state::find(const std::string& node) {
  const auto found = std::ranges::find(members_, node, [](const cluster_member& each) { return each.description.name; });
  return found == members_.end() ? nullptr : &*found;
}

cluster_job* cluster_state::find(std::uint64_t number) {
  const auto found = jobs_.find(number);
  return found == jobs_.end() ? nullptr : &found->second;
}

} // namespace troupe::actors
