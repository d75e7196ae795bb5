// SPDX-License-Identifier: BSD-3-Clause
// Whom a job waits for: said when it takes long, given up when it takes too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/nodes/progress_deadlines.hpp"

namespace troupe::actors {

/// Looks once a second. Workers for which a round waits too long are lost, and so are backups of shards, and an evaluator that
/// takes too long; other holders that do not progress fail the job, because nobody can go on without them. Whom the operator has
/// paused is waited for.
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
    /// Of the newest plan.
    virtual std::uint32_t period() const = 0;
    virtual void worker_does_not_progress(std::uint32_t worker, const std::string& reason) = 0;
    virtual void backup_does_not_progress(std::uint32_t holder, const std::string& reason) = 0;
    virtual void evaluator_is_overdue(const std::string& reason) = 0;
    virtual void fail(const std::string& reason) = 0;
  };

  progress_watch(measured_pointer<coordinator_control> self, const coordinator_setup& setup, const job_places& places, owner& by);

  /// `rounds`: not in a decentralized job, where nobody waits for anybody.
  void begin(bool rounds);
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
  void say_who_is_awaited();
  void ask_what_they_do(const std::set<std::uint32_t>& nodes, std::function<void(std::vector<actor_report>)> take);
  void round_is_overdue();
  void judge(const awaited& late, const std::vector<actor_report>& all);
  void holders_are_overdue(const std::vector<actor_report>& all);
  void evaluation_is_overdue();

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  const job_places& places_;
  owner& by_;
  progress_deadlines deadlines_;
  clock::time_point last_ = clock::now();
  bool rounds_ = true;
  bool said_ = false; ///< whom this round waits for
  bool asks_ = false; ///< somebody is overdue, and the others are asked what they do
};

} // namespace troupe::actors
