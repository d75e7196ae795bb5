// SPDX-License-Identifier: BSD-3-Clause
// How the coordinator gathers what every node has recorded, once the job is over or somebody has recorded enough.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/clock_estimate.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds trace_deadline{10};
constexpr int readings_of_a_clock = 5;

} // namespace

/// What all nodes have recorded, and what is known of their clocks.
struct coordinator_state::collection {
  std::vector<node_trace> traces;
  std::vector<clock_estimate> clocks;
  caf::actor_clock::time_point until; ///< whoever asked waits no longer

  caf::timespan patience(caf::actor_clock::time_point now) const { return std::min<caf::timespan>(trace_deadline, until - now); }
};

void coordinator_state::collect_traces(traces_taker take, caf::actor_clock::time_point until) {
  const join_counter<collection> all([take = std::move(take)](collection whole) { take(std::move(whole.traces)); });
  for (const auto& node : setup_.nodes)
    all->traces.push_back({.name = node.name});
  all->traces.front().events = trace_->take_all();
  all->clocks.resize(setup_.nodes.size());
  all->until = until;
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i) {
    all.one_more();
    read_clock(i, all, readings_of_a_clock);
  }
  all.one_less();
}

/// A few times.
void coordinator_state::read_clock(std::size_t node, const join_counter<collection>& into, int times) {
  const auto patience = into->patience(self_->clock().now());
  if (times == 0 || lost_.contains(node) || patience.count() <= 0)
    return collect_trace(node, into);
  self_->request(setup_.nodes[node].actor, patience, clock_query{})
      .then(
          [this, node, into, times, asked = steady_ns()](std::int64_t its) {
            into->clocks[node].take(asked, its, steady_ns() - asked);
            read_clock(node, into, times - 1);
          },
          [this, node, into](const caf::error&) { collect_trace(node, into); });
}

/// A chunk, then the next; of a node that does not answer the trace has what came before.
void coordinator_state::collect_trace(std::size_t node, const join_counter<collection>& into) {
  const auto& name = setup_.nodes[node].name;
  auto missing = [this, name, into](const std::string& reason) {
    setup_.observer->on_event(fmt::format("the trace lacks what {} did: {}", name, reason));
    into.one_less();
  };
  if (lost_.contains(node))
    return missing("its process is gone");
  const auto patience = into->patience(self_->clock().now());
  if (patience.count() <= 0)
    return missing("it took too long");
  self_->request(setup_.nodes[node].actor, patience, trace_query{})
      .then(
          [this, node, name, into](const trace_chunk& chunk) {
            auto& to = into->traces[node];
            const auto& clock = into->clocks[node];
            // A clock that may as well be ours is ours: all processes of a host have one.
            const auto ahead = std::abs(clock.ahead_ns) > clock.round_trip_ns / 2 ? clock.ahead_ns : 0;
            for (auto event : chunk.events) {
              event.begin_ns -= ahead;
              event.end_ns -= ahead;
              to.events.push_back(std::move(event));
            }
            if (!chunk.last)
              return collect_trace(node, into);
            to.dropped = chunk.dropped;
            if (chunk.dropped > 0)
              setup_.observer->on_event(fmt::format("the trace of {} is full: it lacks the last {} events", name, chunk.dropped));
            into.one_less();
          },
          [missing](const caf::error& e) { missing(explain(e)); });
}

} // namespace troupe::actors
