// SPDX-License-Identifier: BSD-3-Clause
// A cluster's decisions about its jobs: on the disk before anybody is told of them, and there again after a restart.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/cluster_job.hpp"
#include "actors/journal/durable_ledger.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/roles/coordinator/coordinator_setup.hpp"

namespace troupe::actors {

/// Who decides, and the jobs as they were when this coordinator began to lead.
struct kept_jobs {
  std::unique_ptr<durable_ledger> ledger{}; ///< of a single coordinator
  ledger_actor council{};                   ///< of one of several
  std::uint64_t term = 0;                   ///< in which this coordinator leads
  std::uint64_t last_number = 0;            ///< that was given to a job
  std::chrono::milliseconds orphan{};       ///< how long a job that is not detached waits for its client
  std::vector<cluster_job> jobs{};          ///< in the order of their coming
  std::set<std::string> nodes{};            ///< on which they ran
};
/// Reads the journal in `folder`, which is made where it is missing. Blocks.
/// Throws std::runtime_error with the remedy where it cannot be used: see durable_ledger, or it has jobs of another build of
/// Troupe.
std::shared_ptr<kept_jobs> open_kept_jobs(const std::string& folder, std::chrono::milliseconds orphan);
/// Likewise of what was decided, without anybody who decides. `where`: the folder, for messages.
std::shared_ptr<kept_jobs> kept_jobs_of(const protocols::ledger::state& decided, const std::string& where,
                                        std::chrono::milliseconds orphan);

/// Used by the cluster's actor, on its thread alone. The disk is waited for on another.
class job_decisions {
public:
  /// `why_not`: empty, or why that was not decided. Called on the cluster's thread.
  using afterwards = std::function<void(const std::string& why_not)>;

  /// `kept` is null where there is no journal: then all is decided at once, and forgotten with the process. `say`: what the log
  /// should have.
  job_decisions(cluster_control::pointer self, std::shared_ptr<kept_jobs> kept, std::function<void(const std::string&)> say);

  /// Whether there is a journal.
  bool durable() const { return kept_ != nullptr; }
  /// What clients are told: cluster_view::orphan_s.
  double orphan_s() const;
  /// For how long a job waits for a client whose connection was lost.
  std::chrono::duration<double> client_wait() const;

  void submitted(std::uint64_t number, const submit_job& submission, afterwards then);
  /// No node may hear of this life before.
  void started(const cluster_job& job, std::uint64_t key, const std::vector<std::string>& nodes, std::function<void()> then);
  /// For the job's coordinator, which decides the rest.
  decided_job of(const cluster_job& job) const;
  /// In which this process leads; 0: there is no journal.
  std::uint64_t term() const { return kept_ ? kept_->term : 0; }
  void ended(std::uint64_t number, const job_result& how, afterwards then);
  void forgotten(std::uint64_t number);

  /// Why the job may not start yet, though its nodes are free; empty: it may.
  std::string holds_back(const cluster_job& job) const;
  /// A node is here.
  void joined(const std::string& node) { awaited_.erase(node); }
  /// Those that are not here yet are waited for no longer.
  void settle() { awaited_.clear(); }

private:
  void decide(protocols::ledger::entry entry, afterwards then);
  afterwards unless_another_leads(std::function<void()> then) const;

  cluster_control::pointer self_;
  std::shared_ptr<kept_jobs> kept_;
  std::function<void(const std::string&)> say_;
  ledger_actor keeper_{};
  std::string failed_{};          ///< why nothing more is decided for good
  std::set<std::string> awaited_; ///< nodes on which jobs ran
};

} // namespace troupe::actors
