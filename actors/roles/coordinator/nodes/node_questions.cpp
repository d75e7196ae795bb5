// SPDX-License-Identifier: BSD-3-Clause
// The requests to all nodes of a job.
#include "actors/roles/coordinator/nodes/node_questions.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/clock_estimate.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds totals_deadline{3};
constexpr std::chrono::seconds trace_deadline{10};
constexpr int readings_of_a_clock = 5;

/// Reads one node's clock a few times, then asks for its events.
struct trace_request {
  measured_pointer<coordinator_control> self;
  join_counter<std::vector<node_trace>> all;
  std::size_t index;
  asked_node node;
  std::shared_ptr<run_observer> observer;
  caf::actor_clock::time_point until;
  clock_estimate clock{};

  caf::timespan patience() const { return std::min<caf::timespan>(trace_deadline, until - self->clock().now()); }

  void lacks(const std::string& reason) const {
    observer->on_event(fmt::format("the trace lacks what {} did: {}", node.name, reason));
    all.one_less();
  }

  void read_clock(int times) {
    if (!node.actor)
      return lacks("its process is gone");
    if (times == 0 || patience().count() <= 0)
      return collect();
    self->request(node.actor, patience(), clock_query{})
        .then(
            [me = *this, times, asked = steady_ns()](std::int64_t its) mutable {
              me.clock.take(asked, its, steady_ns() - asked);
              me.read_clock(times - 1);
            },
            [me = *this](const caf::error&) { me.collect(); });
  }

  /// A chunk, then the next; a node that stops answering has in the trace what came before.
  void collect() const {
    if (patience().count() <= 0)
      return lacks("it took too long");
    self->request(node.actor, patience(), trace_query{})
        .then([me = *this](const trace_chunk& chunk) { me.take(chunk); },
              [me = *this](const caf::error& e) { me.lacks(explain(e)); });
  }

  void take(const trace_chunk& chunk) const {
    auto& trace = (*all)[index];
    // A clock that may as well be ours is ours: all processes of a host have one.
    const auto ahead = std::abs(clock.ahead_ns) > clock.round_trip_ns / 2 ? clock.ahead_ns : 0;
    for (auto event : chunk.events) {
      event.begin_ns -= ahead;
      event.end_ns -= ahead;
      trace.events.push_back(std::move(event));
    }
    if (!chunk.last)
      return collect();
    trace.dropped = chunk.dropped;
    if (chunk.dropped > 0)
      observer->on_event(fmt::format("the trace of {} is full: it lacks the last {} events", node.name, chunk.dropped));
    all.one_less();
  }
};

} // namespace

std::vector<asked_node> asked_nodes(const std::vector<member_node>& nodes, const std::set<std::uint32_t>& lost) {
  std::vector<asked_node> out;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    out.push_back({nodes[i].name, lost.contains(i) ? node_actor{} : nodes[i].actor});
  return out;
}

void ask_totals(measured_pointer<coordinator_control> self, const std::vector<asked_node>& nodes,
                std::function<void(node_totals)> take) {
  const join_counter<node_totals> all(std::move(take));
  for (const auto& node : nodes) {
    if (!node.actor)
      continue;
    all.one_more();
    self->request(node.actor, totals_deadline, totals_query{})
        .then(
            [all](const node_totals& one) {
              all->bytes_sent += one.bytes_sent;
              all->bytes_received += one.bytes_received;
              all->resident_bytes = std::max(all->resident_bytes, one.resident_bytes);
              all->computed_ns += one.computed_ns;
              all->emulated_ns += one.emulated_ns;
              all->bytes_push += one.bytes_push;
              all->bytes_params += one.bytes_params;
              all->bytes_peers += one.bytes_peers;
              all->exchanged_ns += one.exchanged_ns;
              all->hidden_ns += one.hidden_ns;
              all.one_less();
            },
            [all](const caf::error&) { all.one_less(); });
  }
  all.one_less();
}

void collect_traces(measured_pointer<coordinator_control> self, const std::vector<asked_node>& nodes,
                    std::vector<trace_event> own, std::shared_ptr<run_observer> observer, caf::actor_clock::time_point until,
                    std::function<void(std::vector<node_trace>)> take) {
  const join_counter<std::vector<node_trace>> all(std::move(take));
  for (const auto& node : nodes)
    all->push_back({.name = node.name});
  all->front().events = std::move(own);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    all.one_more();
    trace_request{self, all, i, nodes[i], observer, until}.read_clock(readings_of_a_clock);
  }
  all.one_less();
}

} // namespace troupe::actors
