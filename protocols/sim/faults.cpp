// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong, and who comes and goes.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/sim/seats.hpp"
#include "protocols/sim/text.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::plan_faults() {
  for (const fault_spec& fault : options_.inject.faults)
    switch (fault.type) {
    case fault_spec::kind::crash:
      happens(duration_of_s(fault.at_s), [this, who = fault.worker] { kill(who); });
      if (fault.back_after_s)
        happens(duration_of_s(fault.at_s + *fault.back_after_s), [this, who = fault.worker] { join(who, false); });
      break;
    case fault_spec::kind::pause:
      happens(duration_of_s(fault.at_s), [this, fault] { pause(fault.worker, duration_of_s(fault.for_s)); });
      break;
    case fault_spec::kind::partition:
      happens(duration_of_s(fault.at_s), [this, fault] { cut_off(fault.worker, duration_of_s(fault.for_s)); });
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
  at.sit_down({at.self.incarnation.value + (at.bound ? 1 : 0)});
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
  if (at.done_at > now_) { // what has ended already, and is parked while the job is held, stays so
    at.done_at += until - std::max(at.paused_until, now_);
    const endpoint self{role::worker, who.value};
    queue_.push(
        at.done_at,
        parcel{.from = self, .to = self, .what = at.outcome, .life = at.self.incarnation, .generation = ++at.computation});
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
    TROUPE_ASSERT(at.partitions > 0);
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

} // namespace troupe::protocols::sim
