// SPDX-License-Identifier: BSD-3-Clause
// The engine of a worker that answers parameters with pushes; its task does the work between.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "protocols/worker.hpp"

namespace troupe::protocols {

/// What a worker does between parameters and push. An object lives as long as plans name the same protocol with the same
/// parameters, and may remember past rounds.
class task {
public:
  virtual ~task() = default;
  /// Begins work on new parameters. `draft` is the push to come, without the results of the computation. The worker numbers the
  /// steps.
  virtual worker_effects begin(const plan& plan, const params& msg, const push& draft) = 0;
  /// A computation that the task asked for is done. Until the task ends, one is always under way. It ends with its `send_push`
  /// and any computation requested with it, which then runs while the push is under way.
  virtual worker_effects on(const computed& msg) = 0;
  /// Told before anything else where the worker's own parameters and dual variable are there, from a checkpoint.
  virtual void has_replica() {}
};

using task_maker = std::function<std::unique_ptr<task>(const protocol_spec&)>;

/// Works on one set of parameters at a time, the newest when it began. Of the parameters that come meanwhile, or before their
/// plan, only the newest are kept.
/// It ignores parameters that are old, repeated or from a plan without this worker.
class params_worker final : public worker {
public:
  /// `once_a_version`: it answers a version once under each plan, as protocols of rounds want it. A lead that takes over may send
  /// it a second time, and is sent the push again: a second one would move what a codec or local steps keep between rounds.
  /// Otherwise what is sent later is new, perhaps the version that the worker has: where each push is applied alone, that is
  /// its answer.
  params_worker(member self, task_maker make, bool once_a_version = false);

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override;
  worker_effects on(const computed& msg) override;
  worker_effects on(const peer_message&) override { return {}; }
  void goes_on(const worker_memory& from) override { has_replica_ = from.has_replica; }
  void check() const override;

private:
  worker_effects begin_if_ready();
  bool is_of_older_incarnation(const params& msg) const;
  bool is_newer(const params& msg) const;
  void note(worker_effects& effects);

  member self_;
  task_maker make_;
  bool once_a_version_;
  bool has_replica_ = false;   ///< from a checkpoint; for the first task
  std::unique_ptr<task> task_; ///< of `task_protocol_`
  protocol_spec task_protocol_;
  std::map<plan_epoch, plan> plans_; ///< from that of the newest parameters on: a round keeps its first plan
  std::optional<params> newest_;     ///< heard
  bool begun_newest_ = false;
  bool computing_ = false;
  clock_tick clock_;        ///< of the last push begun
  std::uint64_t steps_ = 0; ///< asked for so far
};

/// For sync, backup and deadline: one gradient of the worker's slice, cut number `rank` of n of the global batch. Under per-push
/// protocols a worker is given a slice of its own: one cut is the batch.
class gradient_task final : public task {
public:
  explicit gradient_task(bool own_slice = false) : own_slice_(own_slice) {}
  worker_effects begin(const plan& plan, const params& msg, const push& draft) override;
  worker_effects on(const computed& msg) override;

private:
  bool own_slice_;
  push open_;
};

/// Adds the result of one computation to its push: samples, time, and the mean loss over all labels that count. Without those
/// there is no loss to add.
void accumulate(push& total, const computed& msg);

} // namespace troupe::protocols
