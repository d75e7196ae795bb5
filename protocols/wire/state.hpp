// SPDX-License-Identifier: BSD-3-Clause
// The states of machines as bytes, and back: to carry a machine to another process, or to keep it on a disk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/coordinator.hpp"
#include "protocols/holder.hpp"
#include "protocols/lead.hpp"
#include "protocols/replicated_lead.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire {

/// One Cap'n Proto message, its root the struct of state.capnp that is named after State: lead_state, holder_state,
/// coordinator_state, replicated_lead_state, decision_record or shard_piece. Tickets travel as numbers: the tensors that they
/// name are the driver's to carry.
template <class State>
std::vector<std::uint64_t> encode_state(const State& state);

/// What encode_state made of it. Fails where the bytes are cut short or damaged, or where a number does not fit; allocates no
/// more than a few times the bytes given, and does not throw, except bad_alloc. That the values belong together is not judged
/// here: a machine's check() is.
template <class State>
result<State> decode_state(std::span<const std::uint64_t> words);

} // namespace troupe::protocols::wire
