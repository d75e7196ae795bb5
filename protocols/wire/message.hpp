// SPDX-License-Identifier: BSD-3-Clause
// What travels over a lane: the messages of each step (protocols/message.hpp), addressed, with at most one payload each.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/form.hpp"
#include "protocols/message.hpp"

namespace troupe::protocols::wire {

/// Half-open range of the flat parameter array, in floats; multiples of 16.
struct range {
  std::int64_t begin = 0, end = 0;
  friend auto operator<=>(const range&, const range&) = default;

  kernels::coded_range elements() const { return {begin, end - begin}; }
};

/// One partition of a push; the payload is the range's elements, in this form. Parts come before their `push_end`.
struct push_part {
  holder_id to;
  plan_epoch epoch;
  push_id id;
  range where;
  kernels::form as = kernels::form::fp32;
  std::uint32_t bytes = 0; ///< of the payload, in a form that says them
  friend bool operator==(const push_part&, const push_part&) = default;
};
/// The trailer of a push (its gradient is 0): complete once `parts` partitions have come.
struct push_end {
  holder_id to;
  protocols::push push;
  std::uint32_t parts = 0;
  friend bool operator==(const push_end&, const push_end&) = default;
};
/// One partition of new parameters; the payload is the range's floats, or the code of what they differ by from those of the
/// version `base`. Complete once the whole flat array has come. It names all workers of the node that are sent this version in
/// the same way, and travels once.
struct params_part {
  std::vector<worker_id> to; ///< one at least, each once
  holder_id from;
  protocols::params params; ///< `parameters` is 0
  range where;
  kernels::form as = kernels::form::fp32; ///< otherwise a code
  version base{};
  std::uint32_t bytes = 0; ///< of the payload, in a form that says them
  friend bool operator==(const params_part&, const params_part&) = default;
};
/// One partition of an aggregator's sum, or of a shard's to its backups. `empty`: none of its workers counted; no payload.
struct partial_part {
  holder_id to, from;
  version ver;
  range where;
  bool empty = false;
  std::uint64_t decision = 0;             ///< as in `partial`
  kernels::form as = kernels::form::fp32; ///< or sparse_fp32
  std::uint32_t bytes = 0;                ///< of the payload, in a form that says them
  friend bool operator==(const partial_part&, const partial_part&) = default;
};
/// A decision_record, as encode_state makes it: `words` of 8 bytes, then zeros; the payload is the range's floats.
struct decision_part {
  holder_id to;
  range where; ///< begins at 0
  std::uint64_t words = 0;
  friend bool operator==(const decision_part&, const decision_part&) = default;
};
/// A shard_piece, as encode_state makes it: `words` of 8 bytes, zeros up to a multiple of 64 bytes, then the piece's tensor, if
/// it has one; the payload is the range's floats.
struct copy_part {
  holder_id to, from;
  range where; ///< begins at 0
  std::uint64_t words = 0;
  friend bool operator==(const copy_part&, const copy_part&) = default;
};
/// The small messages, addressed to one holder.
template <class Message>
struct addressed {
  holder_id to;
  Message message;
  friend bool operator==(const addressed&, const addressed&) = default;
};
/// One partition of a message between workers; the payload is the range's floats.
struct peer_part {
  worker_id to;
  peer_message message; ///< `data` is 0
  range where;
  kernels::form as = kernels::form::fp32; ///< of a chunk: any but a sparse one
  std::uint32_t bytes = 0;                ///< of the payload, in a form that says them
  friend bool operator==(const peer_part&, const peer_part&) = default;
};

using message = std::variant<push_part, push_end, params_part, partial_part, addressed<arrival>, addressed<close>,
                             addressed<send_order>, addressed<drop_order>, peer_part, addressed<prepared>,
                             addressed<commit_order>, decision_part, addressed<admit_order>, addressed<copy_request>, copy_part>;

} // namespace troupe::protocols::wire
