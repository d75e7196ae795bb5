// SPDX-License-Identifier: BSD-3-Clause
// Looks, questions, verdicts.
#include "actors/roles/coordinator/nodes/progress_watch.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/errors.hpp"
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

progress_watch::progress_watch(measured_pointer<coordinator_control> self, const coordinator_setup& setup,
                               const job_places& places, owner& by)
    : self_(self), setup_(setup), places_(places), by_(by), deadlines_(setup.what.cluster.progress_s) {}

void progress_watch::begin(bool rounds) {
  rounds_ = rounds;
  since_last();
  self_->run_delayed(1s, [this] { look(); });
}

void progress_watch::round_closed() {
  deadlines_.round_took(since_last(), by_.period());
}

void progress_watch::evaluated() {
  deadlines_.evaluation_took(since_last());
}

double progress_watch::waited_s() const {
  return std::chrono::duration<double>(clock::now() - last_).count();
}

double progress_watch::deadline_s() const {
  const auto course = by_.now();
  if (course == owner::course::evaluates)
    return deadlines_.of_evaluation().count();
  const auto of_round = rounds_ && course == owner::course::trains ? deadlines_.of_round(by_.period()) : std::nullopt;
  return of_round.value_or(progress_deadlines::seconds{0}).count();
}

progress_watch::clock::duration progress_watch::since_last() {
  said_ = false;
  const auto now = clock::now();
  return now - std::exchange(last_, now);
}

void progress_watch::look() {
  const auto course = by_.now();
  if (course == owner::course::ends)
    return;
  self_->run_delayed(1s, [this] { look(); });
  const std::chrono::duration<double> waited{waited_s()};
  if (course == owner::course::evaluates && waited > deadlines_.of_evaluation() && !std::exchange(asks_, true))
    return evaluation_is_overdue();
  if (course != owner::course::trains)
    return;
  const auto deadline = rounds_ ? deadlines_.of_round(by_.period()) : std::nullopt;
  if (deadline && waited > *deadline && !std::exchange(asks_, true))
    round_is_overdue();
  else if (waited > stall_after && !std::exchange(said_, true))
    say_who_is_awaited();
}

void progress_watch::say_who_is_awaited() {
  self_->request(setup_.nodes[places_.holders[0].node].actor, 1s, waiting_query{})
      .then(
          [this, waited = waited_s()](const awaited& late) {
            std::vector<std::string> names;
            for (const auto worker : late.workers)
              names.push_back(places_.describe(worker));
            for (const auto holder : late.holders)
              names.push_back(places_.describe(protocols::holder_id{holder}, setup_.what.cluster.shards));
            setup_.observer->on_event(fmt::format("no step for {:.0f} s: the round waits for {}", std::floor(waited),
                                                  names.empty() ? "the shards" : fmt::format("{}", fmt::join(names, ", "))));
          },
          [this](const caf::error&) { setup_.observer->on_event("no step for a while, and the lead shard does not answer"); });
}

/// What the actors of these nodes do, as far as they answer.
void progress_watch::ask_what_they_do(const std::set<std::uint32_t>& nodes, std::function<void(reports)> take) {
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

void progress_watch::round_is_overdue() {
  const auto ask = [this, step = by_.step()](const awaited& late) {
    std::set<std::uint32_t> nodes;
    for (const auto worker : late.workers)
      nodes.insert(places_.workers[worker].node);
    if (late.workers.empty())
      for (const auto& holder : places_.holders)
        if (holder.node != nowhere)
          nodes.insert(holder.node);
    ask_what_they_do(nodes, [this, step, late](const reports& all) {
      asks_ = false;
      if (by_.now() == owner::course::trains && by_.step() == step)
        judge(late, all);
    });
  };
  self_->request(setup_.nodes[places_.holders[0].node].actor, answer_deadline, waiting_query{})
      .then(ask, [ask](const caf::error&) { ask({}); });
}

void progress_watch::judge(const awaited& late, const reports& all) {
  const auto why = [&](const std::string& id) {
    return fmt::format("no step for {:.0f} s; {}", waited_s(), what_it_does(all, id));
  };
  for (const auto worker : late.workers)
    if (const auto id = fmt::format("worker {}", worker); !is_paused(all, id))
      by_.worker_does_not_progress(worker, why(id));
  if (!late.workers.empty())
    return;
  const auto is_backup = [this](std::uint32_t holder) { return places_.holders[holder].backup_of.has_value(); };
  if (late.holders.empty() || !std::ranges::all_of(late.holders, is_backup))
    return holders_are_overdue(all);
  for (const auto backup : late.holders)
    if (const auto id = fmt::format("replica {}", backup); !is_paused(all, id))
      by_.backup_does_not_progress(backup, why(id));
}

void progress_watch::holders_are_overdue(const reports& all) {
  constexpr std::size_t most_shown = 3;
  std::vector<std::string> doing;
  for (const auto& holder : places_.holders) {
    if (holder.node == nowhere || holder.backup_of)
      continue;
    const auto id = fmt::format("{} {}", holder.index < setup_.what.cluster.shards ? "shard" : "aggregator", holder.index);
    if (is_paused(all, id))
      return;
    if (doing.size() < most_shown)
      doing.push_back(what_it_does(all, id));
  }
  by_.fail(fmt::format("no step for {:.0f} s, and the round waits for no worker; {}; cluster.progress_s sets the deadline",
                       waited_s(), fmt::join(doing, ", ")));
}

void progress_watch::evaluation_is_overdue() {
  ask_what_they_do({places_.evaluator}, [this, step = by_.step()](const reports& all) {
    const std::string id = "evaluator 0";
    asks_ = false;
    if (by_.now() != owner::course::evaluates || by_.step() != step || is_paused(all, id))
      return;
    by_.evaluator_is_overdue(
        fmt::format("the evaluation of step {} has taken {:.0f} s, and {}; cluster.progress_s sets the deadline", step,
                    waited_s(), what_it_does(all, id)));
  });
}

} // namespace troupe::actors
