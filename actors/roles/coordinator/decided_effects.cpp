// SPDX-License-Identifier: BSD-3-Clause
// Asking the ledger, one entry after the other.
#include "actors/roles/coordinator/decided_effects.hpp"

#include <limits>
#include <utility>
#include <variant>

#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

namespace ledger = protocols::ledger;

/// The job alone, without a limit of its size.
ledger::state known_of(const decided_job& job) {
  ledger::state out;
  out.last = job.number;
  auto& its = out.jobs[job.number];
  its.life = job.life;
  its.roles = std::numeric_limits<std::uint32_t>::max();
  its.course = job.taken_over.value_or(ledger::course{});
  return out;
}

} // namespace

decided_effects::decided_effects(measured_pointer<coordinator_control> self, const decided_job& job,
                                 std::function<void(const effects&)> perform, std::function<void(const std::string&)> fail)
    : self_(self), job_(job), perform_(std::move(perform)), fail_(std::move(fail)), known_(known_of(job)) {}

std::deque<ledger::entry> decided_effects::decisions_in(const effects& all) const {
  std::deque<ledger::entry> out;
  for (const auto& effect : all)
    if (const auto* next = std::get_if<protocols::send_plan>(&effect))
      out.emplace_back(ledger::planned{job_.number, job_.life, next->plan});
    else if (const auto* moved = std::get_if<protocols::send_takes_over>(&effect))
      out.emplace_back(ledger::promoted{job_.number, job_.life, moved->notice.shard, moved->notice.by, moved->notice.view});
    else if (const auto* lost = std::get_if<protocols::send_holder_down>(&effect))
      out.emplace_back(ledger::holder_lost{job_.number, job_.life, lost->notice.holder});
  return out;
}

void decided_effects::add(const effects& all) {
  enqueue({decisions_in(all), [this, all] { perform_(all); }});
}

void decided_effects::decide(ledger::entry entry, std::function<void()> then) {
  enqueue({{std::move(entry)}, std::move(then)});
}

void decided_effects::enqueue(batch next) {
  if (!job_.ledger || lost_)
    next.to_decide.clear();
  std::erase_if(next.to_decide, [this](const ledger::entry& each) { return !ledger::apply(known_, each); });
  if (waiting_.empty() && next.to_decide.empty())
    return next.then();
  waiting_.push_back(std::move(next));
  go_on();
}

/// What is carried out may bring more: that is behind what waits already.
void decided_effects::go_on() {
  if (std::exchange(busy_, true))
    return;
  while (!waiting_.empty() && (waiting_.front().to_decide.empty() || lost_)) {
    auto then = std::move(waiting_.front().then);
    waiting_.pop_front();
    then();
  }
  busy_ = !waiting_.empty();
  if (busy_)
    ask();
}

void decided_effects::ask() {
  auto& entries = waiting_.front().to_decide;
  auto entry = std::move(entries.front());
  entries.pop_front();
  const auto failed = [this] {
    busy_ = false;
    if (!job_.alone) {
      waiting_.clear();
      return self_->quit();
    }
    lost_ = true; // the cluster has said so
    go_on();
  };
  self_->request(job_.ledger, caf::infinite, decide_entry{std::move(entry)})
      .then(
          [this, failed](const decided_entry& said) {
            if (!said.failed.empty())
              return failed();
            busy_ = false;
            if (said.why_not.empty())
              return go_on();
            waiting_.clear();
            fail_(said.why_not);
          },
          [failed](const caf::error&) { failed(); });
}

} // namespace troupe::actors
