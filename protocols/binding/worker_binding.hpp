// SPDX-License-Identifier: BSD-3-Clause
// What lies between a worker's machine and the world, and is not a tensor. The actor and the simulator both run it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/binding/ticket_store.hpp"
#include "protocols/worker.hpp"

namespace troupe::protocols {

/// One life of one worker. It decides which parts make a set of parameters, under which plan a step is, and what a ticket names.
///
/// Parts of an epoch ahead of the newest plan are parked until that plan has come. Parts of an epoch before the first plan with
/// this life were sent to an older one: a shard may not have heard that it is gone. They are dropped, for a key may be a clock,
/// and a worker that comes back counts from 0.
///
/// World is the driver. All calls come on the thread of the binding's owner. It has:
///
///   using tensor = ...;                                         a handle, copied freely; a default one is none
///   std::optional<tensor> join(const params&, const Part&);     the whole set, once this part completes it
///   std::optional<tensor> join(const peer_message&, const Part&);  likewise a peer's replica
///   void adopt(version, const tensor&);                         the anchor, from now on
///   void begin(const compute&, const plan&, const local_step*); a gradient or, with the last, a step on the worker's own
///   void mix(const operands<tensor>&);                          own parameters = sum
///   void dual(double rho);                                      dual += rho (own - anchor)
///   void send(const push&, std::optional<tensor>);              to every holder; none: a trailer alone
///   void send(const push&, operands<tensor> sum, bool keep);    keep: give the sum to `pushed`
///   bool reaches(worker_id);                                    whether a peer is there, and the way to it free
///   void send(const send_peer&);                                the worker's own parameters
///   void broken(const std::string&);                            the machine has named what is not there
///   bool checks();                                              whether the machine asserts its invariants after each message
template <class World>
class worker_binding {
public:
  using tensor = typename World::tensor;

  /// `keeps_own`: it holds the parameters itself and goes by the newest plan; else a round keeps the plan that it began with.
  worker_binding(World& world, std::shared_ptr<worker> machine, member self, bool keeps_own)
      : world_(world), machine_(std::move(machine)), self_(self), keeps_own_(keeps_own) {}
  worker_binding(const worker_binding&) = delete;
  worker_binding& operator=(const worker_binding&) = delete;

  /// A plan that is not newer than the last is ignored.
  void on(std::shared_ptr<const plan> msg) {
    if (newest_ && msg->epoch <= newest_->epoch)
      return;
    newest_ = msg;
    plans_.emplace(msg->epoch, msg);
    if (first_plan_ == plan_epoch{} && msg->has(self_))
      first_plan_ = msg->epoch;
    ask(*msg);
    for (const auto& hear : std::exchange(parked_, {}))
      hear();
  }

  /// A part of the parameters, from this shard. `head.parameters` is not looked at.
  template <class Part>
  void on(const params& head, holder_id from, const Part& part) {
    if (first_plan_ == plan_epoch{} || head.epoch > newest_->epoch) {
      if (parked_.size() < max_parked)
        parked_.emplace_back([this, head, from, part] { on(head, from, part); });
      return;
    }
    if (head.epoch < first_plan_)
      return;
    if (from == holder_id{0})
      heads_[head.key] = head;
    auto whole = world_.join(head, part);
    if (!whole)
      return;
    const auto named = heads_.find(head.key);
    if (named == heads_.end())
      return world_.broken("a set of parameters is complete without the lead shard's part");
    params msg = named->second;
    heads_.erase(heads_.begin(), std::next(named));
    const auto [known, fresh] = sets_.try_emplace(head.key, parameter_set{{}, msg.epoch});
    if (fresh) // else the same sending again
      known->second.parameters = store_.keep(std::move(*whole));
    msg.parameters = known->second.parameters;
    ask(msg);
  }

  /// A part of a peer's replica.
  template <class Part>
  void on(const peer_message& head, const Part& part) {
    if (auto whole = world_.join(head, part)) {
      peer_message msg = head;
      msg.data = store_.keep(std::move(*whole));
      ask(msg);
    }
  }

  /// What `World::begin` began is done; `gradient` where there is one.
  void on(computed msg, std::optional<tensor> gradient = {}) {
    msg.gradient = gradient ? store_.keep(*std::move(gradient)) : ticket{};
    ask(msg);
  }
  void on(const fetch_order& msg) { ask(msg); }
  /// What a push sent, where `World::send` was asked to keep it: the next mix may name it.
  void pushed(tensor sum) { pushed_sum_ = std::move(sum); }
  /// A peer is not sent to after all: its message comes back to the machine.
  void give_back(const send_peer& what) { ask(what.what); }

