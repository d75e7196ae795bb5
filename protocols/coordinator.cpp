// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: membership, evaluation points, the end.
#include "protocols/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols {

namespace {

constexpr timer_id evaluation_timer_id{1};
constexpr timer_id stop_timer_id{2};
constexpr timer_id control_timer_id{3};

} // namespace

std::map<holder_id, bool> backups_without(const tree_shape& shape, const std::set<holder_id>& gone) {
  std::map<holder_id, bool> out;
  for (const holder_place& place : holder_tree(shape))
    if (place.backup_of && !gone.contains(place.self))
      out.emplace(place.self, true);
  return out;
}

takes_over promotion(const tree_shape& shape, takes_over who, const std::map<holder_id, bool>& backups) {
  for (std::uint32_t each = 0; each < shape.shards; ++each)
    who.holders.insert({each});
  for (const auto& [backup, complete] : backups) {
    who.holders.insert(backup);
    if (shard_of(shape, backup) == who.shard)
      who.backups.push_back(backup);
  }
  return who;
}

coordinator::coordinator(const coordinator_options& options, std::unique_ptr<controller> controls)
    : coordinator(options, std::move(controls),
                  {.protocol = options.protocol,
                   .period = options.period,
                   .lr_scale = options.lr_scale,
                   .held = options.from.ver,
                   .samples = options.from.samples,
                   .memory = options.from.memory,
                   .partition_kib = options.partition_kib}) {
  state_.backups = backups_without(shape(), {});
}

coordinator::coordinator(const coordinator_options& options, std::unique_ptr<controller> controls, coordinator_state from)
    : options_(options), controls_(std::move(controls)), tuner_(options.search, std::exchange(from.tuning, {})),
      state_(std::move(from)) {
  if (options_.evaluate_every_samples == 0 && options_.evaluate_every_ns == 0)
    options_.evaluate_every_samples = static_cast<std::uint64_t>(options_.data_size);
  if (started())
    remind();
}

/// The controller learns the newest plan, and where that is its first, what it is to remember.
void coordinator::remind() {
  if (!controls_)
    return;
  controls_->on(state_.plan);
  if (const std::vector<double> memory = std::exchange(state_.memory, {}); !memory.empty())
    controls_->remember(memory);
}

coordinator_state coordinator::state() const {
  coordinator_state out = state_;
  if (controls_ && started())
    out.memory = controls_->memory();
  out.tuning = tuner_.state();
  return out;
}

coordinator_effects coordinator::on(const joined& msg) {
  const member who = msg.who;
  const auto present = state_.members.find(who.worker);
  if (state_.stopped || is_out(who) || (present != state_.members.end() && who.incarnation <= present->second))
    return {};
  coordinator_effects out;
  if (present != state_.members.end()) {
    state_.last_down[who.worker] = present->second;
    if (started())
      out.emplace_back(send_worker_down{{who.worker, present->second}});
  }
  state_.members[who.worker] = who.incarnation;
  state_.counted.erase(who.worker);
  if (started()) {
    out.emplace_back(next_plan());
    if (state_.evaluating && options_.same_replicas) // the plan's first worker is asked, and it may be another now
      out.emplace_back(evaluate{state_.held});
  } else if (state_.members.size() >= options_.workers) {
    return start();
  }
  return out;
}

coordinator_effects coordinator::on(const down& msg) {
  if (state_.stopped)
    return {};
  if (!started())
    return fail(fmt::format("worker {} was lost before the job began: {}", msg.who.worker.value, msg.reason));
  return lose(msg.who, msg.reason);
}

coordinator_effects coordinator::on(const holder_down& msg) {
  if (state_.stopped)
    return {};
  if (msg.holder.value < options_.shards)
    return replace(msg.holder, msg.reason);
  if (is_backup(msg.holder)) {
    if (const auto acts = state_.acting.find(shard_of(shape(), msg.holder));
        acts != state_.acting.end() && acts->second == msg.holder)
      return replace(acts->first, msg.reason);
    state_.backups.erase(msg.holder);
    return {send_holder_down{msg}};
  }
  if (!started())
    return fail(fmt::format("aggregator {} was lost before the job began: {}", msg.holder.value, msg.reason));
  return state_.gone.insert(msg.holder).second ? coordinator_effects{next_plan()} : coordinator_effects{};
}

