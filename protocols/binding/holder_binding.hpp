// SPDX-License-Identifier: BSD-3-Clause
// The glue between the machines of a shard or an aggregator and their driver, without tensors. Both the actors and the simulator
// run it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/binding/ticket_store.hpp"
#include "protocols/holder.hpp"
#include "protocols/lead.hpp"
#include "protocols/lead_report.hpp"
#include "protocols/replicated_lead.hpp"

namespace troupe::protocols {

/// How a lead is made, and from what the job's first one begins.
struct lead_succession {
  replicated_lead::maker make;
  decision_record first{};
};

/// A holder's machine and, where this shard decides, its lead. Determines who gets an order, in which order the two hear the
/// coordinator, when the job's clock is paused, and which tensor a ticket names.
///
/// Shard 0's lead is the job's. The job's clock is paused from the version at which it holds, once that is made here, until it
/// resumes. Where each shard applies pushes alone, every shard has a lead, whose orders are for its own holder.
///
/// Where versions are made in two phases, the lead's orders go out in these (replicated_lead.hpp), and a backup of its shard
/// keeps what the next lead needs. What comes to it as the lead before it knows that it is the lead waits here.
///
/// World is the driver. All calls come on the thread of the binding's owner. It has:
///
///   using tensor = ...;                                     a handle, copied freely; a default one is none
///   nanoseconds now();                                      training time
///   void pause(); void go_on();                             the job's clock; called at the job's lead alone, and repeatedly
///   void arm(const arm_timer&);                             of the lead
///   void tell_lead(const arrival&); void tell_lead(const prepared&);  the job's lead, elsewhere
///   void tell_others(const Order&, nanoseconds head_start); every other holder; for how long it counts as under way already
///   void apply(const close&, operands<tensor>, std::optional<tensor> backup);  then send it, as the close says
///   void forward(const partial&, const std::optional<tensor>& sum, const std::vector<holder_id>& parents);
///                                                           an aggregator's sum; none: of nothing
///   std::optional<tensor> sum_up(const close&, operands<tensor>, const std::vector<holder_id>& backups);
///                                                           the sum, also to each backup; none: of nothing
///   void measure(const measured&, const tensor& sum);        fills in the squares, and answers with `on`
///   void tell_backups(const std::vector<holder_id>&, const decision_record&);  of the lead's shard
///   void ask_for_copy(holder_id shard, const copy_request&);  of this backup's shard
///   void send_copy(holder_id backup, shard_piece);            with that piece's tensor, and `memory`
///   void install(const shard_piece&, const tensor&);          a piece of this backup: part of each step from now on
///   void tell_coordinator(const caught_up&);
///   void serve(const send_order&);                          the newest parameters
///   void follow(const send_order&);                         this backup's shard serves them
///   tensor parameters();                                    of the newest version
///   void tell_coordinator(const report&);                   asked of every lead; only the job's is listened to
///   void broken(const std::string&);                        a machine or an order has named what is not there
///   bool checks();                                          whether the machines assert their invariants after each message
///
/// and for observers: `tells_itself(message)`, messages between this shard's lead and holder; `decided(lead_effects)`;
/// `retains(count)`, how many older versions are kept.
template <class World>
class holder_binding {
public:
  using tensor = typename World::tensor;

  /// Without a `lead`, the job's lead decides.
  holder_binding(World& world, holder_place place, std::shared_ptr<lead> decides = nullptr, bool per_push = false)
      : world_(world), self_(place.self), machine_(std::move(place)), lead_(std::move(decides)), per_push_(per_push) {}
  /// Where versions are made in two phases.
  holder_binding(World& world, holder_place place, lead_succession leads)
      : world_(world), self_(place.self), machine_(std::move(place)), per_push_(false), succession_(std::move(leads)) {
    if (leads_job())
      lead_with(succession_.first, 0);
  }
  holder_binding(const holder_binding&) = delete;
  holder_binding& operator=(const holder_binding&) = delete;

  // -- from workers and children

  /// No gradient if the push has no samples.
  void on(push msg, std::optional<tensor> gradient) {
    msg.gradient = gradient ? store_.keep(*std::move(gradient)) : ticket{};
    if (gradient)
      pushes_.emplace(msg.gradient, msg.id);
    msg.at = world_.now();
    ask(msg);
  }
  /// No sum if no push of this child counted.
  void on(partial msg, std::optional<tensor> sum) {
    msg.sum = sum ? store_.keep(*std::move(sum)) : ticket{};
    ask(msg);
  }
  /// A backup of the lead's shard keeps the newest.
  void on(decision_record msg) {
    if (machine_.place().backup_of != holder_id{0})
      return;
    for (const plan& each : std::exchange(msg.plans, {}))
      remember(each);
    if (msg.decision >= succession_.first.decision) // else it is from the lead before
      succession_.first = std::move(msg);
  }

