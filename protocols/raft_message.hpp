// SPDX-License-Identifier: BSD-3-Clause
// What members of Raft say to each other: it may be lost, repeated, late, and overtake what was said before.
#pragma once

#include <variant>
#include <vector>

#include "protocols/raft_log.hpp"

namespace troupe::protocols::raft {

/// Vote for the sender, in the message's term; or say whether you would (`pre`).
struct vote_request {
  bool pre = false;
  log_index last{}; ///< of the sender's log
  raft::term last_term{};
  friend bool operator==(const vote_request&, const vote_request&) = default;
};
/// `pre` and granted: in the term that was asked about. Otherwise in the voter's own.
struct vote_reply {
  bool pre = false, granted = false;
  friend bool operator==(const vote_reply&, const vote_reply&) = default;
};
/// Entries that follow `previous`; a heartbeat has none.
struct append_request {
  log_index previous{};
  raft::term previous_term{};
  std::vector<entry> entries{}; ///< one at least, or up to 512 KiB
  log_index commit{};
  friend bool operator==(const append_request&, const append_request&) = default;
};
/// taken: both logs are the same up to `index`. Else they differ after `index` at the latest, where this log has `at`.
struct append_reply {
  bool taken = false;
  log_index index{};
  raft::term at{};
  friend bool operator==(const append_reply&, const append_reply&) = default;
};
/// To who lacks entries that its leader has no more. The answer is an append_reply.
struct install_request {
  raft::snapshot snapshot{};
  friend bool operator==(const install_request&, const install_request&) = default;
};
struct message {
  member_id from{}, to{};
  raft::term term{};
  std::variant<vote_request, vote_reply, append_request, append_reply, install_request> body{};
  friend bool operator==(const message&, const message&) = default;
};

} // namespace troupe::protocols::raft