/// It hears what the others know.
coordinator_effects coordinator::on(const new_backup& msg) {
  if (state_.stopped || !started() || !state_.backups.try_emplace(msg.holder, false).second)
    return {};
  coordinator_effects out;
  repeat_memberships(out);
  out.emplace_back(send_new_backup{msg});
  return out;
}

coordinator_effects coordinator::on(const caught_up& msg) {
  if (const auto known = state_.backups.find(msg.holder); known != state_.backups.end())
    known->second = true;
  return {};
}

/// The first backup that has all takes its place.
coordinator_effects coordinator::replace(holder_id shard, const std::string& reason) {
  const auto is_copy = [&](const auto& backup) { return shard_of(shape(), backup.first) == shard; };
  const auto heir = std::ranges::find_if(state_.backups, [&](const auto& backup) { return is_copy(backup) && backup.second; });
  if (heir == state_.backups.end())
    return fail(fmt::format("shard {} was lost, and the parameters that it held with it{}: {}", shard.value,
                            std::ranges::any_of(state_.backups, is_copy) ? ", for its new copy was not complete" : "", reason));
  const bool leads = shard == holder_id{0};
  state_.view += leads ? 1 : 0;
  const holder_id by = heir->first;
  state_.backups.erase(heir);
  state_.acting[shard] = by;
  coordinator_effects out{send_takes_over{promotion(shape(), {.shard = shard, .by = by, .view = state_.view}, state_.backups)}};
  if (leads && started())
    repeat_to_lead(out);
  return out;
}

/// Whatever a holder that is new may not have heard.
void coordinator::repeat_memberships(coordinator_effects& out) const {
  out.emplace_back(send_plan{state_.plan});
  for (const auto& [worker, last] : state_.last_down) // the open round may be of an older one
    for (incarnation life; life <= last; ++life.value)
      out.emplace_back(send_worker_down{{worker, life}});
}

/// Whatever the last lead may have heard alone.
void coordinator::repeat_to_lead(coordinator_effects& out) const {
  repeat_memberships(out);
  for (const auto& [backup, complete] : state_.backups)
    out.emplace_back(send_new_backup{{backup, shard_of(shape(), backup)}});
  out.emplace_back(hold{state_.ordered});
  if (state_.evaluating)
    out.emplace_back(evaluate{state_.held});
  else
    out.emplace_back(resume{{state_.held}});
}

hold coordinator::order(const hold& limit) {
  state_.ordered = limit.order;
  return limit;
}

void coordinator::check() const {
  if (controls_)
    controls_->check();
  tuner_.check();
  for (const auto& [worker, incarnation] : state_.members) {
    const auto last = state_.last_down.find(worker);
    TROUPE_ASSERT(last == state_.last_down.end() || incarnation > last->second);
    TROUPE_ASSERT(!started() || state_.stopped || state_.plan.has({worker, incarnation}));
  }
  TROUPE_ASSERT(!started() || state_.stopped || state_.plan.workers.size() == state_.members.size());
  TROUPE_ASSERT(state_.best <= state_.judged);
}

coordinator_effects coordinator::on(const held& msg) {
  // A lead that has taken over holds again where the last one held; to a coordinator that has, a report may come late, and
  // the lead may have gone on for the last one.
  const bool known = options_.decentralized ? state_.evaluating : msg.ver <= state_.held;
  if (state_.stopped || known)
    return {};
  state_.evaluating = true;
  state_.held = msg.ver;
  state_.samples = msg.samples;
  return {evaluate{msg.ver}};
}

