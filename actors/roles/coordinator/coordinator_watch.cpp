// SPDX-License-Identifier: BSD-3-Clause
// Whom a job waits for: said when it takes long, ended when it takes too long.
#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

using namespace std::chrono_literals;
using reports = std::vector<actor_report>;

/// How long a round may take before the run says whom it waits for.
constexpr auto stall_after = 5s;
constexpr auto answer_deadline = 2s;

std::string what_it_does(const reports& all, const std::string& id) {
  const auto found = std::ranges::find(all, id, &actor_report::id);
  if (found == all.end() || found->stuck)
    return fmt::format("{} does not answer", id);
  return fmt::format("{}: {} for {:.0f} s", id, found->state, found->since_s);
}

bool is_paused(const reports& all, std::string_view id) {
  const auto found = std::ranges::find(all, id, &actor_report::id);
  return found != all.end() && found->paused;
}

} // namespace

/// Once a second.
void coordinator_state::watch() {
  if (finishing_)
    return;
  self_->run_delayed(1s, [this] { watch(); });
  const auto waited = std::chrono::steady_clock::now() - last_progress_;
  if (interrupt_)
    return; // that has a deadline of its own
  if (!clock_.running()) {
    if (waited > progress_.of_evaluation() && !std::exchange(asks_why_, true))
      evaluation_is_overdue();
    return;
  }
  const auto deadline = decentralized_ ? std::nullopt : progress_.of_round(machine_->current().period);
  if (deadline && waited > *deadline && !std::exchange(asks_why_, true))
    round_is_overdue();
  else if (waited > stall_after && !std::exchange(stall_said_, true))
    say_who_is_awaited();
}

void coordinator_state::say_who_is_awaited() {
  const auto waited = std::chrono::steady_clock::now() - last_progress_;
  self_->request(setup_.nodes[0].actor, 1s, waiting_query{})
      .then(
          [this, waited](const std::vector<std::uint32_t>& workers) {
            std::vector<std::string> names;
            for (auto worker : workers)
              names.push_back(describe(worker));
            setup_.observer->on_event(fmt::format("no step for {} s: the round waits for {}",
                                                  std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                                                  names.empty() ? "the shards" : fmt::format("{}", fmt::join(names, ", "))));
          },
          [this](const caf::error&) { setup_.observer->on_event("no step for a while, and the lead shard does not answer"); });
}

/// What the actors of these nodes do, as far as they answer.
void coordinator_state::ask_what_they_do(const std::set<std::uint32_t>& nodes, std::function<void(reports)> take) {
  const join_counter<reports> all(std::move(take));
  for (const auto node : nodes) {
    all.one_more();
    self_->request(setup_.nodes[node].actor, answer_deadline, inspect_query{})
        .then(
            [all](const node_report& said) {
              all->insert(all->end(), said.actors.begin(), said.actors.end());
              all.one_less();
            },
            [all](const caf::error&) { all.one_less(); });
  }
  all.one_less();
}

/// The workers that the round waits for leave the job. If it waits for none, the holders do not progress, and nobody can go on.
/// Whom the operator has paused is waited for.
void coordinator_state::round_is_overdue() {
  const auto round = record_.result.steps;
  const auto judge = [this, round](std::vector<std::uint32_t> workers) {
    std::set<std::uint32_t> nodes;
    for (const auto worker : workers)
      nodes.insert(places_.workers[worker].node);
    if (workers.empty())
      for (const auto& holder : places_.holders)
        nodes.insert(holder.node);
    ask_what_they_do(nodes, [this, round, workers](const reports& all) {
      asks_why_ = false;
      if (finishing_ || interrupt_ || !clock_.running() || record_.result.steps != round)
        return;
      const auto waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - last_progress_).count();
      if (workers.empty())
        return holders_are_overdue(all, waited);
      for (const auto worker : workers)
        if (const auto id = fmt::format("worker {}", worker); !is_paused(all, id))
          worker_lost(worker, fmt::format("no step for {:.0f} s; {}", waited, what_it_does(all, id)));
    });
  };
  self_->request(setup_.nodes[0].actor, answer_deadline, waiting_query{}).then(judge, [judge](const caf::error&) { judge({}); });
}

void coordinator_state::holders_are_overdue(const std::vector<actor_report>& all, double waited) {
  std::vector<std::string> doing;
  for (const auto& holder : places_.holders) {
    const auto id = fmt::format("{} {}", holder.index < setup_.what.cluster.shards ? "shard" : "aggregator", holder.index);
    if (is_paused(all, id))
      return;
    doing.push_back(what_it_does(all, id));
  }
  constexpr std::size_t most_shown = 3;
  doing.resize(std::min(doing.size(), most_shown));
  finish({true, fmt::format("no step for {:.0f} s, and the round waits for no worker; {}; cluster.progress_s sets the deadline",
                            waited, fmt::join(doing, ", "))});
}

/// Another evaluator may succeed where one hangs. The second that does not is the job's end.
void coordinator_state::evaluation_is_overdue() {
  ask_what_they_do({0}, [this, held = record_.result.steps](const reports& all) {
    const std::string id = "evaluator 0";
    asks_why_ = false;
    if (finishing_ || interrupt_ || clock_.running() || record_.result.steps != held || is_paused(all, id))
      return;
    const auto waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - last_progress_).count();
    const auto text = fmt::format("the evaluation of step {} has taken {:.0f} s; {}", held, waited, what_it_does(all, id));
    if (std::exchange(evaluator_replaced_, true))
      return finish({true, fmt::format("{}, the second one; cluster.progress_s sets the deadline", text)});
    setup_.observer->on_event(fmt::format("{}; a new one takes its place", text));
    last_progress_ = std::chrono::steady_clock::now();
    self_->request(setup_.nodes[0].actor, answer_deadline, role_order{role_verb::restart, "evaluator", 0, 0})
        .then([this, held] { perform({protocols::evaluate{{held}}}); },
              [this](const caf::error& e) {
                finish({true, "the evaluator could not be replaced: " + explain(e)});
              });
  });
}

} // namespace troupe::actors
