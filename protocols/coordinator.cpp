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
#include "protocols/tree.hpp"

namespace troupe::protocols {

namespace {

constexpr timer_id evaluation_timer_id{1};
constexpr timer_id stop_timer_id{2};
constexpr timer_id control_timer_id{3};

} // namespace

coordinator::coordinator(const coordinator_options& options, std::unique_ptr<controller> controls)
    : options_(options), controls_(std::move(controls)) {
  if (options_.evaluate_every_samples == 0 && options_.evaluate_every_ns == 0)
    options_.evaluate_every_samples = static_cast<std::uint64_t>(options_.data_size);
}

coordinator_effects coordinator::on(const joined& msg) {
  const member who = msg.who;
  const auto present = members_.find(who.worker);
  if (stopped_ || is_out(who) || (present != members_.end() && who.incarnation <= present->second))
    return {};
  coordinator_effects out;
  if (present != members_.end()) {
    last_down_[who.worker] = present->second;
    if (started())
      out.emplace_back(send_worker_down{{who.worker, present->second}});
  }
  members_[who.worker] = who.incarnation;
  counted_.erase(who.worker);
  if (started())
    out.emplace_back(next_plan());
  else if (members_.size() >= options_.workers)
    return start();
  return out;
}

coordinator_effects coordinator::on(const down& msg) {
  if (stopped_)
    return {};
  if (!started())
    return fail(fmt::format("worker {} was lost before the job began: {}", msg.who.worker.value, msg.reason));
  return lose({msg.who}, msg.reason);
}

coordinator_effects coordinator::on(const holder_down& msg) {
  if (stopped_)
    return {};
  if (msg.holder.value < options_.shards)
    return fail(fmt::format("shard {} was lost, and the parameters that it held with it: {}", msg.holder.value, msg.reason));
  if (!started())
    return fail(fmt::format("aggregator {} was lost before the job began: {}", msg.holder.value, msg.reason));
  const auto tree = holder_tree(options_.workers, options_.shards, options_.protocol.fan_in);
  std::vector<member> below;
  for (const worker_id worker : workers_below(tree, msg.holder)) {
    cut_off_.insert(worker);
    if (const auto present = members_.find(worker); present != members_.end())
      below.push_back({worker, present->second});
  }
  coordinator_effects out = lose(below, fmt::format("its aggregator {} was lost: {}", msg.holder.value, msg.reason));
  out.emplace_back(send_holder_down{msg});
  return out;
}

void coordinator::check() const {
  for (const auto& [worker, incarnation] : members_) {
    const auto last = last_down_.find(worker);
    TROUPE_ASSERT(last == last_down_.end() || incarnation > last->second);
    TROUPE_ASSERT(!cut_off_.contains(worker));
    TROUPE_ASSERT(!started() || stopped_ || plan_.has({worker, incarnation}));
  }
  TROUPE_ASSERT(!started() || stopped_ || plan_.workers.size() == members_.size());
}

coordinator_effects coordinator::on(const held& msg) {
  if (stopped_ || evaluating_)
    return {};
  evaluating_ = true;
  version_ = msg.ver;
  samples_ = msg.samples;
  return {evaluate{msg.ver}};
}

coordinator_effects coordinator::on(const evaluated& msg) {
  if (stopped_ || !evaluating_ || msg.ver != version_)
    return {};
  evaluating_ = false;
  const step_count more = unheard(msg.made);
  version_.value += more.steps;
  samples_ += more.samples;
  target_reached_ = options_.target_accuracy > 0 && msg.test_accuracy >= options_.target_accuracy;
  if (target_reached_ || at_the_end()) {
    stopped_ = true;
    return {stop{.failed = false, .reason = end_reason()}};
  }
  // The next limit first: once resumed, the lead may pass it at any time.
  coordinator_effects out{next_hold(), resume{}};
  if (options_.evaluate_every_ns > 0)
    out.emplace_back(evaluation_timer(msg.at));
  return out;
}

step_count coordinator::unheard(const std::vector<std::pair<member, step_count>>& made) const {
  step_count out;
  for (const auto& [who, all] : made)
    if (const auto member = members_.find(who.worker); member != members_.end() && member->second == who.incarnation) {
      const auto known = counted_.find(who.worker);
      const step_count counted = known == counted_.end() ? step_count{} : known->second;
      out.steps += all.steps - std::min(all.steps, counted.steps);
      out.samples += all.samples - std::min(all.samples, counted.samples);
    }
  return out;
}

coordinator_effects coordinator::on(const expired& msg) {
  if (stopped_ || !started())
    return {};
  if (msg.timer == control_timer_id && controls_) {
    coordinator_effects out = follow(controls_->on_interval(msg.at));
    out.emplace_back(arm_timer{control_timer_id, controls_->interval()});
    return out;
  }
  if (msg.timer == stop_timer_id)
    time_is_up_ = true;
  else if (msg.timer != evaluation_timer_id)
    return {};
  if (evaluating_)
    return {};
  hold out = next_hold();
  out.order.now = true;
  return {out};
}

coordinator_effects coordinator::on(const report& msg) {
  if (stopped_)
    return {};
  if (options_.decentralized && msg.event == report::kind::round_closed)
    for (const timing& step : msg.timings) {
      step_count& counted = counted_[step.worker];
      counted = {counted.steps + 1, counted.samples + static_cast<std::uint64_t>(step.samples)};
    }
  if (msg.event == report::kind::push_not_finite)
    ++pushes_without_update_;
  else if (msg.event != report::kind::round_closed)
    return {};
  else if (msg.contributions > 0)
    rounds_without_update_ = pushes_without_update_ = 0;
  else
    ++rounds_without_update_;
  if (rounds_without_update_ >= options_.max_rounds_without_update
      || pushes_without_update_ >= options_.max_rounds_without_update * std::max<std::size_t>(plan_.workers.size(), 1))
    return fail(fmt::format("training diverged: no gradient of the last {} was finite; a smaller learning rate may help",
                            rounds_without_update_ >= options_.max_rounds_without_update
                                ? fmt::format("{} rounds", rounds_without_update_)
                                : fmt::format("{} pushes", pushes_without_update_)));
  if (!controls_ || msg.event != report::kind::round_closed)
    return {};
  return follow(controls_->on(msg, options_.lr_scale * (options_.learning_rate ? options_.learning_rate(msg.samples) : 1)));
}

coordinator_effects coordinator::on(const decision& msg) {
  if (stopped_ || !started())
    return {};
  return follow(msg);
}

coordinator_effects coordinator::follow(const std::optional<decision>& decided) {
  if (!decided)
    return {};
  options_.period = decided->period.value_or(options_.period);
  options_.protocol = decided->protocol.value_or(options_.protocol);
  options_.lr_scale = decided->lr_scale.value_or(options_.lr_scale);
  return {say{decided->why}, next_plan()};
}

bool coordinator::is_out(member who) const {
  const auto last = last_down_.find(who.worker);
  const bool outside_tree = options_.protocol.fan_in != 0 && who.worker.value >= options_.workers;
  return outside_tree || cut_off_.contains(who.worker) || (last != last_down_.end() && who.incarnation <= last->second);
}

coordinator_effects coordinator::start() {
  coordinator_effects out;
  // The limit first: the plan makes workers run, and the limit may be at the first version.
  out.emplace_back(next_hold());
  out.emplace_back(next_plan());
  if (options_.evaluate_every_ns > 0)
    out.emplace_back(evaluation_timer(0));
  if (options_.stop_ns > 0)
    out.emplace_back(arm_timer{stop_timer_id, options_.stop_ns});
  if (controls_ && controls_->interval() > 0)
    out.emplace_back(arm_timer{control_timer_id, controls_->interval()});
  return out;
}

coordinator_effects coordinator::lose(std::vector<member> who, const std::string& reason) {
  coordinator_effects out;
  for (const member& gone : who) {
    incarnation& last = last_down_[gone.worker];
    last = std::max(last, gone.incarnation);
    const auto present = members_.find(gone.worker);
    if (present == members_.end() || present->second > gone.incarnation)
      continue;
    // An older incarnation is over too, though its end was not reported.
    out.emplace_back(send_worker_down{{gone.worker, present->second}});
    members_.erase(present);
    losses_.push_back(fmt::format("worker {} ({})", gone.worker.value, reason));
  }
  if (out.empty())
    return {};
  // The evaluation that ends the job needs no worker, unless the workers alone hold the parameters.
  if (members_.empty() && !(evaluating_ && at_the_end() && !options_.decentralized)) {
    coordinator_effects failed = fail(fmt::format("no workers are left: {}", fmt::join(losses_, ", ")));
    out.insert(out.end(), failed.begin(), failed.end());
  } else {
    out.emplace_back(next_plan());
    if (evaluating_ && options_.decentralized)
      out.emplace_back(evaluate{version_});
  }
  return out;
}

coordinator_effects coordinator::fail(std::string reason) {
  stopped_ = true;
  return {stop{.failed = true, .reason = std::move(reason)}};
}

send_plan coordinator::next_plan() {
  plan_.epoch = {plan_.epoch.value + 1};
  plan_.protocol = options_.protocol;
  plan_.period = options_.period;
  plan_.lr_scale = options_.lr_scale;
  plan_.batch = options_.batch;
  plan_.data_size = options_.data_size;
  plan_.workers.clear();
  for (const auto& [worker, incarnation] : members_)
    plan_.workers.push_back({worker, incarnation});
  if (controls_)
    controls_->on(plan_);
  return {plan_};
}

hold coordinator::next_hold() const {
  const std::uint64_t every = options_.evaluate_every_samples;
  const std::uint64_t evaluation = every == 0 ? 0 : (samples_ / every + 1) * every;
  const std::uint64_t end = stop_samples();
  const bool end_is_nearer = end != 0 && (evaluation == 0 || end < evaluation);
  return {{.at_samples = end_is_nearer ? end : evaluation, .at_version = options_.stop_steps}};
}

/// At multiples of the interval: a late evaluation does not delay those after it.
arm_timer coordinator::evaluation_timer(nanoseconds now) const {
  return {evaluation_timer_id, options_.evaluate_every_ns - now % options_.evaluate_every_ns};
}

std::uint64_t coordinator::stop_samples() const {
  constexpr double most = 1e18; // larger numbers do not fit into 64 bits
  const auto epochs =
      static_cast<std::uint64_t>(std::min(most, std::ceil(options_.stop_epochs * static_cast<double>(options_.data_size))));
  if (epochs == 0 || options_.stop_samples == 0)
    return std::max(epochs, options_.stop_samples);
  return std::min(epochs, options_.stop_samples);
}

bool coordinator::at_the_end() const {
  const std::uint64_t samples = stop_samples();
  return time_is_up_ || (samples != 0 && samples_ >= samples)
         || (options_.stop_steps != 0 && version_.value >= options_.stop_steps);
}

std::string coordinator::end_reason() const {
  if (target_reached_)
    return fmt::format("reached an accuracy of {}", options_.target_accuracy);
  if (options_.stop_steps != 0 && version_.value >= options_.stop_steps)
    return fmt::format("made {} steps", options_.stop_steps);
  if (const std::uint64_t samples = stop_samples(); samples != 0 && samples_ >= samples)
    return samples == options_.stop_samples
               ? fmt::format("used {} samples", samples)
               : fmt::format("trained for {} {}", options_.stop_epochs, options_.stop_epochs == 1 ? "epoch" : "epochs");
  return fmt::format("trained for {} s", static_cast<double>(options_.stop_ns) / 1e9);
}

} // namespace troupe::protocols