  // -- from the coordinator: a lead hears it after its holder

  void on(const plan& msg) {
    reported_.on(msg);
    remember(msg);
    both(msg);
  }
  void on(const worker_down& msg) { both(msg); }
  void on(const holder_down& msg) {
    ask(msg);
    if (replicated_)
      lead_on(msg);
  }
  void on(const takes_over& msg) {
    const bool leads = msg.shard == holder_id{0} && msg.by == machine_.place().self;
    if (msg.by == machine_.place().self)
      self_ = msg.shard;
    if (leads) {
      succession_.first.holders = msg.holders; // the last lead may not have told of all
      lead_with(succession_.first, msg.view);
    }
    ask(msg);
    if (replicated_)
      lead_on(msg);
    if (replicated_) // else it may still become the lead, though another has become it now
      for (const auto& hear : std::exchange(early_, {}))
        hear();
  }

  /// To the lead.
  void on(const new_backup& msg) {
    if (replicated_)
      lead_on(msg);
  }

  // -- the driver's answer to `measure`

  void on(const measured& msg) { ask(msg); }

  // -- between a shard and a backup that catches up

  void on(const copy_request& msg) { ask(msg); }
  /// No data if it is the last piece.
  void on(shard_piece msg, std::optional<tensor> data) {
    msg.data = data ? store_.keep(*std::move(data)) : ticket{};
    ask(msg);
  }

  // -- the lead's orders

  void on(const admit_order& msg) { ask(msg); }
  void on(const close& msg) { ask(msg); }
  void on(const send_order& msg) { ask(msg); }
  void on(const drop_order& msg) { ask(msg); }
  void on(const commit_order& msg) { ask(msg); }

  // -- to the lead: ignored if there is none here

  void on(arrival msg) {
    msg.push.at = world_.now();
    if (!lead_ && machine_.place().backup_of == holder_id{0})
      early_.emplace_back([this, msg] { ask_lead(msg); });
    else
      ask_lead(msg);
  }
  void on(const prepared& msg) {
    if (replicated_)
      lead_on(msg);
    else if (machine_.place().backup_of == holder_id{0})
      early_.emplace_back([this, msg] { lead_on(msg); });
  }
  void on(const hold_order& msg) { ask_lead(msg); }
  void on(const fetch_order& msg) { ask_lead(msg); }
  void on(const checkpoint_order& msg) { ask_lead(msg); }
  void on(const expired& msg) { ask_lead(msg); }
  /// Orders for parameters that were held back count as sent with the close.
  void on(const resume_order& msg) {
    head_start_ = world_.now() - decided_at_;
    ask_lead(msg);
    head_start_ = 0;
  }

  // -- another machine takes the place of one, between messages

  void replace(holder_state state) { machine_ = holder{machine_.place(), std::move(state)}; }
  void replace(std::shared_ptr<lead> decides) { lead_ = std::move(decides); }
  void replace(replicated_lead_state state) {
    replicated_ = std::make_unique<replicated_lead>(succession_.make, std::move(state));
    lead_ = replicated_->decides();
  }

  const holder& machine() const { return machine_; }
  const lead* decides() const { return lead_.get(); } ///< null: elsewhere
  /// Null: elsewhere, or versions are made in one phase.
  const replicated_lead* replicated() const { return replicated_.get(); }
  bool leads_job() const { return self_ == holder_id{0}; }
  /// Of the job's lead, for a coordinator that takes over: of what is committed. A backup of its shard tells what the lead had
  /// told it. None: neither is here.
  std::optional<lead_report> report_to_next() const {
    const bool backup = !lead_ && machine_.place().backup_of == holder_id{0};
    if (!backup && !(lead_ && leads_job()))
      return {};
    const bool proposed = backup || (replicated_ && !replicated_->waiting_for().empty());
    const lead_state state = backup ? succession_.first.from : proposed ? replicated_->record().from : lead_->state();
    return lead_report{.plans = plans_,
                       .made = state.made,
                       .samples = state.samples_applied,
                       .held = state.held && !proposed, // nothing is proposed while the job is held
                       .trained = world_.now(),
                       .counted = reported_.counted()};
  }
  /// Pushes whose tensors are kept, by ticket.
  const std::map<ticket, push_id>& pushes() const { return pushes_; }
  std::size_t retained() const { return retained_.size(); }

private:
  /// For whoever has missed one.
  void remember(const plan& msg) {
    const auto at = std::ranges::lower_bound(plans_, msg.epoch, {}, &plan::epoch);
    if (at == plans_.end() || at->epoch != msg.epoch)
      plans_.insert(at, msg);
    if (plans_.size() > most_plans)
      plans_.erase(std::next(plans_.begin(), plans_.front().epoch == in_use_ ? 1 : 0));
  }
  static bool evaluates(const send_order& msg) { return std::ranges::count(msg.to, evaluator) > 0; }
  void note_use(const close& msg) { in_use_ = msg.send_to.empty() ? in_use_ : msg.send_epoch; }
  void note_use(const send_order& msg) { in_use_ = evaluates(msg) ? in_use_ : msg.epoch; }
  template <class Message>
  void note_use(const Message&) {}

