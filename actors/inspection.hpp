// SPDX-License-Identifier: BSD-3-Clause
// What every role says of itself when it is asked: what it does, since when, and for whom it waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/training_clock.hpp"

namespace troupe::actors {

/// To a role: answered with an actor_report. To a node: with those of its roles; to a cluster: with those of all.
struct inspect_query {};

/// One actor, at the moment when it answered. One that did not answer in time is reported by whoever asked it, as `stuck`.
struct actor_report {
  std::string id = {};   ///< "worker 2"; unique within a job
  std::string role = {}; ///< "worker", "shard", "aggregator", "evaluator", "coordinator"
  std::string node = {}; ///< filled in by the node
  std::uint64_t job = 0; ///< filled in by the cluster
  std::string state = {};
  double since_s = 0;        ///< for how long it has been in that state
  std::uint64_t mailbox = 0; ///< messages that wait
  std::vector<std::string> waits_for = {}; ///< ids
  std::map<std::string, std::string> fields = {}; ///< what this role has to say beyond that
  bool stuck = false;
};

/// A lane of a node, as its hub counts.
struct link_report {
  std::string peer;
  std::uint64_t bytes_sent = 0, bytes_received = 0, queued_bytes = 0;
};

struct node_report {
  std::string node = {};
  std::uint64_t job = 0;
  std::int32_t pid = 0;
  std::uint64_t resident_bytes = 0;
  std::vector<actor_report> actors = {};
  std::vector<link_report> links = {};
  std::string silent = {}; ///< why it did not answer; empty: it did
};

struct cluster_report {
  std::vector<node_report> nodes; ///< one for each job and node of it
};

/// What an actor is doing and since when. Entering a state that it is in changes nothing.
class activity {
public:
  explicit activity(std::string_view state) { enter(state); }
  /// `state`: a literal.
  void enter(std::string_view state) {
    if (state == state_)
      return;
    state_ = state;
    since_ns_ = steady_ns();
  }
  /// The same state, begun anew.
  void again(std::string_view state) {
    state_ = state;
    since_ns_ = steady_ns();
  }
  actor_report report(std::string role, std::uint32_t index, std::uint64_t mailbox) const {
    return {.id = role + " " + std::to_string(index),
            .role = role,
            .state = std::string{state_},
            .since_s = static_cast<double>(steady_ns() - since_ns_) * 1e-9,
            .mailbox = mailbox};
  }

private:
  std::string_view state_;
  std::int64_t since_ns_ = 0;
};

} // namespace troupe::actors
