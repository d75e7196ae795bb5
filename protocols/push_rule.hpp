// SPDX-License-Identifier: BSD-3-Clause
// The engine of protocols that apply each push alone.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// Runs at every shard, each with its own versions and clocks: atomic per shard only. A push of any member of the newest plan
/// makes a version, whatever parameters it was computed against. Its worker is answered with the newest parameters and a slice of
/// data of its own, so that every sample comes once an epoch at any speeds. A push that is not finite is discarded but answered.
///
/// Protocols differ in the step, in who may go on, and in which sent versions they keep.
class push_rule : public rule {
public:
  rule_effects on(const plan& msg) final;
  rule_effects on(const push& msg) final;
  rule_effects on(const worker_down& msg) final;
  rule_effects on(const expired&) final { return {}; }
  version current() const final { return state_.made; }
  std::vector<worker_id> waiting_for() const final;
  void check() const override;
  rule_state state() const final;
  void restore(const rule_state& from) final;

protected:
  using progress = push_progress;

  /// How this push is applied. n is that of the newest plan.
  virtual step_rule step_of(const push& msg) const;
  virtual delay_compensation compensation_of(member from) const {
    (void)from;
    return {};
  }
  /// Whether a worker that has pushed may go on; by default always. Only the worker's clock and slowest() may matter.
  virtual bool may_go(member who) const {
    (void)who;
    return true;
  }
  /// Whether a push is answered with the parameters from before it was applied.
  virtual bool answers_first() const { return false; }
  /// How many slices of the data a worker is given with its answer; by default one per local step of the plan.
  virtual std::uint32_t slices_for(const progress& worker) const {
    (void)worker;
    return state_.plan.period;
  }
  /// The newest parameters are being sent to this worker, or it is gone.
  virtual void sent(rule_effects& out, member to) {
    (void)out;
    (void)to;
  }
  virtual void left(rule_effects& out, member who) {
    (void)out;
    (void)who;
  }

  /// What the protocol remembers besides (memory.hpp), and the same to a new one, which forgets what it does not understand.
  virtual std::vector<double> memory() const { return {}; }
  virtual void remember(std::span<const double> memory) { (void)memory; }

  const plan& current_plan() const { return state_.plan; }
  const progress& progress_of(member who) const { return state_.workers.at(who); }
  /// The least clock of all workers.
  std::uint64_t slowest() const { return clocks_.empty() ? 0 : clocks_.begin()->first; }

private:
  void join(member who, std::uint64_t clock);
  void forget(member who);
  void wait(member who);
  void answer_waiting(rule_effects& out);
  void apply_push(rule_effects& out, const push& msg, const progress& worker);

  push_rule_state state_; ///< without the protocol's memory
  // What follows from it:
  std::map<std::uint64_t, std::size_t> clocks_; ///< how many workers have each
  std::set<member> waiting_;                    ///< of the workers, those that wait
  std::vector<member> fresh_;                   ///< of these, those not yet asked about by `may_go`: none between messages
};

} // namespace troupe::protocols
