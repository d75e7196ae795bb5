// SPDX-License-Identifier: BSD-3-Clause
// The glue between a worker's machine and its driver, without tensors. Both the actor and the simulator run it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/binding/ticket_store.hpp"
#include "protocols/worker.hpp"

namespace troupe::protocols {

/// One incarnation of one worker. Determines which parts make a set of parameters, under which plan a step is, and which tensor a
/// ticket names.
///
/// Parts of an epoch ahead of the newest plan are parked until that plan comes. Parts of an epoch before the first plan with this
/// incarnation were sent to an older one, by a shard that had not heard of its end. They are dropped: a key may be a clock, and a
/// restarted worker counts from 0.
///
/// World is the driver. All calls come on the thread of the binding's owner. It has:
///
///   using tensor = ...;                                         a handle, copied freely; a default one is none
///   std::optional<tensor> join(const params&, const Part&);     the whole set, once this part completes it
///   std::optional<tensor> join(const peer_message&, const Part&);  likewise a peer's replica
///   void adopt(version, const tensor&);                         the anchor, from now on
///   void save(version, const kept_replica&, operands<tensor>);  what it keeps, for the checkpoint of this version; the sum
///   void save_all(version, const worker_course&, const plan&);  parameters and optimizer's state, and where the job goes on
///   void begin(const compute&, const plan&, const local_step*); a gradient or, with the last, a step on the worker's own
///   void mix(const operands<tensor>&);                          own parameters = sum
///   void dual(double rho);                                      dual += rho (own - anchor)
///   void send(const push&, std::optional<tensor>);              to every holder; none: a trailer alone
///   void send(const push&, operands<tensor> sum, bool keep);    keep: give the sum to `pushed`
///   void push_again(std::optional<holder_id>);                  the pushes since the adopted version, to one holder or to all
///   bool reaches(worker_id);                                    whether a peer is there, and the way to it free
///   void send(const send_peer&);                                anything but a chunk
///   tensor send_chunk(const send_peer&, const tensor& of);      some segments; what `of` is then
///   tensor add_up(const tensor& to, const segment_range&, const operands<tensor>&);  what `to` is then; `own`: what is in place
///   void take_step(const protocols::take_step&, const tensor& sum);
///   void undo_steps();                                          those since the last of a version
///   void mix_common(const segment_range&, double own);          own parameters there = own times own + the rest times the newest
///   void take_state(version, const tensor&);                    as `join` had it from a peer
///   void refused(const std::string& why);                       what a peer has sent
///   void broken(const std::string&);                            the machine has named what is not there
///   bool checks();                                              whether the machine asserts its invariants after each message
template <class World>
class worker_binding {
public:
  using tensor = typename World::tensor;

  /// `keeps_own`: it holds the parameters itself and follows the newest plan; otherwise a round keeps the plan that it began
  /// with.
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

  /// A part of the parameters, from this shard. `head.parameters` is ignored.
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
    const auto [known, fresh] = sets_.try_emplace(head.key, parameter_set{{}, msg.epoch, msg.marked});
    if (fresh) // otherwise a repeated sending
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

  /// The computation that `World::begin` started is done; `gradient` if it has one.
  void on(computed msg, std::optional<tensor> gradient = {}) {
    msg.gradient = gradient ? store_.keep(*std::move(gradient)) : ticket{};
    ask(msg);
  }
  /// Likewise, while it goes on: a part of the gradient is there.
  void on(computed_partition msg, tensor gradient) {
    msg.gradient = store_.keep(std::move(gradient));
    ask(msg);
  }
  void on(const fetch_order& msg) { ask(msg); }
  void on(const hold_order& msg) { ask(msg); }
  void on(const checkpoint_order& msg) { ask(msg); }
  void on(const keep_order& msg) {
    if (machine_->saves_later(msg.ver))
      later_.insert(msg.ver);
    else
      save(msg.ver);
  }
  /// A push that is not in a version yet may be lost with the shard, or what its lead knew of it with the lead.
  void on(const takes_over& msg) { world_.push_again(msg.shard == holder_id{0} ? std::nullopt : std::optional{msg.shard}); }
  /// The tensor of a push that `World::send` was asked to keep: the next mix may name it.
  void pushed(tensor sum) { pushed_sum_ = std::move(sum); }
  /// The message was not sent to the peer: it comes back to the machine.
  void give_back(const send_peer& unsent) { ask(unsent.message); }

  const plan* newest() const { return newest_.get(); } ///< null before the first
  /// The plan of its work: that of the adopted parameters, or the newest.
  const plan& work() const {
    const auto own = plans_.find(adopted_);
    return keeps_own_ || own == plans_.end() ? *newest_ : *own->second;
  }

private:
  /// Parts beyond that are dropped: the plan is not coming, and its round will send them again.
  static constexpr std::size_t max_parked = 4096;
  /// Of older checkpoints nobody writes any more.
  static constexpr std::size_t max_saved = 64;

  struct parameter_set {
    ticket parameters;
    plan_epoch epoch;
    version marked;
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
    for (const auto& [key, set] : sets_) // a set is kept until work on a newer one begins
      TROUPE_ASSERT(set.parameters != ticket{} && set.epoch >= first_plan_);
  }

