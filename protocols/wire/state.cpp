// SPDX-License-Identifier: BSD-3-Clause
// Which struct of state.capnp belongs to which state.
#include "protocols/wire/state.hpp"

#include <type_traits>

#include "protocols/wire/fields.hpp"
#include "protocols/wire/state.capnp.h"

namespace troupe::protocols::wire {
namespace {

template <class State>
struct root;
template <>
struct root<lead_state> : std::type_identity<kept::LeadState> {};
template <>
struct root<holder_state> : std::type_identity<kept::HolderState> {};
template <>
struct root<decision_record> : std::type_identity<kept::DecisionRecord> {};
template <>
struct root<replicated_lead_state> : std::type_identity<kept::ReplicatedLeadState> {};
template <>
struct root<shard_piece> : std::type_identity<kept::ShardPiece> {};
template <>
struct root<coordinator_state> : std::type_identity<kept::CoordinatorState> {};

} // namespace

template <class State>
std::vector<std::uint64_t> encode_state(const State& state) {
  return fields::encode<typename root<State>::type>(state);
}

template <class State>
result<State> decode_state(std::span<const std::uint64_t> words) {
  return fields::decode<typename root<State>::type, State>(words, "the state of a machine");
}

template std::vector<std::uint64_t> encode_state(const lead_state&);
template std::vector<std::uint64_t> encode_state(const holder_state&);
template std::vector<std::uint64_t> encode_state(const coordinator_state&);
template std::vector<std::uint64_t> encode_state(const decision_record&);
template std::vector<std::uint64_t> encode_state(const replicated_lead_state&);
template std::vector<std::uint64_t> encode_state(const shard_piece&);
template result<lead_state> decode_state(std::span<const std::uint64_t>);
template result<holder_state> decode_state(std::span<const std::uint64_t>);
template result<coordinator_state> decode_state(std::span<const std::uint64_t>);
template result<decision_record> decode_state(std::span<const std::uint64_t>);
template result<replicated_lead_state> decode_state(std::span<const std::uint64_t>);
template result<shard_piece> decode_state(std::span<const std::uint64_t>);

} // namespace troupe::protocols::wire
