// SPDX-License-Identifier: BSD-3-Clause
// What lies between the machines of a shard or an aggregator and the world, and is not a tensor. The actors and the simulator
// both run it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/binding/ticket_store.hpp"
#include "protocols/holder.hpp"
#include "protocols/lead.hpp"

namespace troupe::protocols {

/// A holder's machine and, where this shard decides, its lead. It decides who hears an order, in which order the two hear what
/// the coordinator says, when the job's clock stands still, and what a ticket names.
///
/// Shard 0's lead is the job's: its clock stands still from the version at which it holds, once that is made here, until it goes
/// on. Where each shard applies pushes alone every shard has a lead, whose orders are for its own holder.
///
/// World is the driver. All calls come on the thread of the binding's owner. It has:
///
///   using tensor = ...;                                     a handle, copied freely; a default one is none
///   nanoseconds now();                                      training time
///   void pause(); void go_on();                             the job's clock; called at the job's lead alone, and repeatedly
///   void arm(const arm_timer&);                             of the lead
///   void tell_lead(const arrival&);                         the job's lead, elsewhere
///   void tell_others(const Order&, nanoseconds head_start); every other holder; for how long it counts as under way already
///   void apply(const close&, operands<tensor>, std::optional<tensor> backup);  then send it, as the close says
///   void forward(const close&, operands<tensor>);           an aggregator's sum, to each parent
///   void serve(const send_order&);                          the newest parameters
///   tensor parameters();                                    of the newest version
///   void tell_coordinator(const report&);                   asked of every lead; only the job's is listened to
///   void broken(const std::string&);                        a machine or an order has named what is not there
///   bool checks();                                          whether the machines assert their invariants after each message
///
/// and, for whoever looks on: `tells_itself(message)`, what this shard's lead and holder tell each other;
/// `decided(lead_effects)`; `retains(count)`, parameters of older versions that are kept.
template <class World>
class holder_binding {
public:
  using tensor = typename World::tensor;

  /// Without a `lead` it is the job's lead who decides.
  holder_binding(World& world, holder_place place, std::shared_ptr<lead> decides = nullptr, bool per_push = false)
      : world_(world), self_(place.self), machine_(std::move(place)), lead_(std::move(decides)), per_push_(per_push) {}
  holder_binding(const holder_binding&) = delete;
  holder_binding& operator=(const holder_binding&) = delete;

  // -- from workers and children

  /// None where it brings no samples.
  void on(push msg, std::optional<tensor> gradient) {
    msg.gradient = gradient ? store_.keep(*std::move(gradient)) : ticket{};
    if (gradient)
      pushes_.emplace(msg.gradient, msg.id);
    msg.at = world_.now();
    ask(msg);
  }
  /// None where no push of this child counted.
  void on(partial msg, std::optional<tensor> sum) {
    msg.sum = sum ? store_.keep(*std::move(sum)) : ticket{};
    ask(msg);
  }

  // -- from the coordinator: a lead hears it after its holder

  void on(const plan& msg) { both(msg); }
  void on(const worker_down& msg) { both(msg); }
  void on(const holder_down& msg) { ask(msg); }

  // -- the lead's orders

  void on(const close& msg) { ask(msg); }
  void on(const send_order& msg) { ask(msg); }
  void on(const drop_order& msg) { ask(msg); }

  // -- to the lead: ignored where there is none

  void on(arrival msg) {
    msg.what.at = world_.now();
    ask_lead(msg);
  }
  void on(const hold_order& msg) { ask_lead(msg); }
  void on(const fetch_order& msg) { ask_lead(msg); }
  void on(const expired& msg) { ask_lead(msg); }
  /// Parameters that were held back are ordered as if the close had done so.
  void on(const resume_order& msg) {
    head_start_ = world_.now() - decided_at_;
    ask_lead(msg);
    head_start_ = 0;
  }

  const holder& machine() const { return machine_; }
  const lead* decides() const { return lead_.get(); } ///< null: elsewhere
  bool leads_job() const { return self_ == holder_id{0}; }
  /// Pushes whose tensors are kept, by ticket.
  const std::map<ticket, push_id>& pushes() const { return pushes_; }
  std::size_t retained() const { return retained_.size(); }

private:
  template <class Message>
  void both(const Message& msg) {
    ask(msg);
    ask_lead(msg);
  }
  template <class Message>
  void ask(const Message& msg) {
    const holder_effects effects = machine_.on(msg);
    if (world_.checks())
      machine_.check();
    perform(effects);
    if (world_.checks())
      check();
  }
  template <class Message>
  void ask_lead(const Message& msg) {
    if (!lead_)
      return;
    const lead_effects effects = lead_->on(msg);
    if (world_.checks())
      lead_->check();
    perform_as_lead(effects);
  }

