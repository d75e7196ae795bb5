// SPDX-License-Identifier: BSD-3-Clause
// Who is where, and what happens next.
#include "protocols/sim/cluster.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"
#include "protocols/tree.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::protocols::sim {

namespace {

protocol entry_of(const options& job) {
  auto found = find_protocol(job.protocol.name, job.added);
  TROUPE_ASSERT(found);
  return *std::move(found);
}

coordinator_options first_plan_of(const options& job) {
  coordinator_options out = job.job;
  out.protocol = initial_protocol(job.protocol, job.added);
  out.period = initial_period(out.protocol, job.added);
  out.decentralized = entry_of(job).decentralized;
  out.same_replicas = static_cast<bool>(entry_of(job).reduces);
  return out;
}

tree_shape shape_of(const options& job) {
  const bool clips = job.clips && entry_of(job).sums_gradients(job.protocol);
  return {job.job.workers, job.job.shards, job.protocol.fan_in, job.job.replicas, clips, job.blocks};
}

/// Pushes about which a lead that holds has heard what it has not looked at yet.
void add_undecided(std::set<push_id>& out, const replicated_lead& waits) {
  for (const lead_input& msg : waits.parked())
    if (const auto* come = std::get_if<arrival>(&msg))
      out.insert(come->push.id);
    else if (const auto* gone = std::get_if<worker_down>(&msg))
      for (const auto& [id, push] : waits.decides()->state().open)
        if (id.worker == gone->worker)
          out.insert(id);
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
    : options_(job), maths_(maths), listeners_(listeners.begin(), listeners.end()), checks_(debug_build || !listeners.empty()),
      protocol_(entry_of(job)), shape_(shape_of(job)), tree_(holder_tree(shape_)), network_(job.inject.link),
      control_latency_(job.control_latency < 0 ? network_.latency() : job.control_latency),
      dice_(random_stream::keyed(job.seed, 0x5157)), hops_(random_stream::keyed(job.seed, 0x409)),
      coordinator_(std::make_unique<coordinator_role>(*this, coordinator{coordinator_options_now(), make_controller()})),
      evaluator_(std::make_unique<evaluator_role>(*this)), holders_(std::make_unique<roster>(*this)) {
  place_roles();
  plan_faults();
}

cluster::~cluster() = default;

training_timers cluster::timers_of(endpoint who) {
  return {clock_, [this, who](timer_id timer, nanoseconds delay) {
            queue_.push(now_ + delay, envelope{.from = who, .to = who, .content = expired{timer, 0}});
          }};
}

std::unique_ptr<controller> cluster::make_controller() const {
  return protocol_.make_controller ? protocol_.make_controller(options_.protocol) : nullptr;
}

coordinator_options cluster::coordinator_options_now() const {
  return first_plan_of(options_);
}

std::shared_ptr<lead> cluster::make_lead(lead_state from) const {
  return std::make_shared<lead>(protocol_.make_rule(options_.protocol, options_.seed), shape_, protocol_.per_push,
                                std::move(from));
}

void cluster::place_roles() {
  const std::uint32_t nodes = options_.nodes != 0 ? options_.nodes : options_.job.workers;
  const auto host_of_worker = [&](std::uint32_t worker) {
    if (!options_.colocated)
      return host_id{static_cast<std::uint32_t>(tree_.size()) + block_of(shape_.blocks, {worker}).value_or(worker)};
    return host_id{static_cast<std::uint32_t>(std::uint64_t{worker % options_.job.workers} * nodes / options_.job.workers)};
  };
  for (const holder_place& place : tree_) {
    if (is_vacant(place))
      continue;
    const std::uint32_t number = place.self.value;
    const std::uint32_t turn = number % options_.job.shards + (place.backup_of ? number / options_.job.shards : 0);
    host_id host{options_.colocated ? turn % nodes : number};
    if ((options_.colocated || !shape_.blocks.empty()) && !place.is_shard)
      host = host_of_worker(workers_below(tree_, place.self).begin()->value);
    holders_->add(place, host);
  }
  host_of_coordinator_ = holders_->at(0).host;
  std::uint32_t count = options_.job.workers;
  for (const late_join& late : options_.late_joins)
    count = std::max(count, late.worker.value + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<worker_role>(*this, member{{i}, {}}, host_of_worker(i)));
  }
}

// -- time

result cluster::run() {
  TROUPE_ASSERT(!clock_.running() && now_ == 0);
  clock_.resume();
  for (std::uint32_t i = 0; i < options_.job.workers; ++i)
    join({i}, true);
  while (!ended_) {
    if (options_.interrupted && options_.interrupted()) {
      result_.interrupted = true;
      break;
    }
    if (auto reason = why_stuck(); !reason.empty()) {
      result_.stalled = result_.failed = true;
      result_.reason = std::move(reason);
      break;
    }
    step();
  }
  result_.virtual_time = clock_.now();
  version made;
  if (const replicated_lead* leads = holders_->at(0).bound.replicated()) {
    made = committed_.empty() ? version{} : committed_.rbegin()->first;
    result_.samples = leads->record().from.samples_applied;
  } else if (const lead* counts = holders_->at(0).bound.decides()) {
    made = counts->current();
    result_.samples = counts->samples_applied();
  }
  result_.steps = std::max(made, coordinator_->machine.held_version()).value;
  result_.samples = std::max(result_.samples, coordinator_->machine.held_samples());
  if (protocol_.decentralized)
    result_.gradients += result_.steps - made.value; // of which the lead has not heard
  result_.period = coordinator_->machine.current().period;
  result_.partition_kib = coordinator_->machine.current().partition_kib;
  result_.target_reached = coordinator_->machine.target_reached();
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
  TROUPE_ASSERT(at >= now_);
  events_at_rest_ = at > now_ ? 0 : events_at_rest_ + 1;
  now_ = at;
  if (auto* event = std::get_if<scheduled_event>(&next)) {
    if (!ended_)
      event->action();
    return;
  }
  if (const auto* link = std::get_if<host_link>(&next))
    look_at(*link);
  else
    arrive(std::move(std::get<envelope>(next)));
  if (options_.tests.hop > 0)
    hop();
}

/// Machines are what they say that they are: nothing of one is outside its state.
void cluster::hop() {
  const auto copy_of = []<class State>(const State& state) {
    const std::vector<std::uint64_t> words = wire::encode_state(state);
    State out = wire::decode_state<State>(words).value();
    TROUPE_ASSERT(wire::encode_state(out) == words); // a loss may be NaN, which is unlike itself
    return out;
  };
  if (hops_.hit(options_.tests.hop))
    coordinator_->machine = {coordinator_options_now(), make_controller(), copy_of(coordinator_->machine.state())};
  for (holder_role* at : holders_->here()) {
    if (hops_.hit(options_.tests.hop))
      at->bound.replace(copy_of(at->bound.machine().state()));
    if (at->bound.decides() == nullptr || !hops_.hit(options_.tests.hop))
      continue;
    if (const replicated_lead* leads = at->bound.replicated())
      at->bound.replace(copy_of(leads->state()));
    else
      at->bound.replace(make_lead(copy_of(at->bound.decides()->state())));
  }
}

void cluster::schedule(nanoseconds at, std::function<void()> action) {
  TROUPE_ASSERT(action);
  queue_.push(std::max(at, now_), scheduled_event{std::move(action)});
}

/// Empty: it goes on.
std::string cluster::why_stuck() const {
  const auto seconds = [](nanoseconds time) { return static_cast<double>(time) * 1e-9; };
  const bool stalled =
      queue_.empty()
      || (options_.stall_after != 0 && clock_.running() && queue_.next_time() - last_progress_ > options_.stall_after);
  if (stalled || (options_.max_events != 0 && result_.events >= options_.max_events))
    return fmt::format("no new version since {} s: waiting for {}", seconds(last_progress_), waited_for());
  if (queue_.next_time() > longest_duration)
    return fmt::format("no job lasts {} s: waiting for {}", seconds(queue_.next_time()), waited_for());
  if (events_at_rest_ > options_.max_events_at_rest)
    return fmt::format(
        "virtual time stands still at {} s: steps take no time; give inject.step_ms, which counts whole nanoseconds",
        seconds(now_));
  return {};
}

std::string cluster::waited_for() const {
  std::vector<std::string> out;
  if (!coordinator_->machine.started())
    out.emplace_back("workers to join");
  for (const holder_role* at : holders_->here()) {
    if (const replicated_lead* leads = at->bound.replicated())
      for (const holder_id who : leads->waiting_for())
        out.push_back(fmt::format("holder {} to be prepared", who.value));
    if (const lead* decides = at->bound.decides())
      for (const worker_id who : decides->waiting_for())
        out.push_back(fmt::format("worker {}{}", who.value,
                                  at->place.self.value == 0 ? "" : fmt::format(" (shard {})", at->place.self.value)));
    for (const holder_id who : at->bound.machine().waiting_for())
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
  const replicated_lead* leads = holders_->at(0).bound.replicated();
  // Where shards have backups, what a lead that is gone was to drop is left, and what a proposal would have used.
  const bool proposes = holders_->at(0).place.commits && (leads == nullptr || result_.failed || !leads->waiting_for().empty());
  aftermath out{.drained = quiet && !proposes && !result_.stalled && queue_.empty(), .parked = parked_at_lead_};
  for (const holder_role* at : holders_->here()) {
    aftermath::holder_left left{.self = at->place.self,
                                .alive = at->alive,
                                .machine_keeps = at->bound.machine().kept(),
                                .retained = at->bound.retained()};
    for (const auto& [name, id] : at->bound.pushes())
      left.kept.push_back(id);
    out.holders.push_back(std::move(left));
    if (const lead* decides = at->bound.decides())
      out.open.push_back(decides->open());
    if (const replicated_lead* waits = at->bound.replicated(); waits != nullptr && at->alive)
      add_undecided(out.parked, *waits);
  }
  return out;
}

} // namespace troupe::protocols::sim
