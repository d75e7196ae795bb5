// SPDX-License-Identifier: BSD-3-Clause
// What shards and their backups send each other, as payloads of lanes: sums, the lead's decisions, and copies of partitions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/roles/holder/holder_core.hpp"
#include "kernels/backend.hpp"
#include "protocols/replicated_lead.hpp"
#include "protocols/wire/codec.hpp"
#include "tensor/layout.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// A message of state.capnp in host memory, padded to a multiple of 64 bytes, and perhaps a tensor behind it.
struct packed_state {
  kernels::buffer payload;
  std::uint64_t words = 0; ///< of the message

  wire::range where() const { return {0, static_cast<std::int64_t>(payload.bytes() / sizeof(float))}; }
};

packed_state pack(const protocols::decision_record& record, kernels::backend& queue);
wire::result<protocols::decision_record> record_in(const kernels::buffer& payload, std::uint64_t words);

/// A shard's sum of a round to one of its backups, part by part, once it is computed; no sum: of nothing. `begin`: of the range.
void send_sum(holder_core& core, kernels::backend& queue, const holder_actor& to, wire::partial_part head,
              const std::optional<kernels::buffer>& sum, const std::vector<flat_range>& parts, std::int64_t begin);

/// The pieces of a shard's copy (protocols/holder.hpp): each of its partitions is one, and the last has no tensor. Of a piece
/// there is all that the partition's next step needs: its place in each of some blocks, one after the other.
class shard_copies {
public:
  /// `catches_up`: none is here yet.
  shard_copies(std::shared_ptr<kernels::backend> queue, flat_range range, std::vector<flat_range> partitions, bool catches_up);

  std::uint32_t pieces() const { return static_cast<std::uint32_t>(partitions_.size()) + 1; }
  bool catches_up() const { return here_.has_value(); }
  /// Whether all partitions are here, where it has caught up so far; it catches up no more.
  bool end();
  /// "3 of 7 partitions".
  std::string progress() const;
  /// What a step is taken in: `usual` once all is here, before that each partition that is. On a device the whole range is one,
  /// once all are.
  std::vector<flat_range> parts_of_a_step(const std::vector<flat_range>& usual) const;

  /// The tensor is complete when what is enqueued has run.
  packed_state pack(const protocols::shard_piece& piece, const named_buffers& blocks, in_flight& held) const;
  /// From now on the piece is here; false: it is none of this shard's.
  bool install(const protocols::shard_piece& piece, const kernels::buffer& data, const named_buffers& blocks, in_flight& held);

private:
  flat_range part_of(const protocols::shard_piece& piece) const;
  std::byte* place_in(const kernels::buffer& block, flat_range part) const;

  std::shared_ptr<kernels::backend> queue_;
  flat_range range_;
  std::vector<flat_range> partitions_;
  std::optional<std::set<std::uint32_t>> here_;
};

/// A piece with its tensor, if it has one.
struct received_piece {
  protocols::shard_piece piece;
  std::optional<kernels::buffer> data;
};
wire::result<received_piece> piece_in(const kernels::buffer& payload, std::uint64_t words);

} // namespace troupe::actors
