// SPDX-License-Identifier: BSD-3-Clause
// How the coordinator gathers what every node has recorded, once the job is over.
#include <limits>

#include <fmt/format.h>

#include "actors/coordinator_actor.hpp"
#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds trace_deadline{10};

} // namespace

void coordinator_state::collect_traces() {
  if (!trace_)
    return deliver();
  std::exchange(hold_, {}).end();
  traces_missing_ = setup_.nodes.size();
  for (const auto& node : setup_.nodes)
    result_.trace.push_back({.name = node.name});
  result_.trace.front().events = trace_->take(std::numeric_limits<std::size_t>::max()).events;
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
    collect_trace(i);
}

/// A chunk, then the next; of a node that does not answer the trace has what came before.
void coordinator_state::collect_trace(std::size_t node) {
  const auto& name = setup_.nodes[node].name;
  auto missing = [this, name](const std::string& reason) {
    setup_.observer->on_event(fmt::format("the trace lacks what {} did: {}", name, reason));
    collected();
  };
  if (lost_.contains(node))
    return missing("its process is gone");
  self_->request(setup_.nodes[node].actor, trace_deadline, trace_query{})
      .then(
          [this, node, name](const trace_chunk& chunk) {
            auto& events = result_.trace[node].events;
            events.insert(events.end(), chunk.events.begin(), chunk.events.end());
            if (!chunk.last)
              return collect_trace(node);
            result_.trace[node].dropped = chunk.dropped;
            if (chunk.dropped > 0)
              setup_.observer->on_event(fmt::format("the trace of {} is full: it lacks the last {} events", name, chunk.dropped));
            collected();
          },
          [missing](const caf::error& e) { missing(explain(e)); });
}

void coordinator_state::collected() {
  if (--traces_missing_ == 0)
    deliver();
}

} // namespace troupe::actors
