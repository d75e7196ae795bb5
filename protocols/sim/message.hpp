// SPDX-License-Identifier: BSD-3-Clause
// What travels in a simulated cluster, and between whom.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "protocols/effect.hpp"
#include "protocols/replicated_lead.hpp"
#include "protocols/sim/numerics.hpp"

namespace troupe::protocols::sim {

/// Somebody who hears messages.
struct endpoint {
  enum class role : std::uint8_t { coordinator, lead, holder, worker, evaluator } kind = role::coordinator;
  std::uint32_t index = 0;
  friend auto operator<=>(const endpoint&, const endpoint&) = default;
};

inline constexpr endpoint the_coordinator{endpoint::role::coordinator};
inline constexpr endpoint the_evaluator{endpoint::role::evaluator};

/// A push on its way to one holder: the trailer, and what it takes of the tensor (all of it, or its range).
struct push_envelope {
  push head{};
  std::optional<tensor> gradient{};     ///< none: the trailer alone
  std::optional<std::uint64_t> bytes{}; ///< of the whole push; none: by its form, with this share of the elements
  double share = 1;
};
struct partial_envelope {
  partial head{};
  std::optional<tensor> sum{}; ///< none: nobody below counted
};
/// One shard's part of a set of parameters.
struct params_envelope {
  holder_id from{};
  params head{};
  tensor range{};
  nanoseconds since = -1, until = -1; ///< it came from then till then; -1: at once
};
struct peer_envelope {
  peer_message head{};
  tensor data{};
};
struct piece_envelope {
  shard_piece head{};
  tensor data{}; ///< none in the last one
};
/// What a lead has decided from.
using record_envelope = std::shared_ptr<const decision_record>;
/// Shared: it goes to everybody.
using plan_envelope = std::shared_ptr<const plan>;

using message = std::variant<joined, down, holder_down, held, evaluated, report, hold_order, resume_order, fetch_order,
                             plan_envelope, worker_down, push_envelope, arrival, close, send_order, drop_order, partial_envelope,
                             params_envelope, peer_envelope, computed, computed_partition, expired, prepared, commit_order,
                             takes_over, record_envelope, new_backup, admit_order, copy_request, piece_envelope, caught_up>;

std::string text_of(endpoint who); ///< "holder 2"
std::string text_of(const message& msg);

/// A 64-bit hash over integers: the same on every machine.
class digest {
public:
  void add(std::uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15;
    state_ ^= state_ >> 29;
  }
  /// Kind and ids; no number that arithmetic in floating point has made.
  void add(const message& msg);
  std::uint64_t value() const { return state_; }

private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

} // namespace troupe::protocols::sim