  template <class Message>
  void both(const Message& msg) {
    ask(msg);
    ask_lead(msg);
  }
  template <class Message>
  void ask(const Message& msg) {
    note_use(msg);
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
    if (replicated_)
      return lead_on(lead_input{msg});
    const lead_effects effects = lead_->on(msg);
    if (world_.checks())
      lead_->check();
    perform_as_lead(effects);
  }

  void lead_with(decision_record from, std::uint64_t view) {
    replicated_ = std::make_unique<replicated_lead>(succession_.make, std::move(from), view);
    lead_ = replicated_->decides();
  }
  template <class Message>
  void lead_on(const Message& msg) {
    for (std::optional<lead_effects> effects = replicated_->on(msg); effects; effects = replicated_->next()) {
      lead_ = replicated_->decides();
      if (world_.checks())
        replicated_->check();
      perform_as_lead(*effects);
    }
  }

  void check() const {
    for (const auto& [name, id] : pushes_)
      TROUPE_ASSERT(store_.has(name) && id.worker != evaluator);
    TROUPE_ASSERT(retained_.empty() || lead_); // only the lead asks for it
    TROUPE_ASSERT(decided_at_ <= world_.now());
  }

  // -- the holder's effects

  void perform(const holder_effects& effects) {
    for (const holder_effect& effect : effects)
      std::visit([this](const auto& e) { perform(e); }, effect);
  }
  void perform(const send_arrival& effect) {
    if (!lead_)
      return world_.tell_lead(effect.arrival);
    world_.tells_itself(effect.arrival);
    on(effect.arrival);
  }
  void perform(const apply_round& effect) {
    std::optional<tensor> backup;
    if (const ticket name = effect.round.compensate.backup; name != ticket{}) {
      if (const auto kept = retained_.find(name); kept != retained_.end())
        backup = kept->second;
      else
        world_.broken("a shard compensates with parameters that it does not keep");
    }
    world_.apply(effect.round, take(effect.sum, effect.round.keep), std::move(backup));
  }
  void perform(const forward& effect) {
    std::optional<tensor> sum;
    if (effect.sum != ticket{} && store_.has(effect.sum))
      sum = store_.find(effect.sum);
    world_.forward({.from = self_, .ver = effect.ver, .decision = effect.decision}, sum, effect.to);
  }
  void perform(const serve& effect) { world_.serve(effect.order); }
  void perform(const follow& effect) { world_.follow(effect.order); }
  void perform(const discard& effect) {
    if (!drop(effect.tensor))
      world_.broken("a holder discards a ticket that it does not have");
  }
  void perform(const retain& effect) {
    retained_[effect.as] = world_.parameters();
    world_.retains(retained_.size());
  }
  void perform(const release& effect) {
    if (retained_.erase(effect.tensor) == 0)
      world_.broken("a holder releases a ticket that it does not have");
  }
  void perform(const sum_up& effect) {
    auto sum = world_.sum_up(effect.round, take(effect.sum, true), effect.backups);
    ask(summed{effect.round.ver, effect.round.decision, sum ? store_.keep(*std::move(sum)) : ticket{}});
  }
  void perform(const measure& effect) {
    if (store_.has(effect.sum))
      world_.measure({effect.ver, effect.decision, {}}, store_.find(effect.sum));
    else
      world_.broken("a shard measures a ticket that it does not have");
  }
  void perform(const send_prepared& effect) { lead_ ? on(effect.prepared) : world_.tell_lead(effect.prepared); }
  void perform(const ask_for_copy& effect) { world_.ask_for_copy(effect.shard, effect.request); }
  void perform(const send_copy& effect) { world_.send_copy(effect.to, effect.part); }
  void perform(const install& effect) {
    if (store_.has(effect.part.data))
      world_.install(effect.part, store_.find(effect.part.data));
    else
      world_.broken("a backup installs a ticket that it does not have");
    drop(effect.part.data);
  }
  void perform(const send_caught_up& effect) { world_.tell_coordinator(effect.notice); }
  void perform(const report& effect) {
    if (effect.event == report::kind::note)
      return world_.broken(effect.text);
    if (effect.event == report::kind::held)
      world_.pause();
    world_.tell_coordinator(effect);
  }

