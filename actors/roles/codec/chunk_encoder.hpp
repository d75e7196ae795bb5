// SPDX-License-Identifier: BSD-3-Clause
// What a worker sends instead of chunks of a sum among workers: their codes. It keeps what these lose.
#pragma once

#include <cstdint>
#include <span>

#include "actors/roles/codec/push_encoder.hpp"
#include "protocols/collective/schedule.hpp"

namespace troupe::actors {

/// Encodes the chunks of one life of a worker, in host memory: its terms, on their way to the owners of segments or to all, and
/// as an owner its sums. So a term is rounded once and a sum once, whatever the number of workers. With error feedback, what is
/// lost of either is added to what is next encoded there, each element at its place in the flat array. Used by one thread.
///
/// The two are apart, for a plan may give a segment to another owner: a term counts by its share of a sum, a sum by all of it.
/// A round that is computed anew, or makes no version, is taken back. Numbers are drawn by worker, version and place.
class chunk_encoder {
public:
  /// `floats`: of the flat array. Of the job as a push_encoder; `factored`, too.
  chunk_encoder(const job& job, protocols::member self, std::int64_t floats, const push_encoder::allocate_fn& allocate,
                factored_slots factored = {});

  kernels::form form() const { return terms_.form(); }
  /// The partitions of a chunk, each of which is encoded by itself.
  std::vector<flat_range> cut(flat_range whole) const { return cut_into_partitions(whole, chunk_partition_bytes, factored_); }
  /// The codes of these values of the flat array, as a part of this chunk, which is not plain; again for the same range: the
  /// same.
  kernels::buffer encode(const protocols::peer_message& chunk, protocols::collective::cargo cargo_kind, flat_range where,
                         std::span<const float> values, const copied_factors& factors = {});
  /// Whether it has been encoded.
  bool has(const protocols::peer_message& chunk, protocols::collective::cargo cargo_kind, flat_range where) const;
  /// With its form and its bytes, once it has been.
  protocols::wire::peer_part head_of(protocols::collective::cargo cargo_kind, const protocols::wire::peer_part& part) const {
    return (cargo_kind == protocols::collective::cargo::sum ? sums_ : terms_).head_of(part);
  }
  /// What codes of this form say.
  static void decode(kernels::form form, flat_range where, const kernels::buffer& codes, std::span<float> values);
  /// This version is there, made of what was encoded for it, if anything was.
  void made(protocols::version ver);
  /// As a push_encoder does; of sums under names of their own.
  named_buffers kept() const;
  void resume(const saved_state& from);

private:
  bool is_newest(const protocols::peer_message& chunk) const;

  factored_slots factored_;
  push_encoder terms_, sums_;
  protocols::push round_; ///< as which the newest round is encoded; its clock counts the rounds
};

} // namespace troupe::actors