coordinator_effects coordinator::on(const evaluated& msg) {
  if (state_.stopped || !state_.evaluating || (msg.ver != state_.held && !has_gone_on(msg.ver)))
    return {};
  state_.evaluating = false;
  if (has_gone_on(msg.ver))
    return {order(next_hold()), resume{{msg.ver}}};
  const step_count more = unheard(msg.made);
  state_.held.value += more.steps;
  state_.samples += more.samples;
  judge(msg, state_.held);
  state_.target_reached = options_.stop.target_accuracy > 0 && msg.test_accuracy >= options_.stop.target_accuracy;
  if (state_.target_reached || at_the_end() || is_out_of_patience()) {
    state_.stopped = true;
    return {stop{.failed = false, .reason = end_reason()}};
  }
  // The next limit first: once resumed, the lead may pass it at any time. A lead that holds later does not go on: to a
  // coordinator that has taken over, what was evaluated may be what the last one had evaluated, too.
  coordinator_effects out{order(next_hold()), resume{{msg.ver}}};
  if (options_.evaluate_every_ns > 0)
    out.emplace_back(evaluation_timer(msg.at));
  return out;
}

/// A loss that is no number is not lower. A version may be evaluated again, for a coordinator that takes over.
bool coordinator::judge(const evaluated& msg, version of) {
  if (options_.stop.patience == 0 || of <= state_.judged)
    return false;
  state_.judged = of;
  const bool lower = msg.loss() < state_.best_loss;
  if (lower) {
    state_.best = of;
    state_.best_loss = msg.loss();
  }
  state_.since_best = lower ? 0 : state_.since_best + 1;
  return lower;
}

step_count coordinator::unheard(const std::vector<std::pair<member, step_count>>& made) const {
  step_count out;
  if (options_.same_replicas) {
    const auto newest = [](step_count a, step_count b) { return a.steps < b.steps ? b : a; };
    const step_count held{state_.held.value, state_.samples};
    step_count known = held, all = held;
    for (const auto& [worker, reported] : state_.counted)
      known = newest(known, reported);
    for (const auto& [who, contained] : made)
      all = newest(all, contained);
    all = newest(known, all);
    return {all.steps - known.steps, all.samples - known.samples};
  }
  for (const auto& [who, all] : made)
    if (const auto member = state_.members.find(who.worker);
        member != state_.members.end() && member->second == who.incarnation) {
      const auto known = state_.counted.find(who.worker);
      const step_count counted = known == state_.counted.end() ? step_count{} : known->second;
      out.steps += all.steps - std::min(all.steps, counted.steps);
      out.samples += all.samples - std::min(all.samples, counted.samples);
    }
  return out;
}

coordinator_effects coordinator::on(const expired& msg) {
  if (state_.stopped || !started())
    return {};
  if (msg.timer == control_timer_id && controls_) {
    coordinator_effects out = follow(controls_->on_interval(msg.at));
    out.emplace_back(arm_timer{control_timer_id, controls_->interval()});
    return out;
  }
  if (msg.timer == stop_timer_id)
    state_.time_is_up = true;
  else if (msg.timer != evaluation_timer_id)
    return {};
  if (state_.evaluating)
    return {};
  hold out = next_hold();
  out.order.now = true;
  if (state_.time_is_up && options_.checkpoint_at_end)
    out.order.checkpoint = hold_order::saves::always;
  return {order(out)};
}

coordinator_effects coordinator::on(const report& msg) {
  if (state_.stopped)
    return {};
  if (options_.decentralized && msg.event == report::kind::round_closed)
    for (const timing& step : msg.timings) {
      step_count& counted = state_.counted[step.worker];
      counted = options_.same_replicas
                    ? step_count{msg.ver.value, msg.samples}
                    : step_count{counted.steps + 1, counted.samples + static_cast<std::uint64_t>(step.samples)};
    }
  if (msg.event == report::kind::lost)
    return fail(fmt::format("no worker has the parameters any more: {}", fmt::join(state_.losses, ", ")));
  if (msg.event == report::kind::push_not_finite)
    ++state_.pushes_without_update;
  else if (msg.event != report::kind::round_closed)
    return {};
  else if (msg.contributions > 0)
    state_.rounds_without_update = state_.pushes_without_update = 0;
  else
    ++state_.rounds_without_update;
  if (state_.rounds_without_update >= options_.max_rounds_without_update
      || state_.pushes_without_update
             >= options_.max_rounds_without_update * std::max<std::size_t>(state_.plan.workers.size(), 1))
    return fail(fmt::format("training diverged: no gradient of the last {} was finite; a smaller learning rate may help",
                            state_.rounds_without_update >= options_.max_rounds_without_update
                                ? fmt::format("{} rounds", state_.rounds_without_update)
                                : fmt::format("{} pushes", state_.pushes_without_update)));
  if (msg.event != report::kind::round_closed)
    return {};
  if (controls_)
    if (const auto decided =
            controls_->on(msg, state_.lr_scale * (options_.learning_rate ? options_.learning_rate(msg.samples) : 1)))
      return follow(decided);
  return try_partitions(msg);
}

