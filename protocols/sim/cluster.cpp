// SPDX-License-Identifier: BSD-3-Clause
// Time, the network, faults, and the coordinator.
#include "protocols/sim/cluster.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/assert.hpp"
#include "protocols/sim/text.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

constexpr endpoint the_coordinator{role::coordinator};
constexpr endpoint the_evaluator{role::evaluator};

/// Whether it is made to carry a tensor, even an empty one.
bool carries_tensor(const message& what) {
  return std::holds_alternative<push_parcel>(what) || std::holds_alternative<params_parcel>(what)
         || std::holds_alternative<partial_parcel>(what);
}

template <class... Cases>
struct cases : Cases... {
  using Cases::operator()...;
};

nanoseconds to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

/// A shard's lead and its holder are one actor: what they send, and are sent, comes in one order.
endpoint actor_of(endpoint who) {
  return who.what == role::lead ? endpoint{role::holder, who.index} : who;
}

catalog_entry entry_of(const protocol_spec& spec) {
  auto found = find_protocol(spec.name);
  TROUPE_ASSERT(found);
  return *std::move(found);
}

coordinator_options first_plan_of(const options& job) {
  coordinator_options out = job.job;
  out.protocol = initial_protocol(job.protocol);
  out.period = initial_period(job.protocol);
  out.centreless = entry_of(job.protocol).centreless;
  return out;
}

} // namespace

double result::staleness_mean() const {
  double sum = 0, count = 0;
  for (const auto& [staleness, pushes] : staleness) {
    sum += static_cast<double>(staleness) * static_cast<double>(pushes);
    count += static_cast<double>(pushes);
  }
  return count > 0 ? sum / count : 0;
}

result simulate(const options& job, numerics& maths, std::span<listener* const> listeners) {
  return cluster{job, maths, listeners}.run();
}

cluster::cluster(const options& job, numerics& maths, std::span<listener* const> listeners)
    : options_(job), maths_(maths), listeners_(listeners.begin(), listeners.end()), protocol_(entry_of(job.protocol)),
      tree_(holder_tree(job.job.workers, job.job.shards, job.protocol.fan_in)), network_(job.inject.link),
      control_latency_(job.control_latency < 0 ? network_.latency() : job.control_latency), dice_(dice::keyed(job.seed, 0x5157)),
      timers_(clock_,
              [this](nanoseconds delay, endpoint of, timer_id timer, std::uint64_t generation) {
                queue_.push(now_ + delay, parcel{.from = of, .to = of, .what = expired{timer, 0}, .generation = generation});
              }),
      coordinator_(first_plan_of(job), protocol_.make_controller ? protocol_.make_controller(job.protocol) : nullptr) {
  place_roles();
  plan_faults();
}

void cluster::place_roles() {
  const bool flat = tree_.size() == options_.job.shards;
  const auto arrivals = flat && !protocol_.per_push ? options_.job.shards : 1;
  const std::uint32_t nodes = options_.nodes != 0 ? options_.nodes : options_.job.workers;
  const auto host_of_worker = [&](std::uint32_t worker) {
    if (!options_.colocated)
      return host_id{static_cast<std::uint32_t>(tree_.size()) + worker};
    return host_id{static_cast<std::uint32_t>(std::uint64_t{worker % options_.job.workers} * nodes / options_.job.workers)};
  };
  for (const holder_place& place : tree_) {
    auto at = std::make_unique<holder_seat>(place);
    const std::uint32_t number = place.self.value;
    at->host = {options_.colocated ? number % nodes : number};
    if (options_.colocated && !place.is_shard)
      at->host = host_of_worker(workers_below(tree_, place.self).begin()->value);
    if (place.is_shard)
      at->maths = maths_.make_shard(number, options_.job.shards);
    if (number == 0 || (protocol_.per_push && place.is_shard))
      at->decides = std::make_unique<lead>(protocol_.make_rule(options_.protocol, options_.seed), arrivals, protocol_.per_push);
    holders_.push_back(std::move(at));
  }
  std::uint32_t count = options_.job.workers;
  for (const late_join& late : options_.late_joins)
    count = std::max(count, late.worker.value + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto at = std::make_unique<worker_seat>();
    at->self = {{i}, {}};
    at->host = host_of_worker(i);
    for (const holder_place& place : tree_)
      if (flat || place.workers.contains({i}))
        at->targets.push_back(place.self);
    workers_.push_back(std::move(at));
  }
}

// -- time