  const plan* newest() const { return newest_.get(); } ///< null before the first
  /// Its plan: of the adopted parameters, or the newest.
  const plan& work() const {
    const auto own = plans_.find(adopted_);
    return keeps_own_ || own == plans_.end() ? *newest_ : *own->second;
  }

private:
  /// Parts beyond that are dropped: a plan is not coming, and its round will send them again.
  static constexpr std::size_t max_parked = 4096;

  struct parameter_set {
    ticket parameters;
    plan_epoch epoch;
  };

  template <class Message>
  void ask(const Message& msg) {
    const worker_effects effects = machine_->on(msg);
    if (world_.checks())
      machine_->check();
    perform(effects);
    if (world_.checks())
      check();
  }

  void check() const {
    TROUPE_ASSERT(parked_.size() <= max_parked);
    TROUPE_ASSERT(first_plan_ == plan_epoch{} || (newest_ && first_plan_ <= newest_->epoch));
    TROUPE_ASSERT(plans_.empty() || plans_.rbegin()->first == newest_->epoch);
    TROUPE_ASSERT(in_use_ == ticket{} || store_.has(in_use_));
    for (const auto& [key, set] : sets_) // one that nobody has begun with is kept until it is
      TROUPE_ASSERT(set.parameters != ticket{} && set.epoch >= first_plan_);
  }

  void perform(const worker_effects& effects) {
    for (const worker_effect& effect : effects)
      std::visit([this](const auto& e) { perform(e); }, effect);
  }
  void perform(const compute& what) { world_.begin(what, work(), nullptr); }
  void perform(const local_step& what) { world_.begin(what.what, work(), &what); }
  void perform(const adopt& what) {
    while (!sets_.empty() && sets_.begin()->second.parameters != what.parameters) {
      store_.drop(sets_.begin()->second.parameters);
      sets_.erase(sets_.begin());
    }
    if (sets_.empty())
      return world_.broken("a worker adopts parameters that it does not have");
    adopted_ = sets_.begin()->second.epoch;
    plans_.erase(plans_.begin(), plans_.lower_bound(adopted_));
    world_.adopt(what.ver, store_.find(what.parameters));
    in_use_ = what.parameters;
  }
  void perform(const mix& what) {
    world_.mix(resolve(what.terms));
    pushed_sum_.reset();
  }
  void perform(const dual& what) { world_.dual(what.rho); }
  void perform(const discard& what) {
    if (!store_.drop(what.what))
      world_.broken("a worker discards a ticket that it does not have");
  }
  void perform(const send_push& what) {
    push msg = what.what;
    msg.gradient = {};
    operands<tensor> sum = msg.samples > 0 ? resolve(what.sum) : operands<tensor>{};
    auto gradient = store_.take(what.what.gradient);
    // Nobody computes with them any more, and the next step brings its own: their shard may write over them.
    if (const ticket used = std::exchange(in_use_, {}); used != ticket{}) {
      store_.drop(used);
      std::erase_if(sets_, [used](const auto& set) { return set.second.parameters == used; });
    }
    if (sum.empty())
      world_.send(msg, std::move(gradient));
    else
      world_.send(msg, std::move(sum), what.keep);
  }
  void perform(const send_peer& what) {
    if (what.to != evaluator && !world_.reaches(what.to))
      give_back(what);
    else
      world_.send(what);
  }

  operands<tensor> resolve(const std::vector<term>& terms) {
    using source = typename operand<tensor>::source;
    operands<tensor> out;
    for (const term& part : terms)
      if (part.what == own_parameters) {
        out.push_back({source::own, {}, part.weight});
      } else if (part.what == dual_variable) {
        out.push_back({source::dual, {}, part.weight});
      } else if (part.what == pushed_sum && pushed_sum_) {
        out.push_back({source::given, *pushed_sum_, part.weight});
      } else if (store_.has(part.what)) {
        out.push_back({source::given, store_.find(part.what), part.weight});
      } else {
        world_.broken("a worker uses a ticket that it does not have");
      }
    return out;
  }

  World& world_;
  std::shared_ptr<worker> machine_;
  member self_;
  bool keeps_own_;
  std::shared_ptr<const plan> newest_;
  plan_epoch first_plan_;                                   ///< with this life of it, that it has heard
  std::map<plan_epoch, std::shared_ptr<const plan>> plans_; ///< from that of the adopted parameters on
  std::deque<std::function<void()>> parked_;                ///< parts ahead of their plan
  std::map<std::uint64_t, params> heads_;                   ///< by key: the lead shard's word on what is coming in
  std::map<std::uint64_t, parameter_set> sets_;             ///< by key: the one in use and newer
  ticket_store<tensor> store_;
  plan_epoch adopted_; ///< of the parameters that it works with
  ticket in_use_;      ///< these, until they are pushed
  std::optional<tensor> pushed_sum_{};
};

} // namespace troupe::protocols
