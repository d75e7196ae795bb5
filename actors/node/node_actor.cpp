// SPDX-License-Identifier: BSD-3-Clause
// The node's handlers.
#include "actors/node/node_actor.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/errors.hpp"
#include "actors/monitoring/process.hpp"
#include "actors/sockets/ports.hpp"

namespace troupe::actors {

node_state::node_state(measured_pointer<node_control> self, node_options where)
    : self_(self), where_(std::move(where)), allegiance_(self) {
  end_with_reason(*self);
  self->set_down_handler([this](const caf::down_msg& msg) { on_down(msg); });
  self->set_exit_handler([this](const caf::exit_msg& msg) {
    stop();
    self_->quit(msg.reason);
  });
  if (where_.metrics) {
    metrics_.emplace(where_.metrics);
    measure_every_second();
  }
}

node_control::behavior_type node_state::make_behavior() {
  return behavior_with(static_cast<const role_orders*>(nullptr));
}

template <class... Orders>
node_control::behavior_type node_state::behavior_with(const caf::typed_actor<caf::result<void>(Orders)...>*) {
  return {
      [this](const prepare_job& msg) { return prepare(msg); },
      [this](const job_places& msg) -> caf::result<void> {
        auto* const job = ordered();
        return job != nullptr ? job->start(msg) : failure("a job must be prepared before it is started");
      },
      [this](const node_place& msg) {
        if (auto* const job = ordered())
          job->on_back(msg);
      },
      [this](const evaluator_place& msg) -> caf::result<void> {
        auto* const job = ordered();
        return job != nullptr ? job->on_evaluator(msg) : failure("no job runs here");
      },
      [this](standing_query) { return job_ ? job_->standing() : std::nullopt; },
      [this](const adopt_job& msg) { return adopt(msg); },
      [this](const led_by& msg) { allegiance_.led_by(msg.term); },
      [this](const evaluated_query& query) -> caf::result<parameters_piece> {
        const auto from = job_ ? job_->roles().evaluator : evaluator_actor{};
        return from ? caf::result<parameters_piece>(self_->delegate(from, query)) : failure("the evaluator is not here");
      },
      [this](const backup_place& msg) -> caf::result<void> {
        auto* const job = ordered();
        try {
          return job != nullptr ? job->on_backup(msg.holder) : failure("no job runs here");
        } catch (const std::exception& e) { // its device fails, for example
          return failure(e.what());
        }
      },
      [this](const Orders& msg) {
        auto* const job = ordered();
        if (job == nullptr)
          return;
        job->note(msg);
        job->roles().tell(msg);
      }...,
      [this](const protocols::hold_order& msg) {
        auto* const job = ordered();
        if (job == nullptr)
          return;
        if (const auto lead = job->roles().lead())
          caf::anon_send(lead, msg);
        if (job->reduces())
          job->roles().tell_workers(msg);
      },
      [this](const protocols::fetch_order& msg) { fetch(msg); },
      [this](waiting_query query) -> caf::result<awaited> {
        const auto lead = job_ ? job_->roles().lead() : holder_control{};
        return lead ? caf::result<awaited>(self_->delegate(lead, query)) : awaited{};
      },
      [this](totals_query) { return totals(); },
      [this](const inspect_query& query) { return inspect_roles(query); },
      [this](const role_order& msg) -> caf::result<void> {
        auto* const job = ordered();
        return job != nullptr ? job->carry_out(msg) : failure("no job runs here");
      },
      [this](const record_order& msg) {
        if (auto* const job = ordered(); job != nullptr && msg.on)
          job->trace().begin();
      },
      [](clock_query) { return steady_ns(); },
      [this](trace_query) { return job_ ? job_->trace().take() : trace_chunk{}; },
      [this](shards_query) { return job_ ? job_->shards() : shards_view{}; },
      [](wall_clock_query) { return clock_reading{wall_clock_ns()}; },
      [this](const probe_query& query) { return probe(query); },
      [this](const node_notice& msg) { where_.say(msg.text); },
      [this](const stop_job&) {
        if (ordered() != nullptr)
          stop();
      },
      [this](const data_loaded& msg) {
        if (job_)
          job_->on_data(msg);
      },
      [this](const part_saved& msg) {
        if (job_)
          job_->on_saved(msg);
      },
      [this](const lane_event& msg) {
        if (job_)
          job_->on_lane(msg);
      },
      [this](const shown_actor& guest) {
        self_->monitor(guest.actor);
        guests_.push_back(guest);
      },
  };
}

node_job* node_state::ordered() {
  return job_ && allegiance_.obeys(self_->current_sender()) ? &*job_ : nullptr;
}

caf::result<node_prepared> node_state::prepare(const prepare_job& msg) {
  if (!allegiance_.obeys(self_->current_sender()) || !allegiance_.is_of_term(msg.term))
    return failure("another coordinator has this node now");
  auto kept = job_ ? job_->keep_for(msg) : std::nullopt;
  stop(); // an earlier job, or an earlier part in this one
  allegiance_.follow(msg.coordinator, msg.term);
  if (const auto missing = missing_names(msg.job, where_.added); !missing.empty())
    return failure(fmt::format("its program has no {}", fmt::join(missing, ", no ")));
  self_->doing.enter("loads data");
  try {
    return job_.emplace(self_, where_, msg, std::move(kept)).prepared();
  } catch (const std::exception& e) { // e.g. the port is taken: the job fails, the node does not
    stop();
    return failure(e.what());
  }
}

void node_state::fetch(const protocols::fetch_order& msg) {
  auto* const job = ordered();
  if (job == nullptr)
    return;
  if (!job->decentralized())
    return caf::anon_send(job->roles().lead(), msg);
  job->roles().tell_evaluator(msg);
  job->roles().tell_workers(msg);
}

node_totals node_state::totals() const {
  auto out = job_ ? job_->totals() : node_totals{};
  out.resident_bytes = resident_bytes();
  return out;
}

/// A probe takes seconds, so it runs on a separate thread, one at a time.
caf::result<node_probe> node_state::probe(const probe_query& query) {
  if (!looker_)
    looker_ = self_->spawn<caf::detached>([ends = ends_.get_token()](looker_actor::pointer) -> looker_actor::behavior_type {
      return {[=](const probe_query& asked) { return look_around(asked, ends); }};
    });
  auto promise = self_->make_response_promise<node_probe>();
  self_->request(looker_, caf::infinite, query)
      .then(
          [this, promise](node_probe& seen) mutable {
            seen.lane_port = where_.lane_port;
            if (where_.lane_port != 0 && !(job_ && job_->has_lanes())) // otherwise the node's own job uses the port
              seen.lane_port_wrong = net::cannot_listen(where_.host, where_.lane_port);
            promise.deliver(std::move(seen));
          },
          [this, promise](const caf::error& e) mutable {
            looker_ = nullptr; // it has ended
            promise.deliver(e);
          });
  return promise;
}

void node_state::measure() {
  if (!metrics_)
    return;
  std::map<std::string, net::lane_stats> lanes;
  if (job_)
    for (const auto& lane : job_->lanes())
      lanes.emplace(job_->name_of(lane.peer.value), lane);
  metrics_->on_lanes(std::move(lanes));
}

/// A weak pointer, so that the timer does not keep an unreferenced node alive.
void node_state::measure_every_second() {
  measure();
  auto& clock = self_->clock();
  auto again = caf::make_action([this] { measure_every_second(); },
                                caf::action::state::waiting); // an action in another state is never run
  clock.schedule(clock.now() + std::chrono::seconds{1}, std::move(again), caf::weak_actor_ptr{self_->ctrl()});
}

void node_state::on_down(const caf::down_msg& msg) {
  std::erase_if(guests_, [&](const shown_actor& guest) { return guest.actor.address() == msg.source; });
  if (allegiance_.lost(msg.source))
    on_coordinator_lost();
  else if (job_)
    job_->on_down(msg);
}

/// Nobody is left to stop the job here. Rounds need nobody to go on, until something is to be decided.
void node_state::on_coordinator_lost() {
  const auto wait = job_ ? job_->outlives_coordinator() : std::chrono::milliseconds{0};
  if (wait.count() == 0)
    return stop();
  job_->coordinator_is_lost();
  const auto seconds = static_cast<double>(wait.count()) * 1e-3;
  where_.say(fmt::format("its job has no coordinator; its roles go on for {:g} s, for whoever leads next", seconds));
  self_->run_delayed(wait, [this, seconds, of = allegiance_.followed()] {
    if (!job_ || allegiance_.followed() != of)
      return;
    where_.say(fmt::format("nobody has led its job for {:g} s; its roles end", seconds));
    stop();
  });
}

/// The job goes on here as it is. What else it needs is told by this coordinator.
caf::result<adopted_part> node_state::adopt(const adopt_job& msg) {
  if (!allegiance_.obeys(self_->current_sender()) || !allegiance_.is_of_term(msg.term))
    return failure("another coordinator has this node now");
  if (!job_ || job_->key() != msg.job_key || !job_->standing())
    return failure("its part of the job has ended");
  allegiance_.follow(msg.coordinator, msg.term);
  return job_->adopt(msg.coordinator);
}

void node_state::stop() {
  measure();
  job_.reset();
  self_->doing.enter("idle");
}

} // namespace troupe::actors