result cluster::run() {
  for (std::uint32_t i = 0; i < options_.job.workers; ++i)
    join({i}, true);
  while (!ended_) {
    if (queue_.empty() || stalled() || (options_.max_events != 0 && result_.events >= options_.max_events)) {
      result_.stalled = result_.failed = true;
      result_.reason =
          fmt::format("no new version since {} s: waiting for {}", static_cast<double>(last_progress_) * 1e-9, waited_for());
      break;
    }
    step();
  }
  result_.virtual_time = clock_.at(now_);
  result_.steps = holders_.front()->decides->current().value;
  result_.samples = holders_.front()->decides->samples_applied();
  result_.period = coordinator_.current().period;
  result_.target_reached = coordinator_.target_reached();
  result_.time_to_target = result_.target_reached ? result_.virtual_time : 0;
  result_.digest = digest_.value();
  result out = result_;
  if (!listeners_.empty()) {
    const aftermath left = clear_up();
    for (listener* each : listeners_)
      each->finished(left);
  }
  return out;
}

void cluster::step() {
  auto [at, next] = queue_.pop();
  now_ = at;
  if (auto* fault = std::get_if<happening>(&next)) {
    if (!ended_)
      fault->what();
    return;
  }
  if (const auto* link = std::get_if<host_link>(&next))
    look_at(*link);
  else
    arrive(std::move(std::get<parcel>(next)));
}

void cluster::happens(nanoseconds at, std::function<void()> what) {
  queue_.push(std::max(at, now_), happening{std::move(what)});
}

bool cluster::stalled() const {
  return options_.stall_after != 0 && clock_.running() && queue_.next_time() - last_progress_ > options_.stall_after;
}

std::string cluster::waited_for() const {
  std::vector<std::string> out;
  if (!coordinator_.started())
    out.emplace_back("workers to join");
  for (const auto& at : holders_) {
    if (at->decides)
      for (const worker_id who : at->decides->waiting_for())
        out.push_back(fmt::format("worker {}{}", who.value,
                                  at->place.self.value == 0 ? "" : fmt::format(" (shard {})", at->place.self.value)));
    for (const holder_id who : at->machine.waiting_for())
      out.push_back(fmt::format("aggregator {} (holder {})", who.value, at->place.self.value));
  }
  if (!clock_.running())
    out.emplace_back("an evaluation");
  return out.empty() ? "nobody" : fmt::format("{}", fmt::join(out, ", "));
}

/// Lets what is under way come, so that what is left is what nobody will ever use.
aftermath cluster::clear_up() {
  const bool quiet = !clock_.running() || std::ranges::none_of(workers_, [](const auto& at) { return at->alive; });
  ended_ = true;
  if (quiet && !result_.stalled)
    for (std::uint64_t budget = 1'000'000; budget > 0 && !queue_.empty(); --budget)
      step();
  aftermath out{.drained = quiet && !result_.stalled && queue_.empty(), .parked = parked_at_lead_};
  for (const auto& at : holders_) {
    aftermath::holder_left left{
        .self = at->place.self, .alive = at->alive, .machine_keeps = at->machine.kept(), .retained = at->retained.size()};
    for (const auto& [name, kept] : at->kept)
      left.kept.push_back(kept.id);
    out.holders.push_back(std::move(left));
    if (at->decides)
      out.open.push_back(at->decides->open());
  }
  return out;
}

// -- the network

host_id cluster::host_of(endpoint who) const {
  switch (who.what) {
  case role::coordinator:
  case role::evaluator:
    return holders_.front()->host;
  case role::lead:
  case role::holder:
    return holders_.at(who.index)->host;
  case role::worker:
    return workers_.at(who.index)->host;
  }
  return {};
}

/// `ready`: when the sender has it, if that is later than now.
void cluster::send(endpoint from, endpoint to, message what, std::uint64_t bytes, nanoseconds ready) {
  parcel out{.from = from, .to = to, .what = std::move(what)};
  if (to.what == role::worker) {
    const worker_seat& at = seat({to.index});
    if (!at.alive)
      return;
    out.life = at.self.life;
  }
  nanoseconds at = std::max(ready, now_);
  const host_id here = host_of(from), there = host_of(to);
  const bool control = from.what == role::coordinator || to.what == role::coordinator;
  if (carries_tensor(out.what) && to.what != role::evaluator)
    at += options_.measured.message;
  if (here != there && bytes > 0) {
    result_.bytes += bytes;
    out.bytes = bytes;
    out.leaves = network_.limited();
    if (!out.leaves)
      at += network_.latency();
  } else if (here != there) {
    at += control ? control_latency_ : network_.latency();
  }
  if (const nanoseconds jitter = options_.tests.jitter; (jitter > 0 || reorder_ > 0) && from != to) {
    at += static_cast<nanoseconds>(dice_.below(static_cast<std::uint64_t>(jitter) + 1));
    if (reorder_ > 0 && dice_.hit(reorder_))
      at += late();
    nanoseconds& last = last_on_link_[{actor_of(from), actor_of(to)}];
    at = last = std::max(last, at);
  }
  queue_.push(at, std::move(out));
}

