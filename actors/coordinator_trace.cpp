// SPDX-License-Identifier: BSD-3-Clause
// How the coordinator gathers what every node has recorded, once the job is over or somebody has recorded enough.
#include <limits>

#include <fmt/format.h>

#include "actors/coordinator_actor.hpp"
#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds trace_deadline{10};

} // namespace

struct coordinator_state::collection {
  std::vector<node_trace> all;
  std::size_t missing = 0;
  traces_taker take;

  void one_less() {
    if (--missing == 0)
      take(std::move(all));
  }
};

void coordinator_state::collect_traces(traces_taker take) {
  auto into = std::make_shared<collection>();
  into->missing = setup_.nodes.size();
  into->take = std::move(take);
  for (const auto& node : setup_.nodes)
    into->all.push_back({.name = node.name});
  into->all.front().events = trace_->take(std::numeric_limits<std::size_t>::max()).events;
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
    collect_trace(i, into);
}

/// A chunk, then the next; of a node that does not answer the trace has what came before.
void coordinator_state::collect_trace(std::size_t node, const std::shared_ptr<collection>& into) {
  const auto& name = setup_.nodes[node].name;
  auto missing = [this, name, into](const std::string& reason) {
    setup_.observer->on_event(fmt::format("the trace lacks what {} did: {}", name, reason));
    into->one_less();
  };
  if (lost_.contains(node))
    return missing("its process is gone");
  self_->request(setup_.nodes[node].actor, trace_deadline, trace_query{})
      .then(
          [this, node, name, into](const trace_chunk& chunk) {
            auto& to = into->all[node];
            to.events.insert(to.events.end(), chunk.events.begin(), chunk.events.end());
            if (!chunk.last)
              return collect_trace(node, into);
            to.dropped = chunk.dropped;
            if (chunk.dropped > 0)
              setup_.observer->on_event(fmt::format("the trace of {} is full: it lacks the last {} events", name, chunk.dropped));
            into->one_less();
          },
          [missing](const caf::error& e) { missing(explain(e)); });
}

} // namespace troupe::actors