  void perform(const worker_effects& effects) {
    for (const worker_effect& effect : effects)
      std::visit([this](const auto& e) { perform(e); }, effect);
  }
  void perform(const compute& effect) { world_.begin(effect, work(), nullptr); }
  void perform(const local_step& effect) { world_.begin(effect.gradient, work(), &effect); }
  void perform(const adopt& effect) {
    while (!sets_.empty() && sets_.begin()->second.parameters != effect.parameters) {
      store_.drop(sets_.begin()->second.parameters);
      sets_.erase(sets_.begin());
    }
    if (sets_.empty())
      return world_.broken("a worker adopts parameters that it does not have");
    // Nothing has changed since the version that is marked, or since this worker joined, which was later.
    if (const version marked = sets_.begin()->second.marked;
        in_hand_ ? *in_hand_ < marked && marked <= effect.ver : marked == effect.ver)
      save(marked);
    in_hand_ = effect.ver;
    adopted_ = sets_.begin()->second.epoch;
    plans_.erase(plans_.begin(), plans_.lower_bound(adopted_));
    world_.adopt(effect.ver, store_.find(effect.parameters));
    in_use_ = effect.parameters;
  }
  void perform(const mix& effect) {
    world_.mix(resolve(effect.terms));
    pushed_sum_.reset();
  }
  void perform(const dual& effect) { world_.dual(effect.rho); }
  void perform(const discard& effect) {
    if (!store_.drop(effect.tensor))
      world_.broken("a worker discards a ticket that it does not have");
  }
  void perform(const send_push& effect) {
    push msg = effect.push;
    msg.gradient = {};
    operands<tensor> sum = msg.samples > 0 ? resolve(effect.sum) : operands<tensor>{};
    auto gradient = store_.take(effect.push.gradient);
    // The worker no longer computes with them, and the next step brings its own: their shard may overwrite them.
    if (const ticket used = std::exchange(in_use_, {}); used != ticket{}) {
      store_.drop(used);
      std::erase_if(sets_, [used](const auto& set) { return set.second.parameters == used; });
    }
    if (sum.empty())
      world_.send(msg, std::move(gradient));
    else
      world_.send(msg, std::move(sum), effect.keep);
  }
  void perform(const send_peer& effect) {
    using kind = peer_message::kind;
    if (const ticket of = effect.message.data; effect.message.is == kind::chunk)
      store_.replace(of, world_.send_chunk(effect, store_.find(of)));
    else if (effect.message.is == kind::replica && effect.to != evaluator && !world_.reaches(effect.to))
      give_back(effect);
    else
      world_.send(effect);
  }

  void perform(const add_up& effect) {
    operands<tensor> sum;
    for (const term& part : effect.sum)
      if (part.tensor == effect.to)
        sum.push_back({operand<tensor>::source::own, {}, part.weight});
      else
        sum.push_back({operand<tensor>::source::given, store_.find(part.tensor), part.weight});
    if (!store_.replace(effect.to, world_.add_up(store_.find(effect.to), effect.part, sum)))
      world_.broken("a worker adds to a ticket that it does not have");
  }
  void perform(const take_step& effect) {
    if (!store_.has(effect.sum.tensor))
      return world_.broken("a worker takes a step at a ticket that it does not have");
    world_.take_step(effect, store_.find(effect.sum.tensor));
    if (effect.last)
      store_.drop(effect.sum.tensor);
  }
  void perform(const undo_steps&) { world_.undo_steps(); }
  void perform(const mix_common& effect) { world_.mix_common(effect.part, effect.own); }
  void perform(const take_state& effect) {
    if (const auto state = store_.take(effect.from))
      world_.take_state(effect.ver, *state);
    else
      world_.broken("a worker takes a state that it does not have");
    // It does not make the versions up to this one any more.
    while (!later_.empty() && *later_.begin() <= effect.ver)
      save(later_.extract(later_.begin()).value());
  }

  void perform(const save_replica& effect) {
    save(effect.ver);
    if (effect.writes)
      world_.save_all(effect.ver, effect.course, work());
  }

  void perform(const refuse& effect) {
    perform(discard{effect.data});
    world_.refused(effect.why);
  }

  /// Once for each version. An order for an older one than the newest may still come: a shard took long to write its file.
  void save(version marked) {
    later_.erase(marked);
    if (!saved_.insert(marked).second)
      return;
    if (saved_.size() > max_saved)
      saved_.erase(saved_.begin());
    const kept_replica kept = machine_->kept();
    world_.save(marked, kept, resolve(kept.sum));
  }

  operands<tensor> resolve(const std::vector<term>& terms) {
    using source = typename operand<tensor>::source;
    operands<tensor> out;
    for (const term& part : terms)
      if (part.tensor == own_parameters) {
        out.push_back({source::own, {}, part.weight});
      } else if (part.tensor == dual_variable) {
        out.push_back({source::dual, {}, part.weight});
      } else if (part.tensor == pushed_sum && pushed_sum_) {
        out.push_back({source::given, *pushed_sum_, part.weight});
      } else if (store_.has(part.tensor)) {
        out.push_back({source::given, store_.find(part.tensor), part.weight});
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
  plan_epoch first_plan_;                                   ///< that it has heard with this incarnation
  std::map<plan_epoch, std::shared_ptr<const plan>> plans_; ///< from that of the adopted parameters on
  std::deque<std::function<void()>> parked_;                ///< parts ahead of their plan
  std::map<std::uint64_t, params> heads_;                   ///< by key: the lead shard's head of each incoming set
  std::map<std::uint64_t, parameter_set> sets_;             ///< by key: the one in use and newer
  ticket_store<tensor> store_;
  plan_epoch adopted_;               ///< of the parameters in use
  std::optional<version> in_hand_{}; ///< adopted last
  std::set<version> later_{};        ///< of checkpoints that wait for what it will keep then
  std::set<version> saved_{{}};      ///< of the checkpoints that have what this worker keeps; there is none of version 0
  ticket in_use_;                    ///< the adopted parameters, until they are pushed
  std::optional<tensor> pushed_sum_{};
};

} // namespace troupe::protocols