void cluster::arrive(parcel&& what) {
  if (what.lost)
    return;
  if (std::exchange(what.leaves, false))
    return transmit(std::move(what));
  if (waits_at_worker(what))
    return;
  if (loss_ > 0 && std::holds_alternative<peer_parcel>(what.what) && dice_.hit(loss_))
    return;
  const bool on_a_lane = what.from != what.to && std::ranges::none_of(std::array{what.from, what.to}, [](endpoint end) {
                           return end.what == role::coordinator || end.what == role::evaluator;
                         });
  if (on_a_lane && repeat_ > 0 && dice_.hit(repeat_))
    repeat(what);
  hear(what);
}

void cluster::transmit(parcel&& what) {
  const host_id from = host_of(what.from), to = host_of(what.to);
  network_.start(++last_transmission_, from, to, what.bytes, now_);
  transmitted_.emplace(last_transmission_, std::move(what));
  look_at({from, true});
  look_at({to, false});
}

/// What is through a link has its latency before it.
void cluster::look_at(host_link which) {
  for (const std::uint64_t id : network_.through(which, now_))
    queue_.push(now_ + network_.latency(), std::move(transmitted_.extract(id).mapped()));
  if (const auto next = network_.next_look(which))
    queue_.push(*next, which);
}

/// At a worker that is paused, or on one side or the other of a partition.
bool cluster::waits_at_worker(const parcel& what) {
  const auto park_at = [&what](worker_seat& at) {
    at.parked.push_back(what);
    return true;
  };
  if (what.from != what.to)
    for (const endpoint end : {what.from, what.to})
      if (end.what == role::worker && workers_.at(end.index)->partitions > 0)
        return park_at(*workers_.at(end.index));
  if (what.to.what == role::worker && workers_.at(what.to.index)->paused_until > now_)
    return park_at(*workers_.at(what.to.index));
  return false;
}

/// By how much what is late comes later.
nanoseconds cluster::late() const {
  return 10 * std::max(options_.tests.jitter, network_.latency());
}

/// A lane that is opened anew may carry again what it had carried: at once, or later, behind what was sent since.
void cluster::repeat(const parcel& what) {
  const bool may_be_late = std::holds_alternative<push_parcel>(what.what) || std::holds_alternative<arrival>(what.what)
                           || std::holds_alternative<params_parcel>(what.what);
  if (may_be_late && dice_.hit(0.5))
    queue_.push(now_ + static_cast<nanoseconds>(dice_.below(static_cast<std::uint64_t>(late()) + 1)), what);
  else
    hear(what);
}

void cluster::tell_listeners(endpoint from, endpoint to, const message& what) {
  for (listener* each : listeners_)
    each->heard(now_, from, to, what);
}

void cluster::hear(const parcel& what) {
  if (const auto* timer = std::get_if<expired>(&what.what)) {
    if (!timers_.fire(what.to, timer->timer, what.generation))
      return;
  } else if (what.to.what == role::worker) {
    const worker_seat& at = *workers_.at(what.to.index);
    const bool stale = std::holds_alternative<computed>(what.what) && what.generation != at.computation;
    if (!at.alive || at.self.life != what.life || stale)
      return;
  } else if (what.to.what == role::holder && !holders_.at(what.to.index)->alive) {
    return;
  }
  ++result_.events;
  digest_.add(static_cast<std::uint64_t>(now_));
  digest_.add(static_cast<std::uint64_t>(what.from.what) << 56 | std::uint64_t{what.from.index} << 28 | what.to.index);
  digest_.add(what.what);
  tell_listeners(what.from, what.to, what.what);
  switch (what.to.what) {
  case role::coordinator:
    return on_coordinator(what.what);
  case role::lead:
    return on_lead(*holders_.at(what.to.index), what.what);
  case role::holder:
    return on_holder(*holders_.at(what.to.index), what.what);
  case role::worker:
    return on_worker(*workers_.at(what.to.index), what.what);
  case role::evaluator:
    return on_evaluator(std::get<params_parcel>(what.what));
  }
}

