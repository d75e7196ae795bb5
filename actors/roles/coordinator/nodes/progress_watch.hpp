// SPDX-License-Identifier: BSD-3-Clause
// Whom a job waits for: said when it takes long, given up when it takes too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/nodes/progress_deadlines.hpp"
#include "actors/roles/coordinator/nodes/stray_worker.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

/// Looks once a second. When a wait is too long it asks everybody what they do. To blame is who was found so twice in a row:
///
///   workers     for whom the round waits; not one that waits for parameters itself while a holder does not answer
///   holders     that do not answer; backups also where the round waits for them alone
///   evaluator   where none of these holds it up
///
/// They are lost, or the job fails if it cannot go on without them. Whom the operator has paused is waited for, and so is who
/// waits for one of those. A worker that is lost so and moves again comes back: after a second, and after twice as long each
/// time.
///
/// Part of the coordinator, and used on its thread alone.
class progress_watch {
public:
  /// The coordinator.
  class owner {
  public:
    enum class course : std::uint8_t { trains, evaluates, ends };
    virtual ~owner() = default;
    virtual course now() const = 0;
    virtual std::uint64_t step() const = 0;
    /// The newest.
    virtual const protocols::plan& plan() const = 0;
    virtual void worker_does_not_progress(std::uint32_t worker, const std::string& reason) = 0;
    virtual void worker_moves_again(std::uint32_t worker) = 0;
    virtual void holder_does_not_progress(std::uint32_t holder, const std::string& reason) = 0;
    virtual void evaluator_is_overdue(const std::string& reason) = 0;
    virtual void fail(const std::string& reason) = 0;
  };

  /// What actors say of themselves, by node.
  using reports = std::map<std::uint32_t, std::vector<actor_report>>;

  progress_watch(measured_pointer<coordinator_control> self, const coordinator_setup& setup, const job_places& places, owner& by);

  /// `among_peers`: the workers wait for each other, and no lead can say for whom.
  void begin(bool among_peers);
  void round_closed();
  void evaluated();
  /// Something else begins: an evaluation, or training again.
  void goes_on() { since_last(); }
  /// Since the last of these.
  double waited_s() const;
  /// How long that may take: the round, or the evaluation. 0: there is no limit, or not yet.
  double deadline_s() const;

private:
  using clock = std::chrono::steady_clock;
  clock::duration since_last();
  void look();
  void look_for_strays();
  /// Nothing has moved while the others were asked.
  bool trains_at(std::uint64_t step) const { return by_.now() == owner::course::trains && by_.step() == step; }
  void say_who_is_awaited();
  void ask_everybody(std::function<void(const awaited&, const reports&)> take);
  void ask_what_they_do(const std::set<std::uint32_t>& nodes, std::function<void(const reports&)> take);
  void ask_for_page(const join_counter<reports>& all, std::uint32_t node, const inspect_query& query);
  std::set<std::uint32_t> nodes_with_roles() const;
  awaited late_among_peers(const reports& all) const;
  awaited held_up_by(const awaited& late, const reports& all) const;
  void round_is_overdue();
  void judge(const awaited& who, const reports& all);
  std::vector<std::uint32_t> holders_without_answer(const reports& all) const;
  std::vector<std::uint32_t> paused_holders(const reports& all) const;
  void begin_verdict();
  bool is_suspected_again(const std::string& id);
  bool blame_workers(const std::vector<std::uint32_t>& workers, const reports& all);
  void blame(const std::vector<std::uint32_t>& holders, const reports& all);
  /// Its report; null: it does not answer, or is nowhere.
  const actor_report* of_worker(const reports& all, std::uint32_t worker) const;
  const actor_report* of_holder(const reports& all, const role_place& holder) const;
  std::string id_of(std::uint32_t holder) const;
  void holders_are_overdue(const reports& all);
  void evaluation_is_overdue();

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  const job_places& places_;
  owner& by_;
  progress_deadlines deadlines_;
  clock::time_point last_ = clock::now();
  bool among_peers_ = false;
  bool said_ = false;                                ///< whom this round waits for
  bool asks_ = false;                                ///< somebody is overdue, and the others are asked what they do
  std::set<std::string> suspects_, suspects_before_; ///< found to blame when all were asked last, within this wait, and before
  std::map<std::uint32_t, stray_worker> strays_;     ///< by number
};

} // namespace troupe::actors
