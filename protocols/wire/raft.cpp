// SPDX-License-Identifier: BSD-3-Clause
// Which struct of raft.capnp belongs to which value.
#include "protocols/wire/raft.hpp"

#include "protocols/wire/fields.hpp"
#include "protocols/wire/raft.capnp.h"

namespace troupe::protocols::wire {

std::vector<std::uint64_t> encode(const raft::message& message) {
  return fields::encode<decided::Message>(message);
}
std::vector<std::uint64_t> encode(const raft::persist& persisted) {
  return fields::encode<decided::Persist>(persisted);
}
result<raft::message> decode_raft_message(std::span<const std::uint64_t> words) {
  return fields::decode<decided::Message, raft::message>(words, "a message of Raft");
}
result<raft::persist> decode_persist(std::span<const std::uint64_t> words) {
  return fields::decode<decided::Persist, raft::persist>(words, "an entry of the journal");
}

} // namespace troupe::protocols::wire
