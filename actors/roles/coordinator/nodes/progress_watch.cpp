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

namespace troupe::actors {

namespace {

using namespace std::chrono_literals;
using reports = progress_watch::reports;

/// How long a round may take before the run says whom it waits for.
constexpr auto stall_after = 5s;
constexpr auto answer_deadline = 2s;
const std::string everybody = "everybody"; // is suspected where nobody is

/// Null: it does not answer.
const actor_report* answer_of(const reports& all, std::uint32_t node, const std::string& id) {
  const auto there = all.find(node);
  if (there == all.end())
    return nullptr;
  const auto found = std::ranges::find(there->second, id, &actor_report::id);
  return found == there->second.end() || found->stuck ? nullptr : &*found;
}

std::string what_it_does(const actor_report* said, const std::string& id) {
  return said == nullptr ? fmt::format("{} does not answer", id)
                         : fmt::format("{}: {} for {:.0f} s", id, said->state, said->since_s);
}

/// The operator has paused it, or what it waits for on its node.
bool is_paused(const reports& all, std::uint32_t node, const actor_report* said) {
  return said != nullptr && (said->paused || std::ranges::any_of(said->waits_for, [&](const std::string& id) {
                               const auto* other = answer_of(all, node, id);
                               return other != nullptr && other->paused;
                             }));
}

/// One whose id begins so; then it may not be to blame itself.
bool waits_for_a(const actor_report* said, std::string_view role) {
  return said != nullptr && std::ranges::any_of(said->waits_for, [role](const std::string& id) { return id.starts_with(role); });
}

bool has_part(const protocols::plan& plan, std::uint32_t worker) {
  return std::ranges::any_of(plan.workers, [worker](const protocols::member& each) { return each.worker.value == worker; });
}

/// Neither its thread nor that of its compute actor or loader stands still.
bool moves(const actor_report* said) {
  return said != nullptr && !said->ended && !said->paused && !waits_for_a(said, "compute ") && !waits_for_a(said, "loader ");
}

} // namespace

progress_watch::progress_watch(measured_pointer<coordinator_control> self, const coordinator_setup& setup,
                               const job_places& places, owner& by)
    : self_(self), setup_(setup), places_(places), by_(by), deadlines_(setup.job.cluster.progress_s) {}

void progress_watch::begin(bool among_peers) {
  among_peers_ = among_peers;
  since_last();
  self_->run_delayed(1s, [this] { look(); });
}

void progress_watch::round_closed() {
  deadlines_.round_took(since_last(), by_.plan().period);
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
  const auto of_round = course == owner::course::trains ? deadlines_.of_round(by_.plan().period) : std::nullopt;
  return of_round.value_or(progress_deadlines::seconds{0}).count();
}

progress_watch::clock::duration progress_watch::since_last() {
  said_ = false;
  suspects_.clear();
  const auto now = clock::now();
  return now - std::exchange(last_, now);
}

void progress_watch::look() {
  const auto course = by_.now();
  if (course == owner::course::ends)
    return;
  self_->run_delayed(1s, [this] { look(); });
  look_for_strays();
  const std::chrono::duration<double> waited{waited_s()};
  if (course == owner::course::evaluates && waited > deadlines_.of_evaluation() && !std::exchange(asks_, true))
    return evaluation_is_overdue();
  if (course != owner::course::trains)
    return;
  const auto deadline = deadlines_.of_round(by_.plan().period);
  if (deadline && waited > *deadline && !std::exchange(asks_, true))
    round_is_overdue();
  else if (waited > stall_after && !std::exchange(said_, true))
    say_who_is_awaited();
}

void progress_watch::look_for_strays() {
  std::set<std::uint32_t> nodes;
  for (auto& [worker, stray] : strays_) {
    if (has_part(by_.plan(), worker)) // it has come back with its node, or by the operator's order
      stray.has_part();
    if (stray.is_out())
      nodes.insert(places_.workers[worker].node);
  }
  if (nodes.empty())
    return;
  ask_what_they_do(nodes, [this](const reports& all) {
    for (auto& [worker, stray] : strays_)
      if (stray.is_out() && moves(of_worker(all, worker)) && stray.moves()) {
        stray.has_part();
        by_.worker_moves_again(worker);
      }
  });
}

void progress_watch::say_who_is_awaited() {
  ask_everybody([this, step = by_.step()](const awaited& late, const reports& all) {
    if (!trains_at(step))
      return;
    const auto who = held_up_by(late, all);
    std::vector<std::string> names;
    for (const auto worker : who.workers)
      names.push_back(places_.describe(worker));
    for (const auto holder : who.holders)
      names.push_back(places_.describe(protocols::holder_id{holder}, setup_.job.cluster.shards));
    setup_.observer->on_event(fmt::format("no step for {:.0f} s: the round waits for {}", std::floor(waited_s()),
                                          names.empty() ? "the shards" : fmt::format("{}", fmt::join(names, ", "))));
  });
}

/// Whom the lead awaits, nobody if it does not answer; and what all say of themselves.
void progress_watch::ask_everybody(std::function<void(const awaited&, const reports&)> take) {
  const auto ask = [this, take = std::move(take)](const awaited& late) {
    ask_what_they_do(nodes_with_roles(), [take, late](const reports& all) { take(late, all); });
  };
  if (among_peers_)
    return ask({});
  self_->request(setup_.nodes[places_.holders[0].node].actor, answer_deadline, waiting_query{})
      .then(ask, [ask](const caf::error&) { ask({}); });
}

/// What the actors of these nodes do, as far as they answer.
void progress_watch::ask_what_they_do(const std::set<std::uint32_t>& nodes, std::function<void(const reports&)> take) {
  const join_counter<reports> all(std::move(take));
  for (const auto node : nodes)
    ask_for_page(all, node, {});
  all.one_less();
}

/// The first of a node's answer, and with it the others.
void progress_watch::ask_for_page(const join_counter<reports>& all, std::uint32_t node, const inspect_query& query) {
  all.one_more();
  self_->request(setup_.nodes[node].actor, answer_deadline, query)
      .then(
          [this, all, node, first = query.page == 0](const node_report& said) {
            auto& here = (*all)[node];
            here.insert(here.end(), said.actors.begin(), said.actors.end());
            for (std::uint32_t page = 1; first && page < said.pages; ++page)
              ask_for_page(all, node, {page, said.answer_id});
            all.one_less();
          },
          [all](const caf::error&) { all.one_less(); });
}

std::set<std::uint32_t> progress_watch::nodes_with_roles() const {
  std::set<std::uint32_t> out{places_.evaluator};
  for (const auto& holder : places_.holders)
    if (holder.node != nowhere)
      out.insert(holder.node);
  for (const auto& member : by_.plan().workers)
    out.insert(places_.workers[member.worker.value].node);
  return out;
}

/// Who waits for no other one.
awaited progress_watch::late_among_peers(const reports& all) const {
  awaited out;
  for (const auto& member : by_.plan().workers) {
    const auto worker = member.worker.value;
    const auto* said = of_worker(all, worker);
    if (!waits_for_a(said, "worker ") && !waits_for_a(said, "coordinator "))
      out.workers.push_back(worker);
  }
  return out;
}

/// Workers if there are any, else holders. Neither: no shard more than the others.
awaited progress_watch::held_up_by(const awaited& late, const reports& all) const {
  if (among_peers_)
    return late_among_peers(all);
  const auto paused = paused_holders(all);
  const auto stand_still = holders_without_answer(all);
  awaited out;
  for (const auto worker : late.workers)
    if (!waits_for_a(of_worker(all, worker), "shard ") || (paused.empty() && stand_still.empty()))
      out.workers.push_back(worker);
  if (out.workers.empty())
    out.holders = !paused.empty() ? paused : !stand_still.empty() ? stand_still : late.holders;
  return out;
}

void progress_watch::round_is_overdue() {
  ask_everybody([this, step = by_.step()](const awaited& late, const reports& all) {
    begin_verdict();
    if (trains_at(step))
      judge(held_up_by(late, all), all);
  });
}

void progress_watch::judge(const awaited& who, const reports& all) {
  if (blame_workers(who.workers, all) || !paused_holders(all).empty())
    return;
  const auto can_be_blamed = [&](std::uint32_t holder) {
    const auto& at = places_.holders[holder];
    return at.backup_of || of_holder(all, at) == nullptr;
  };
  if (!who.holders.empty() && std::ranges::all_of(who.holders, can_be_blamed))
    return blame(who.holders, all);
  if (!is_suspected_again(everybody))
    return;
  if (among_peers_)
    by_.fail(fmt::format("no step for {:.0f} s, and all workers wait for each other; cluster.progress_s sets the deadline",
                         waited_s()));
  else
    holders_are_overdue(all);
}

void progress_watch::begin_verdict() {
  asks_ = false;
  suspects_before_ = std::exchange(suspects_, {});
}

/// Who was busy for a moment, or has gone on while the others were asked, is not found twice.
bool progress_watch::is_suspected_again(const std::string& id) {
  suspects_.insert(id);
  return suspects_before_.contains(id);
}

/// All but those that the operator has paused. False: there are none at all.
bool progress_watch::blame_workers(const std::vector<std::uint32_t>& workers, const reports& all) {
  const auto waited = waited_s();
  for (const auto worker : workers) {
    const auto id = fmt::format("worker {}", worker);
    const auto* said = of_worker(all, worker);
    if (is_paused(all, places_.workers[worker].node, said) || !is_suspected_again(id))
      continue;
    goes_on(); // the others have time again
    by_.worker_does_not_progress(worker, fmt::format("no step for {:.0f} s; {}", waited, what_it_does(said, id)));
    strays_[worker].lost(clock::now());
  }
  return !workers.empty();
}

std::vector<std::uint32_t> progress_watch::holders_without_answer(const reports& all) const {
  std::vector<std::uint32_t> out;
  for (const auto& holder : places_.holders)
    if (holder.node != nowhere && of_holder(all, holder) == nullptr)
      out.push_back(holder.index);
  return out;
}

std::vector<std::uint32_t> progress_watch::paused_holders(const reports& all) const {
  std::vector<std::uint32_t> out;
  for (const auto& holder : places_.holders)
    if (const auto* said = of_holder(all, holder); said != nullptr && said->paused)
      out.push_back(holder.index);
  return out;
}

/// Shards come first, so that a copy takes over before it is blamed itself. Who has moved meanwhile has another's place.
void progress_watch::blame(const std::vector<std::uint32_t>& holders, const reports& all) {
  const auto before = places_.holders;
  const auto waited = waited_s();
  for (const auto holder : holders) {
    const auto id = id_of(holder);
    if (places_.holders[holder].node != before[holder].node || !is_suspected_again(id))
      continue;
    goes_on(); // whoever takes over has time again
    by_.holder_does_not_progress(
        holder, fmt::format("no step for {:.0f} s; {}", waited, what_it_does(of_holder(all, before[holder]), id)));
  }
}

const actor_report* progress_watch::of_worker(const reports& all, std::uint32_t worker) const {
  return answer_of(all, places_.workers[worker].node, fmt::format("worker {}", worker));
}

const actor_report* progress_watch::of_holder(const reports& all, const role_place& holder) const {
  return answer_of(all, holder.node, id_of(holder.index));
}

std::string progress_watch::id_of(std::uint32_t holder) const {
  return places_.id_of(protocols::holder_id{holder}, setup_.job.cluster.shards);
}

/// Nobody stands still, and yet there is no step.
void progress_watch::holders_are_overdue(const reports& all) {
  constexpr std::size_t most_shown = 3;
  std::vector<std::string> doing;
  for (const auto& holder : places_.holders)
    if (holder.node != nowhere && !holder.backup_of && doing.size() < most_shown)
      doing.push_back(what_it_does(of_holder(all, holder), id_of(holder.index)));
  by_.fail(fmt::format("no step for {:.0f} s, and the round waits for no worker; {}; cluster.progress_s sets the deadline",
                       waited_s(), fmt::join(doing, ", ")));
}

/// It may wait for the parameters of a shard that stands still, or for the replica of such a worker.
void progress_watch::evaluation_is_overdue() {
  ask_what_they_do(nodes_with_roles(), [this, step = by_.step()](const reports& all) {
    const std::string id = "evaluator 0";
    begin_verdict();
    const auto* said = answer_of(all, places_.evaluator, id);
    if (by_.now() != owner::course::evaluates || by_.step() != step || is_paused(all, places_.evaluator, said)
        || !paused_holders(all).empty())
      return;
    std::vector<std::uint32_t> awaited_workers;
    for (const auto& member : by_.plan().workers)
      if (said != nullptr && std::ranges::count(said->waits_for, fmt::format("worker {}", member.worker.value)) != 0)
        awaited_workers.push_back(member.worker.value);
    if (blame_workers(awaited_workers, all))
      return;
    if (const auto stand_still = holders_without_answer(all); said != nullptr && !stand_still.empty())
      return blame(stand_still, all);
    if (is_suspected_again(id))
      by_.evaluator_is_overdue(
          fmt::format("the evaluation of step {} has taken {:.0f} s, and {}; cluster.progress_s sets the deadline", step,
                      waited_s(), what_it_does(said, id)));
  });
}

} // namespace troupe::actors
