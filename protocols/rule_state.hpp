// SPDX-License-Identifier: BSD-3-Clause
// What each kind of rule remembers between messages, as plain values: wire/state.capnp carries them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "protocols/round_policy.hpp"

namespace troupe::protocols {

/// Parameters that a worker has not answered with a push yet.
struct sent_parameters {
  nanoseconds at = 0;
  version ver{};
  plan_epoch epoch{};
  friend bool operator==(const sent_parameters&, const sent_parameters&) = default;
};
/// Of round_rule.
struct round_rule_state {
  plan newest{};           ///< of the next round
  std::set<member> dead{}; ///< members of `newest` that died since it was made
  open_round round{};
  std::map<member, sent_parameters> busy{}; ///< workers that have parameters and have not pushed
  std::vector<timing> timings{};            ///< of pushes since the last close
  bool armed = false;                       ///< the policy's patience is timed
  nanoseconds now = 0;
  std::vector<double> memory{}; ///< the policy's
  friend bool operator==(const round_rule_state&, const round_rule_state&) = default;
};

/// A worker of push_rule.
struct push_progress {
  std::uint64_t clock = 0; ///< its pushes, counted from the slowest worker's clock when it joined
  version base{};          ///< sent to it last
  bool waits = true;       ///< has pushed, and has not been answered
  clock_tick last_clock{}; ///< the clock of its last push; 0: it has not pushed yet
  nanoseconds sent = 0;
  friend bool operator==(const push_progress&, const push_progress&) = default;
};
/// Of push_rule.
struct push_rule_state {
  protocols::plan plan{}; ///< the newest
  std::set<member> dead{};
  std::map<member, push_progress> workers{};
  std::uint64_t asked_at = 0; ///< the slowest clock when all that wait were asked about
  version made{};             ///< the newest version
  std::uint64_t position = 0; ///< of the next slice
  nanoseconds now = 0;
  std::vector<double> memory{}; ///< of the protocol
  friend bool operator==(const push_rule_state&, const push_rule_state&) = default;
};

/// Of gossip_rule.
struct gossip_rule_state {
  protocols::plan plan{};
  std::map<member, nanoseconds> live{}; ///< when each last reported
  version made{};
  std::uint64_t samples = 0;
  friend bool operator==(const gossip_rule_state&, const gossip_rule_state&) = default;
};

/// A worker of allreduce_rule.
struct reported_version {
  version newest{};
  nanoseconds at = 0; ///< when it reported that
  bool has = false;   ///< the parameters: it began with them, or has reported a version
  friend bool operator==(const reported_version&, const reported_version&) = default;
};
/// Of allreduce_rule.
struct allreduce_rule_state {
  protocols::plan plan{};
  std::map<member, reported_version> live{};
  std::map<push_id, push> open{}; ///< reports of versions that not all have made
  version made{};
  std::uint64_t samples = 0;
  std::uint64_t position = 0; ///< in the data: of the initial parameters
  friend bool operator==(const allreduce_rule_state&, const allreduce_rule_state&) = default;
};

/// A worker of admm.
struct admm_member {
  std::optional<push> newest{}; ///< its u_i
  bool waits = true;
  bool fresh = false;         ///< has pushed since the last round
  bool empty = false;         ///< that push has no samples
  bool unused = false;        ///< no round has used `newest` yet
  std::uint64_t age = 0;      ///< rounds in a row that closed without it
  std::uint64_t position = 0; ///< in its own data
  std::uint64_t sent = 0;     ///< likewise, with the newest z that it was sent
  friend bool operator==(const admm_member&, const admm_member&) = default;
};
/// Of admm.
struct admm_state {
  protocols::plan plan{};
  std::map<member, admm_member> members{};
  version z{};
  friend bool operator==(const admm_state&, const admm_state&) = default;
};

/// Of a rule that a program adds: as it likes.
struct added_rule_state {
  std::vector<double> memory{};
  friend bool operator==(const added_rule_state&, const added_rule_state&) = default;
};

/// The first: of no rule yet.
using rule_state = std::variant<std::monostate, round_rule_state, push_rule_state, gossip_rule_state, admm_state,
                                added_rule_state, allreduce_rule_state>;

} // namespace troupe::protocols
