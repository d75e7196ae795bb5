// SPDX-License-Identifier: BSD-3-Clause
// How the coordinator gathers what every node has recorded, once the job is over or somebody has recorded enough.
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "actors/coordinator_actor.hpp"
#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds trace_deadline{10};
constexpr int clock_readings = 5;

} // namespace

struct coordinator_state::collection {
  /// What is known of a node's clock: ahead of ours by so much, give or take.
  struct reading {
    std::int64_t ahead_ns = 0, uncertain_ns = std::numeric_limits<std::int64_t>::max();
  };

  std::vector<node_trace> all;
  std::vector<reading> clocks;
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
  into->all.front().events = trace_->take_all();
  into->clocks.resize(setup_.nodes.size());
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
    read_clock(i, into, clock_readings);
}

/// A few times: the quickest answer tells most (Cristian 1989). A clock that may as well be ours is ours: all processes of a host have one.
void coordinator_state::read_clock(std::size_t node, const std::shared_ptr<collection>& into, int times) {
  if (times == 0 || lost_.contains(node))
    return collect_trace(node, into);
  self_->request(setup_.nodes[node].actor, trace_deadline, clock_query{})
    .then(
      [this, node, into, times, asked = steady_ns()](std::int64_t its) {
        const auto uncertain = (steady_ns() - asked) / 2;
        if (auto& known = into->clocks[node]; uncertain < known.uncertain_ns)
          known = {its - asked - uncertain, uncertain};
        read_clock(node, into, times - 1);
      },
      [this, node, into](const caf::error&) { collect_trace(node, into); });
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
            const auto& clock = into->clocks[node];
            const auto ahead = std::abs(clock.ahead_ns) > clock.uncertain_ns ? clock.ahead_ns : 0;
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
            into->one_less();
          },
          [missing](const caf::error& e) { missing(explain(e)); });
}

} // namespace troupe::actors
