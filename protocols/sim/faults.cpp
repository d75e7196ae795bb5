// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong, and who comes and goes.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"
#include "protocols/sim/text.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::plan_faults() {
  for (const fault_spec& fault : options_.inject.faults)
    switch (fault.type) {
    case fault_spec::kind::crash:
      schedule(duration_of_s(fault.at_s), [this, who = fault.worker] { kill(who); });
      if (fault.back_after_s)
        schedule(duration_of_s(fault.at_s + *fault.back_after_s), [this, who = fault.worker] { join(who, false); });
      break;
    case fault_spec::kind::pause:
      schedule(duration_of_s(fault.at_s), [this, fault] { pause(fault.worker, duration_of_s(fault.for_s)); });
      break;
    case fault_spec::kind::partition:
      schedule(duration_of_s(fault.at_s), [this, fault] { cut_off(fault.worker, duration_of_s(fault.for_s)); });
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
    schedule(late.at, [this, who = late.worker] { join(who, false); });
  for (const holder_death& death : options_.holder_deaths)
    schedule(death.at, [this, who = death.holder] { holders_->kill(who); });
  for (const backup_join& join : options_.backup_joins)
    schedule(join.at, [this, shard = join.shard] { holders_->add_backup(shard); });
  for (const coordinator_death& death : options_.coordinator_deaths)
    schedule(death.at, [this, after = death.next_after] {
      if (!coordinator_->alive || !coordinator_->machine.started())
        return;
      coordinator_->die();
      schedule(now_ + after, [this] { coordinator_role::replace(*this); });
    });
}

cluster::worker_role& cluster::role_of(worker_id who) {
  return *workers_.at(who.value);
}

/// `at_once`: it was there before the job began.
void cluster::join(worker_id who, bool at_once) {
  if (who.value >= workers_.size() || role_of(who).alive)
    return;
  worker_role& worker = role_of(who);
  worker.begin_life({worker.self.incarnation.value + (worker.bound ? 1 : 0)});
  last_progress_ = now_;
  if (at_once)
    return coordinator_->hear(joined{worker.self});
  note(fmt::format("worker {} joins", text_of(worker.self)));
  send({role::worker, who.value}, the_coordinator, joined{worker.self});
}

void cluster::kill(worker_id who) {
  if (who.value >= workers_.size() || !role_of(who).alive)
    return;
  worker_role& worker = role_of(who);
  const endpoint self{role::worker, who.value};
  worker.alive = false;
  worker.done_at = 0;
  ++worker.computation;
  lose([self](endpoint from) { return from == self; }, [self](endpoint to) { return to == self; });
  std::erase_if(worker.parked, [self](const envelope& mail) { return mail.to == self; });
  last_progress_ = now_;
  note(fmt::format("worker {} is gone", text_of(worker.self)));
  send(self, the_coordinator, down{worker.self, "it was killed"});
}

void cluster::pause(worker_id who, nanoseconds duration) {
  if (who.value < workers_.size())
    role_of(who).pause(duration);
}

void cluster::worker_role::pause(nanoseconds duration) {
  const nanoseconds until = std::max(paused_until, in.now_ + duration);
  if (done_at > in.now_) { // what has ended already, and is parked while the job is held, stays so
    done_at += until - std::max(paused_until, in.now_);
    const endpoint here{role::worker, self.worker.value};
    in.queue_.push(done_at,
                   envelope{.from = here, .to = here, .content = outcome, .life = self.incarnation, .generation = ++computation});
  }
  paused_until = until;
  in.note(fmt::format("worker {} stands still for {} s", text_of(self), static_cast<double>(duration) * 1e-9));
  in.schedule(until, [this] { in.unpark(*this); });
}

void cluster::cut_off(worker_id who, nanoseconds duration) {
  if (who.value >= workers_.size())
    return;
  worker_role& worker = role_of(who);
  ++worker.partitions;
  note(fmt::format("worker {} is cut off for {} s", text_of(worker.self), static_cast<double>(duration) * 1e-9));
  schedule(now_ + duration, [this, &worker] {
    TROUPE_ASSERT(worker.partitions > 0);
    --worker.partitions;
    unpark(worker);
  });
}

void cluster::unpark(worker_role& worker) {
  last_progress_ = now_;
  for (envelope& each : std::exchange(worker.parked, {}))
    arrive(std::move(each));
}

void cluster::note(std::string text) {
  result_.notes.push_back(fmt::format("{:.3f} s: {}", static_cast<double>(clock_.now()) * 1e-9, text));
}

void cluster::broken(const std::string& text) {
  for (listener* each : listeners_)
    each->broken(text);
}

} // namespace troupe::protocols::sim
