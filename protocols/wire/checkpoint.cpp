// SPDX-License-Identifier: BSD-3-Clause
// Which struct of checkpoint.capnp belongs to which value.
#include "protocols/wire/checkpoint.hpp"

#include "protocols/wire/checkpoint.capnp.h"
#include "protocols/wire/fields.hpp"

namespace troupe::protocols::wire {

std::vector<std::uint64_t> encode(const shard_footer& footer) {
  return fields::encode<kept::ShardFooter>(footer);
}
std::vector<std::uint64_t> encode(const manifest& checkpoint) {
  return fields::encode<kept::Manifest>(checkpoint);
}
result<shard_footer> decode_footer(std::span<const std::uint64_t> words) {
  return fields::decode<kept::ShardFooter, shard_footer>(words, "the footer of a shard's file");
}
result<manifest> decode_manifest(std::span<const std::uint64_t> words) {
  return fields::decode<kept::Manifest, manifest>(words, "the manifest of a checkpoint");
}

} // namespace troupe::protocols::wire