/// A plan of the size that is there already would change nothing.
coordinator_effects coordinator::try_partitions(const report& closed) {
  const std::optional<decision> decided = tuner_.on(closed, state_.plan);
  if (decided && decided->partition_kib == state_.plan.partition_kib)
    return {say{decided->why}};
  return follow(decided);
}

coordinator_effects coordinator::on(const decision& msg) {
  if (state_.stopped || !started())
    return {};
  return follow(msg);
}

coordinator_effects coordinator::follow(const std::optional<decision>& decided) {
  if (!decided)
    return {};
  state_.period = decided->period.value_or(state_.period);
  state_.protocol = decided->protocol.value_or(state_.protocol);
  state_.lr_scale = decided->lr_scale.value_or(state_.lr_scale);
  state_.partition_kib = decided->partition_kib.value_or(state_.partition_kib);
  return {say{decided->why}, next_plan()};
}

bool coordinator::is_out(member who) const {
  const auto last = state_.last_down.find(who.worker);
  return last != state_.last_down.end() && who.incarnation <= last->second;
}

coordinator_effects coordinator::start() {
  coordinator_effects out;
  // The limit first: the plan makes workers run, and the limit may be at the first version.
  out.emplace_back(order(next_hold()));
  out.emplace_back(next_plan());
  arm_timers(out, options_.from.trained);
  return out;
}

void coordinator::arm_timers(coordinator_effects& out, nanoseconds trained) const {
  if (options_.evaluate_every_ns > 0)
    out.emplace_back(evaluation_timer(trained));
  if (options_.stop.seconds > 0)
    out.emplace_back(arm_timer{stop_timer_id, std::max<nanoseconds>(duration_of_s(options_.stop.seconds) - trained, 0)});
  if (controls_ && controls_->interval() > 0)
    out.emplace_back(arm_timer{control_timer_id, controls_->interval()});
}

coordinator_effects coordinator::take_office(const lead_report& said) {
  if (state_.stopped || !started())
    return {};
  coordinator_effects out;
  state_.ordered = next_hold().order;
  if (said.plans.empty()) // a lead that has heard of no plan begins with the first
    out.emplace_back(hold{state_.ordered});
  for (const plan& each : said.plans)
    if (each.epoch != plan_epoch{} && each.epoch < state_.plan.epoch)
      out.emplace_back(send_plan{each});
  out.emplace_back(send_plan{state_.plan});
  next_plan();
  repeat_to_lead(out);
  arm_timers(out, said.trained);
  return out;
}

coordinator_effects coordinator::lose(member who, const std::string& reason) {
  incarnation& last = state_.last_down[who.worker];
  last = std::max(last, who.incarnation);
  const auto present = state_.members.find(who.worker);
  if (present == state_.members.end() || present->second > who.incarnation)
    return {};
  // An older incarnation is over too, though its end was not reported.
  coordinator_effects out{send_worker_down{{who.worker, present->second}}};
  state_.members.erase(present);
  state_.losses.push_back(fmt::format("worker {} ({})", who.worker.value, reason));
  // The evaluation that ends the job needs no worker, unless the workers alone hold the parameters.
  if (state_.members.empty() && !(state_.evaluating && at_the_end() && !options_.decentralized)) {
    coordinator_effects failed = fail(fmt::format("no workers are left: {}", fmt::join(state_.losses, ", ")));
    out.insert(out.end(), failed.begin(), failed.end());
  } else {
    out.emplace_back(next_plan());
    if (state_.evaluating && options_.decentralized)
      out.emplace_back(evaluate{state_.held});
  }
  return out;
}