/// Of what was under way from a dead role: all arrives, or, in tests, all but a random tail of each link. What was under way to
/// it is lost: who comes back has a new address.
void cluster::lose(const std::function<bool(endpoint)>& from, const std::function<bool(endpoint)>& to) {
  std::map<endpoint, std::vector<parcel*>> sent;
  const auto concerns = [&](parcel& under_way) {
    if (to(under_way.to))
      under_way.lost = true;
    else if (from(under_way.from))
      sent[actor_of(under_way.to)].push_back(&under_way);
  };
  for (event* each : queue_.pending())
    if (auto* under_way = std::get_if<parcel>(each))
      concerns(*under_way);
  for (auto& [id, under_way] : transmitted_) // behind what has left the links already
    concerns(under_way);
  if (!options_.tests.tail_loss)
    return;
  for (auto& [receiver, parcels] : sent)
    for (std::size_t i = dice_.below(parcels.size() + 1); i < parcels.size(); ++i)
      parcels[i]->lost = true;
}

// -- faults and membership

void cluster::plan_faults() {
  for (const fault_spec& fault : options_.inject.faults)
    switch (fault.what) {
    case fault_spec::kind::crash:
      happens(to_ns(fault.at_s), [this, who = fault.worker] { kill(who); });
      if (fault.back_after_s)
        happens(to_ns(fault.at_s + *fault.back_after_s), [this, who = fault.worker] { join(who, false); });
      break;
    case fault_spec::kind::pause:
      happens(to_ns(fault.at_s), [this, fault] { pause(fault.worker, to_ns(fault.for_s)); });
      break;
    case fault_spec::kind::partition:
      happens(to_ns(fault.at_s), [this, fault] { cut_off(fault.worker, to_ns(fault.for_s)); });
      break;
    case fault_spec::kind::reorder:
      reorder_ = fault.prob;
      break;
    case fault_spec::kind::repeat:
      repeat_ = fault.prob;
      break;
    case fault_spec::kind::loss:
      loss_ = fault.prob;
      break;
    }
  for (const late_join& late : options_.late_joins)
    happens(late.at, [this, who = late.worker] { join(who, false); });
  for (const aggregator_death& death : options_.aggregator_deaths)
    happens(death.at, [this, who = death.holder] { kill_aggregator(who); });
}

cluster::worker_seat& cluster::seat(worker_id who) {
  return *workers_.at(who.value);
}

/// `at_once`: it was there before the job began.
void cluster::join(worker_id who, bool at_once) {
  if (who.value >= workers_.size() || seat(who).alive)
    return;
  worker_seat& at = seat(who);
  if (at.machine)
    at.self.life = {at.self.life.value + 1};
  at.alive = true;
  at.machine = protocol_.make_worker(options_.protocol, at.self, options_.seed);
  at.maths = maths_.make_worker(at.self);
  at.first_plan = {};
  at.early.clear();
  at.incomplete.clear();
  at.parameters.clear();
  at.gradients.clear();
  at.adopted = {};
  at.pushed_at = -1;
  last_progress_ = now_;
  if (at_once)
    return on_coordinator(joined{at.self});
  note(fmt::format("worker {} joins", text_of(at.self)));
  send({role::worker, who.value}, the_coordinator, joined{at.self});
}

void cluster::kill(worker_id who) {
  if (who.value >= workers_.size() || !seat(who).alive)
    return;
  worker_seat& at = seat(who);
  const endpoint self{role::worker, who.value};
  at.alive = false;
  at.done_at = 0;
  ++at.computation;
  lose([self](endpoint from) { return from == self; }, [self](endpoint to) { return to == self; });
  std::erase_if(at.parked, [self](const parcel& what) { return what.to == self; });
  last_progress_ = now_;
  note(fmt::format("worker {} is gone", text_of(at.self)));
  send(self, the_coordinator, down{at.self, "it was killed"});
}

void cluster::kill_aggregator(holder_id who) {
  if (who.value >= holders_.size() || holders_[who.value]->place.is_shard || !std::exchange(holders_[who.value]->alive, false))
    return;
  const endpoint self{role::holder, who.value};
  lose([self](endpoint from) { return from == self; }, [self](endpoint to) { return to == self; });
  last_progress_ = now_;
  note(fmt::format("aggregator {} is gone", who.value));
  send(self, the_coordinator, holder_down{who, "it was killed"});
}

void cluster::pause(worker_id who, nanoseconds duration) {
  if (who.value >= workers_.size())
    return;
  worker_seat& at = seat(who);
  const nanoseconds until = std::max(at.paused_until, now_ + duration);
  if (at.done_at > 0) {
    at.done_at += until - std::max(at.paused_until, now_);
    const endpoint self{role::worker, who.value};
    queue_.push(at.done_at,
                parcel{.from = self, .to = self, .what = at.outcome, .life = at.self.life, .generation = ++at.computation});
  }
  at.paused_until = until;
  note(fmt::format("worker {} stands still for {} s", text_of(at.self), static_cast<double>(duration) * 1e-9));
  happens(until, [this, &at] { unpark(at); });
}