  // -- the lead's

  void perform_as_lead(const lead_effects& effects) {
    if (leads_job() && !lead_->held())
      world_.go_on();
    tell_observers(effects);
    for (const lead_effect& effect : effects)
      std::visit([this](const auto& e) { perform_as_lead(e); }, effect);
  }
  /// A proposal is decided when it is committed.
  void tell_observers(const lead_effects& effects) {
    if (!replicated_)
      return world_.decided(effects);
    lead_effects decided;
    for (const lead_effect& effect : effects)
      if (const auto* order = std::get_if<commit_order>(&effect); order != nullptr && !order->abandoned)
        decided.emplace_back(replicated_->committed());
      else if (order == nullptr && !std::holds_alternative<close>(effect))
        decided.push_back(effect);
    if (!decided.empty() && !replicated_->repeats())
      world_.decided(decided);
  }
  void perform_as_lead(const close& msg) {
    if (replicated_ && !machine_.place().backups.empty())
      world_.tell_backups(machine_.place().backups, replicated_->record());
    order(msg, !per_push_);
  }
  void perform_as_lead(const commit_order& msg) { order(msg, true); }
  /// Whoever takes the lead's place knows of the new one, and the new one of what is decided.
  void perform_as_lead(const admit_order& msg) {
    order(msg, true);
    if (msg.shard != holder_id{0})
      return;
    decision_record now = replicated_->newest_record();
    now.plans = plans_;
    world_.tell_backups(machine_.place().backups, now);
  }
  /// An evaluation needs every shard's parameters, even where each shard decides alone.
  void perform_as_lead(const send_order& msg) { order(msg, !per_push_ || evaluates(msg)); }
  void perform_as_lead(const drop_order& msg) { order(msg, !per_push_); }
  void perform_as_lead(const retain& effect) { ask(effect); }
  void perform_as_lead(const release& effect) { ask(effect); }
  void perform_as_lead(const arm_timer& effect) { world_.arm(effect); }
  /// A hold is queued behind the orders before it.
  void perform_as_lead(const report& effect) {
    reported_.on(effect);
    if (effect.event != report::kind::held)
      return world_.tell_coordinator(effect);
    decided_at_ = world_.now();
    ask(effect);
  }

  /// The others first: they then work in parallel with this shard.
  template <class Order>
  void order(const Order& msg, bool everywhere) {
    if (everywhere)
      world_.tell_others(msg, std::is_same_v<Order, send_order> ? head_start_ : 0);
    world_.tells_itself(msg);
    ask(msg);
  }

  // -- tickets

  bool drop(ticket name) {
    pushes_.erase(name);
    return store_.drop(name);
  }
  /// The terms of a sum, in order. `keep`: a later close may name the pushes again; children's sums are used once.
  operands<tensor> take(const std::vector<term>& sum, bool keep) {
    operands<tensor> out;
    for (const term& part : sum) {
      if (store_.has(part.tensor))
        out.push_back({.tensor = store_.find(part.tensor), .weight = part.weight});
      else
        world_.broken("a holder uses a ticket that it does not have");
      if (!keep || !pushes_.contains(part.tensor))
        drop(part.tensor);
    }
    return out;
  }

  World& world_;
  holder_id self_;
  holder machine_;
  std::shared_ptr<lead> lead_;
  bool per_push_;
  lead_succession succession_;
  std::unique_ptr<replicated_lead> replicated_;
  std::vector<std::function<void()>> early_; ///< for the lead, before this shard knows that it is the lead's
  reported_steps reported_;
  std::vector<plan> plans_; ///< the last, and that under which workers were sent parameters last
  plan_epoch in_use_{};     ///< of that one
  ticket_store<tensor> store_;
  std::map<ticket, push_id> pushes_; ///< those in the store; its other tensors are children's sums
  std::map<ticket, tensor> retained_;
  nanoseconds decided_at_ = 0; ///< training time at which the lead decided on the version that it last held
  nanoseconds head_start_ = 0; ///< of orders that were held back: how long they would have been under way
};

} // namespace troupe::protocols