coordinator_effects coordinator::fail(std::string reason) {
  state_.stopped = true;
  return {stop{.failed = true, .reason = std::move(reason)}};
}

send_plan coordinator::next_plan() {
  const plan last = state_.plan;
  state_.plan.epoch = {state_.plan.epoch.value + 1};
  state_.plan.protocol = state_.protocol;
  state_.plan.period = state_.period;
  state_.plan.lr_scale = state_.lr_scale;
  state_.plan.partition_kib = state_.partition_kib;
  state_.plan.batch = options_.batch;
  state_.plan.data_size = options_.data_size;
  if (state_.plan.gone != state_.gone)
    state_.plan.rooted = state_.plan.epoch;
  state_.plan.gone = state_.gone;
  state_.plan.workers.clear();
  for (const auto& [worker, incarnation] : state_.members)
    state_.plan.workers.push_back({worker, incarnation});
  remind();
  tuner_.on(state_.plan, last);
  return {state_.plan};
}

hold coordinator::next_hold() const {
  const std::uint64_t every = options_.evaluate_every_samples;
  const std::uint64_t evaluation = every == 0 ? 0 : (state_.samples / every + 1) * every;
  const std::uint64_t end = stop_samples();
  const bool end_is_nearer = end != 0 && (evaluation == 0 || end < evaluation);
  using saves = hold_order::saves;
  // Whether an accuracy or a loss ends the job is known too late to keep what it had made.
  const bool may_end_here = (end != 0 && (evaluation == 0 || end <= evaluation)) || options_.stop.target_accuracy > 0
                            || (options_.stop.patience > 0 && state_.since_best + 1 >= options_.stop.patience);
  return {{.at_samples = end_is_nearer ? end : evaluation,
           .at_version = options_.stop.steps,
           .checkpoint = !options_.checkpoint_at_end ? saves::never
                         : may_end_here              ? saves::always
                                                     : saves::at_version}};
}

/// At multiples of the interval: a late evaluation does not delay those after it.
arm_timer coordinator::evaluation_timer(nanoseconds now) const {
  return {evaluation_timer_id, options_.evaluate_every_ns - now % options_.evaluate_every_ns};
}

std::uint64_t coordinator::stop_samples() const {
  constexpr double most = 1e18; // larger numbers do not fit into 64 bits
  const auto epochs =
      static_cast<std::uint64_t>(std::min(most, std::ceil(options_.stop.epochs * static_cast<double>(options_.data_size))));
  if (epochs == 0 || options_.stop.samples == 0)
    return std::max(epochs, options_.stop.samples);
  return std::min(epochs, options_.stop.samples);
}

bool coordinator::at_the_end() const {
  const std::uint64_t samples = stop_samples();
  return state_.time_is_up || (samples != 0 && state_.samples >= samples)
         || (options_.stop.steps != 0 && state_.held.value >= options_.stop.steps);
}

std::string coordinator::end_reason() const {
  if (state_.target_reached)
    return fmt::format("reached an accuracy of {}", options_.stop.target_accuracy);
  if (!at_the_end())
    return fmt::format("no lower loss than {:.6g}, of step {}, in {} evaluations", state_.best_loss, state_.best.value,
                       state_.since_best);
  if (options_.stop.steps != 0 && state_.held.value >= options_.stop.steps)
    return fmt::format("made {} steps", options_.stop.steps);
  if (const std::uint64_t samples = stop_samples(); samples != 0 && state_.samples >= samples)
    return samples == options_.stop.samples
               ? fmt::format("used {} samples", samples)
               : fmt::format("trained for {} {}", options_.stop.epochs, options_.stop.epochs == 1 ? "epoch" : "epochs");
  return fmt::format("trained for {} s", options_.stop.seconds);
}

} // namespace troupe::protocols
