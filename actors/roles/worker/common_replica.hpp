// SPDX-License-Identifier: BSD-3-Clause
// A worker's own parameters where all workers take the same steps (protocols/allreduce.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "actors/roles/assembler.hpp"
#include "actors/roles/codec/chunk_encoder.hpp"
#include "actors/roles/holder/shard_step.hpp"
#include "kernels/backend.hpp"
#include "protocols/binding/operand.hpp"

namespace troupe::actors {

/// Parameters and optimizer state, of `floats` floats in host memory; steps are a single shard's, to the bit. A block with other
/// holders is never written, so tensors that were handed out do not change. One thread; everything has run when a call returns.
class common_replica {
public:
  /// `queue`: on the host. `data_size`, `ranges`: as in shard_step. `steps_by`: all of its steps are of this kind. Segments begin
  /// at multiples of `unit` floats.
  common_replica(std::shared_ptr<kernels::backend> queue, const optimizer_spec& spec, std::int64_t floats, std::int64_t data_size,
                 std::vector<update_range> ranges, const protocols::step_rule& steps_by = {}, std::int64_t unit = flat_alignment);

  /// It goes on with the optimizer of another one. To be called before the first step.
  void resume(const saved_state& from) { step_.resume(from); }
  /// Likewise with what this worker's own codes have lost.
  void resume_codes(const saved_state& from) {
    if (sums_)
      sums_->resume(from);
  }
  /// All that a shard would save. Not before it has begun.
  role_snapshot saved(protocols::version ver) const { return step_.snapshot({.ver = ver}, {0, floats_}, parameters_); }
  void begin(kernels::buffer parameters) { parameters_ = std::move(parameters); }
  const kernels::buffer& parameters() const { return parameters_; } ///< none before it has begun
  /// So much of a worker's own parameters, and the rest of these.
  protocols::operands<kernels::buffer> mean_with(double own) const;
  /// Where these segments are in a flat array.
  flat_range where(const protocols::segment_range& part) const;
  /// From now on terms and sums travel encoded.
  void encode_by(std::unique_ptr<chunk_encoder> sums) { sums_ = std::move(sums); }
  named_buffers kept_codes() const { return sums_ ? sums_->kept() : named_buffers{}; }
  /// What is sent of a chunk of this flat array: head and payload, of one that is not encoded by reference, but for a
  /// `cargo::copy`. What its sender goes on with becomes what its codes say: a sum, or its owner would have another one than its
  /// peers; so does a term that goes to all. `factors`: of the array, if it is a gradient that has any.
  void each_part(const protocols::send_peer& chunk, const kernels::buffer& of, const copied_factors& factors,
                 const std::function<void(const protocols::wire::peer_part&, const kernels::buffer&)>& send);
  kernels::buffer allocate(std::size_t bytes) const { return queue_->allocate_host(bytes); }
  kernels::buffer zeros() const;
  /// In `to`, a flat array, these segments become the sum of terms: of chunks of just these segments, or of what is in place.
  void add_up(const kernels::buffer& to, const protocols::segment_range& part, const protocols::operands<kernels::buffer>& sum);
  /// The next version, at a sum that is there in some segments: see protocols::take_step. Where a step needs all of a gradient,
  /// because that is clipped, or matrices have rates of their own, it is taken with the last.
  void take_step(const protocols::take_step& order, const kernels::buffer& sum);
  /// Those since the last of a version.
  void undo_steps();
  /// Parameters of the version that is being made, and where they are there. They are parameters() once it is made.
  incomplete_array coming() const { return {next_, stepped_}; }
  /// All of it in one block: parameters, the optimizer's buffers, and its memory. Not before it has begun.
  kernels::buffer state() const;
  /// How many floats that has: a multiple of 16.
  std::int64_t state_floats() const;
  void take_state(protocols::version ver, const kernels::buffer& from);

private:
  void keep_for_undo(flat_range where);

  std::shared_ptr<kernels::backend> queue_;
  double clip_norm_;
  bool at_once_; ///< a step needs all of its gradient
  std::int64_t floats_, unit_;
  shard_step step_;
  kernels::buffer parameters_;
  kernels::buffer next_;            ///< of the version that is being made
  std::vector<flat_range> stepped_; ///< where it is
  /// What its steps have changed there.
  struct {
    std::vector<double> memory;
    std::vector<kernels::buffer> buffers;
  } before_;
  std::unique_ptr<chunk_encoder> sums_; ///< none: what travels is as it is
};

/// What comes from peers in pieces, by sender, plan, round, stage and segments: chunks of a sum and states of replicas. One
/// thread.
class chunk_inbox {
public:
  explicit chunk_inbox(std::function<kernels::buffer(std::size_t)> allocate) : allocate_(std::move(allocate)) {}

  /// Adds a piece, decoded; false if it was refused: it came twice, is outside `whole`, what the head says that all pieces cover,
  /// or its bytes are not of the form.
  bool add(const protocols::wire::peer_part& part, flat_range whole, const kernels::buffer& payload);
  /// The whole once it is complete, without a copy if it came in one piece; its entry is gone.
  std::optional<kernels::buffer> take(const protocols::peer_message& head);
  /// `add`, then `take`, of what is under the worker's newest plan (none: null). What has no elements is whole at
  /// once. An error says why it was refused. `of`: null where workers do not take the same steps.
  result<std::optional<kernels::buffer>> join(const common_replica* of, const protocols::plan* newest,
                                              const protocols::wire::peer_part& part, const kernels::buffer& payload);
  /// Forgets what is of an older plan.
  void drop_before(protocols::plan_epoch epoch);

private:
  using key = std::tuple<protocols::plan_epoch, protocols::member, protocols::peer_message::kind, std::uint64_t, std::uint32_t,
                         protocols::segment_range>;
  static key key_of(const protocols::peer_message& head);
  static constexpr std::size_t max_open = 4096; ///< as an assembler has

  std::function<kernels::buffer(std::size_t)> allocate_;
  std::map<key, assembler<int>> open_;
};

} // namespace troupe::actors
