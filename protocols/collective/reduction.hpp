// SPDX-License-Identifier: BSD-3-Clause
// One rank's part in the allreduce of one range, by any schedule. Sans IO: it names tensors by ticket.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "protocols/collective/facts.hpp"
#include "protocols/collective/schedule.hpp"
#include "protocols/ids.hpp"

namespace troupe::protocols::collective {

/// Names a message of this reduction at its receiver.
struct chunk_id {
  std::uint32_t from = 0, stage = 0, first = 0;
  friend auto operator<=>(const chunk_id&, const chunk_id&) = default;
};

// -- what it hears

/// The rank's own term is there, in its place. `rank` is below `among.ranks`.
struct begin {
  std::uint32_t rank = 0;
  topology among{1};
  facts own{};
};
/// Segments [id.first, last) of a peer, complete.
struct chunk {
  chunk_id id{};
  std::uint32_t last = 0;
  ticket data{};
  facts of{};
};
/// What `merge` asked for is done.
struct merged {
  std::uint32_t stage = 0, first = 0;
};
/// It will never be complete: somebody is gone.
struct abandon {};

// -- what it asks for

/// Segments [first, last) in place become the sum of these terms in their order; ticket 0 is what is in place. One term without
/// what is in place replaces it. Answered with `merged`; the tickets may be freed then.
struct merge {
  std::uint32_t stage = 0, first = 0, last = 0;
  std::vector<ticket> terms{};
  friend bool operator==(const merge&, const merge&) = default;
};
/// Send what is in place of these segments, by reference if that is cheaper: it stays until the peer has read it.
struct send_chunk {
  std::uint32_t to = 0, stage = 0, first = 0, last = 0;
  facts of{};
  friend bool operator==(const send_chunk&, const send_chunk&) = default;
};
/// Nobody needs this tensor.
struct drop_chunk {
  ticket data{};
  friend bool operator==(const drop_chunk&, const drop_chunk&) = default;
};
/// This chunk belongs to nothing here, and is dropped: it came twice, too late, or from a stranger.
struct refuse_chunk {
  chunk_id id{};
  ticket data{};
  std::string why{};
  friend bool operator==(const refuse_chunk&, const refuse_chunk&) = default;
};
/// The sum is in place, the same at every rank, and nothing more is sent.
struct reduced {
  facts of{};
  friend bool operator==(const reduced&, const reduced&) = default;
};
using reduction_effect = std::variant<merge, send_chunk, drop_chunk, refuse_chunk, reduced>;
using reduction_effects = std::vector<reduction_effect>;

/// All that a reduction remembers between messages.
struct reduction_state {
  enum class course : std::uint8_t { waits, runs, done, abandoned } is = course::waits;
  std::uint32_t rank = 0;
  facts own{}; ///< of the rank's own term
  std::vector<step> steps{};
  std::vector<std::uint8_t> progress{}; ///< of each step: 0 waits, 1 is being merged, 2 is done
  std::vector<facts> known{};           ///< of each segment, as it is in place
  std::map<chunk_id, chunk> came{};     ///< and not used yet
};

/// Performs a rank's schedule as chunks come, in any order. Chunks before `begin` wait. Every ticket comes back once: in a
/// `merge`, dropped, or refused. After `abandon` what comes is dropped without a word.
class reduction {
public:
  explicit reduction(algorithm which) : which_(which) {}

  reduction_effects on(const begin& msg);
  reduction_effects on(const chunk& msg);
  reduction_effects on(const merged& msg);
  reduction_effects on(const abandon& msg);

  bool is_done() const { return state_.is == reduction_state::course::done; }
  /// The ranks that the next steps wait for.
  std::vector<std::uint32_t> waiting_for() const;
  const reduction_state& state() const { return state_; }

private:
  std::string fault_of(const chunk& msg) const;
  bool is_free(std::size_t at) const;
  std::vector<std::size_t> group_of(std::size_t at) const;
  bool start(std::size_t at, reduction_effects& out);
  void advance(reduction_effects& out);

  algorithm which_;
  reduction_state state_;
};

} // namespace troupe::protocols::collective
