// SPDX-License-Identifier: BSD-3-Clause
// The mechanics of a worker that is sent parameters and answers each with a push; what lies between is its task.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "protocols/worker.hpp"

namespace troupe::protocols {

/// What a worker does between parameters and push. One object lives as long as plans name the same protocol with the same
/// parameters; it may remember past rounds.
class task {
public:
  virtual ~task() = default;
  /// Begins on new parameters. `as` is the push to come, but for what the computing finds out. Steps are numbered by the worker.
  virtual worker_effects begin(const plan& with, const params& what, const push& as) = 0;
  /// A computation that the task asked for is done. The task ends with its `send_push`, and with what it asks for together with
  /// that: who has pushed may compute on while the push is under way. Until then a computation is under way.
  virtual worker_effects on(const computed& msg) = 0;
};

using task_maker = std::function<std::unique_ptr<task>(const protocol_spec&)>;

/// Works on one set of parameters at a time, each the newest that it had when it began; parameters that come meanwhile, or
/// before their plan, wait, the newest of them alone. What is old, repeated or for a plan without it is nothing.
class params_worker final : public worker {
public:
  params_worker(member self, task_maker make);

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override;
  worker_effects on(const computed& msg) override;
  worker_effects on(const peer_message&) override { return {}; }
  void check() const override;

private:
  worker_effects begin_if_ready();
  bool is_of_an_older_life(const params& what) const;
  void note(worker_effects& effects);

  member self_;
  task_maker make_;
  std::unique_ptr<task> task_; ///< of the protocol `of_`
  protocol_spec of_;
  std::map<plan_epoch, plan> plans_; ///< from that of the newest parameters on: a round keeps the plan it began with
  std::optional<params> newest_;     ///< heard
  bool begun_newest_ = false;
  bool computing_ = false;
  clock_tick clock_;        ///< of the last push begun
  std::uint64_t steps_ = 0; ///< asked for so far
};

/// sync, backup, deadline and auto's share of them: one gradient of the worker's slice, cut `rank of n` of the global batch.
/// Per-push protocols are handed a slice of their own: the batch is cut in one.
class gradient_task final : public task {
public:
  explicit gradient_task(bool own_slice = false) : own_slice_(own_slice) {}
  worker_effects begin(const plan& with, const params& what, const push& as) override;
  worker_effects on(const computed& msg) override;

private:
  bool own_slice_;
  push open_;
};

/// Adds to a push what one of the computations that go into it found out: samples, time, the mean loss over all samples. Without
/// samples there is no loss to add.
void accumulate(push& what, const computed& msg);

} // namespace troupe::protocols