  void check() const {
    for (const auto& [name, id] : pushes_)
      TROUPE_ASSERT(store_.has(name) && id.worker != evaluator);
    TROUPE_ASSERT(retained_.empty() || lead_); // only it asks for that
    TROUPE_ASSERT(decided_at_ <= world_.now());
  }

  // -- the holder's effects

  void perform(const holder_effects& effects) {
    for (const holder_effect& effect : effects)
      std::visit([this](const auto& e) { perform(e); }, effect);
  }
  void perform(const send_arrival& what) {
    if (!lead_)
      return world_.tell_lead(what.what);
    world_.tells_itself(what.what);
    on(what.what);
  }
  void perform(const apply_round& what) {
    std::optional<tensor> backup;
    if (const ticket name = what.round.compensate.backup; name != ticket{}) {
      if (const auto kept = retained_.find(name); kept != retained_.end())
        backup = kept->second;
      else
        world_.broken("a shard compensates with parameters that it does not keep");
    }
    world_.apply(what.round, take(what.sum, what.round.keep), std::move(backup));
  }
  void perform(const forward& what) { world_.forward(what.round, take(what.sum, what.round.keep)); }
  void perform(const serve& what) { world_.serve(what.what); }
  void perform(const discard& what) {
    if (!drop(what.what))
      world_.broken("a holder discards a ticket that it does not have");
  }
  void perform(const retain& what) {
    retained_[what.as] = world_.parameters();
    world_.retains(retained_.size());
  }
  void perform(const release& what) {
    if (retained_.erase(what.what) == 0)
      world_.broken("a holder releases a ticket that it does not have");
  }
  void perform(const report& what) {
    if (what.what == report::kind::note)
      return world_.broken(what.text);
    if (what.what == report::kind::held)
      world_.pause();
    world_.tell_coordinator(what);
  }

  // -- the lead's

  void perform_as_lead(const lead_effects& effects) {
    if (leads_job() && !lead_->held())
      world_.go_on();
    world_.decided(effects);
    for (const lead_effect& effect : effects)
      std::visit([this](const auto& e) { perform_as_lead(e); }, effect);
  }
  void perform_as_lead(const close& what) { order(what, !per_push_); }
  /// An evaluation takes every shard's parameters, whoever decides about them.
  void perform_as_lead(const send_order& what) { order(what, !per_push_ || std::ranges::count(what.to, evaluator) > 0); }
  void perform_as_lead(const drop_order& what) { order(what, !per_push_); }
  void perform_as_lead(const retain& what) { ask(what); }
  void perform_as_lead(const release& what) { ask(what); }
  void perform_as_lead(const arm_timer& what) { world_.arm(what); }
  /// What it holds goes behind the orders before it.
  void perform_as_lead(const report& what) {
    if (what.what != report::kind::held)
      return world_.tell_coordinator(what);
    decided_at_ = world_.now();
    ask(what);
  }

  /// Everyone else first: they work while this shard does.
  template <class Order>
  void order(const Order& what, bool everywhere) {
    if (everywhere)
      world_.tell_others(what, std::is_same_v<Order, send_order> ? head_start_ : 0);
    world_.tells_itself(what);
    ask(what);
  }

  // -- tickets

  bool drop(ticket name) {
    pushes_.erase(name);
    return store_.drop(name);
  }
  /// The terms of a sum, in their order. `keep`: a later close may name the pushes again; children's sums are for this one.
  operands<tensor> take(const std::vector<term>& sum, bool keep) {
    operands<tensor> out;
    for (const term& part : sum) {
      if (store_.has(part.what))
        out.push_back({.what = store_.find(part.what), .weight = part.weight});
      else
        world_.broken("a holder uses a ticket that it does not have");
      if (!keep || !pushes_.contains(part.what))
        drop(part.what);
    }
    return out;
  }

  World& world_;
  holder_id self_;
  holder machine_;
  std::shared_ptr<lead> lead_;
  bool per_push_;
  ticket_store<tensor> store_;
  std::map<ticket, push_id> pushes_; ///< of those; the others are children's sums
  std::map<ticket, tensor> retained_;
  nanoseconds decided_at_ = 0; ///< training time: when the lead decided on the version that it held last
  nanoseconds head_start_ = 0; ///< of orders that were held back: how long they would be under way
};

} // namespace troupe::protocols