void cluster::cut_off(worker_id who, nanoseconds duration) {
  if (who.value >= workers_.size())
    return;
  worker_seat& at = seat(who);
  ++at.partitions;
  note(fmt::format("worker {} is cut off for {} s", text_of(at.self), static_cast<double>(duration) * 1e-9));
  happens(now_ + duration, [this, &at] {
    --at.partitions;
    unpark(at);
  });
}

void cluster::unpark(worker_seat& at) {
  last_progress_ = now_;
  for (parcel& each : std::exchange(at.parked, {}))
    arrive(std::move(each));
}

void cluster::note(std::string text) {
  result_.notes.push_back(fmt::format("{:.3f} s: {}", static_cast<double>(clock_.at(now_)) * 1e-9, text));
}

void cluster::broken(const std::string& what) {
  for (listener* each : listeners_)
    each->broken(what);
}

// -- the coordinator

void cluster::on_coordinator(const message& what) {
  std::visit(cases{
                 [this](const joined& m) { perform(coordinator_.on(m)); },
                 [this](const down& m) { perform(coordinator_.on(m)); },
                 [this](const holder_down& m) { perform(coordinator_.on(m)); },
                 [this](const held& m) { perform(coordinator_.on(m)); },
                 [this](const evaluated& m) { perform(coordinator_.on(m)); },
                 [this](const report& m) { perform(coordinator_.on(m)); },
                 [this](const expired& m) {
                   perform(coordinator_.on(expired{m.timer, clock_.at(now_)}));
                 },
                 [](const auto&) {},
             },
             what);
}

void cluster::tell_holders(const message& what) {
  for (const auto& at : holders_)
    send(the_coordinator, {role::holder, at->place.self.value}, what);
}

void cluster::perform(const coordinator_effects& effects) {
  const endpoint the_lead{role::lead, 0};
  for (const coordinator_effect& effect : effects)
    std::visit(cases{
                   [&](const send_plan& e) {
                     const auto shared = std::make_shared<const plan>(e.what);
                     plans_[e.what.epoch] = shared;
                     tell_holders(shared);
                     for (const auto& at : workers_)
                       send(the_coordinator, {role::worker, at->self.worker.value}, shared);
                   },
                   [&](const send_worker_down& e) {
                     tell_holders(e.what);
                     for (const auto& at : workers_)
                       if (protocol_.centreless)
                         send(the_coordinator, {role::worker, at->self.worker.value}, peer_down{e.what.worker});
                   },
                   [&](const send_holder_down& e) { tell_holders(e.what); },
                   [&](const hold& e) { send(the_coordinator, the_lead, e.what); },
                   [&](const evaluate&) { send(the_coordinator, the_lead, fetch_order{}); },
                   [&](const resume&) { send(the_coordinator, the_lead, resume_order{}); },
                   [&](const say& e) { note(e.text); },
                   [&](const stop& e) {
                     ended_ = true;
                     result_.failed = e.failed;
                     result_.reason = e.reason;
                     for (listener* each : listeners_)
                       each->stopped(now_, e);
                   },
                   [&](const arm_timer& e) { timers_.arm(the_coordinator, e, now_); },
               },
               effect);
}

/// Puts together what all shards have sent, and evaluates it in no time.
void cluster::on_evaluator(const params_parcel& what) {
  if (what.what.key <= evaluated_)
    return;
  incoming& set = fetched_[what.what.key];
  set.ranges.resize(options_.job.shards);
  set.ranges.at(what.from.value) = what.range;
  if (what.from.value == 0)
    set.head = what.what;
  if (!set.shards.insert(what.from.value).second || set.shards.size() < options_.job.shards)
    return;
  const tensor whole = maths_.join(set.ranges);
  const evaluation found = maths_.evaluate(whole);
  const nanoseconds at = clock_.at(now_);
  const version ver = set.head.ver;
  evaluated_ = what.what.key;
  fetched_.erase(fetched_.begin(), fetched_.upper_bound(evaluated_));
  if (!ended_)
    result_.curve.push_back({at, ver, samples_, found});
  send(the_evaluator, the_coordinator,
       evaluated{.ver = ver,
                 .train_loss = found.train_loss,
                 .test_loss = found.test_loss,
                 .test_accuracy = found.test_accuracy,
                 .at = at});
}

} // namespace troupe::protocols::sim
