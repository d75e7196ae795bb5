// SPDX-License-Identifier: BSD-3-Clause
// Raft's messages, and what it has on a disk, as bytes and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/raft_message.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire {

/// One Cap'n Proto message: raft.capnp's Message, or Persist.
std::vector<std::uint64_t> encode(const raft::message& message);
std::vector<std::uint64_t> encode(const raft::persist& persisted);

/// Fail where the bytes are cut short or damaged, or where a number does not fit; they allocate no more than a few times the
/// bytes given, and do not throw, except bad_alloc. That the values belong together is for raft::member and raft::sound to judge.
result<raft::message> decode_raft_message(std::span<const std::uint64_t> words);
result<raft::persist> decode_persist(std::span<const std::uint64_t> words);

} // namespace troupe::protocols::wire
