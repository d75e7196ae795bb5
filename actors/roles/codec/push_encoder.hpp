// SPDX-License-Identifier: BSD-3-Clause
// What a worker sends instead of its gradients: their codes. It keeps what these lose.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint/saved_state.hpp"
#include "actors/job.hpp"
#include "kernels/buffer.hpp"
#include "protocols/ids.hpp"
#include "protocols/message.hpp"
#include "protocols/protocol.hpp"
#include "protocols/push_budget.hpp"
#include "protocols/wire/message.hpp"
#include "tensor/factored.hpp"
#include "tensor/model.hpp"

namespace troupe::actors {

/// Encodes the pushes of one life of a worker, range by range, in host memory (kernels/codec.hpp, kernels/sparse.hpp). With error
/// feedback, what the codes of a push lose is added to the next push, each element at its place in the flat array. Used by one
/// thread.
///
/// The residuals survive plans and aggregators, for they do not know of either; another life begins with zeros, unless it goes on
/// from a checkpoint. A push that was left out takes along what it carried, as without a codec; one whose version is answered
/// once more, for its round has begun again, is taken back. Numbers are drawn by worker, version and place, so a run that goes on
/// from a checkpoint draws the same.
///
/// topk sends the largest elements, threshold all that have reached it. dgc (Lin et al. 2018) sends the largest sums of
/// velocities: u = m u + g, v = v + u, and u = v = 0 where v is sent. The norm of g is at most clip / sqrt(workers). Of topk with
/// a budget, the driver says before each push how dense it may be. factors sends a range that lies in one parameter which has
/// factors as these, or multiplied where they take more bytes, and all else as it is.
class push_encoder {
public:
  using allocate_fn = std::function<kernels::buffer(std::size_t bytes)>;

  /// `floats`: of the flat array; `factored`: what has factors, of codec.push = "factors". Of the job it reads `codec`, `seed`,
  /// `optimizer.momentum` and `cluster.workers`.
  push_encoder(const job& job, protocols::worker_id worker, std::int64_t floats, allocate_fn allocate,
               factored_slots factored = {});

  kernels::form form() const { return how_.form(); }
  /// Whether it has to measure a push, all of it, before it encodes the first range.
  bool clips() const { return how_.clip > 0; }
  /// Does nothing unless it clips.
  void measure(std::span<const float> whole);
  /// From the next range on, instead of `codec.density`.
  void allow(protocols::push_density how_dense) { allowed_ = how_dense; }
  /// The codes of these values of the flat array, as a part of this push; again for the same range: the same. The first range of
  /// another push ends the last, and takes it back unless it was settled, or if it answers the same version. `factors`: of these
  /// values, if there are any.
  kernels::buffer encode(const protocols::push& push, flat_range where, std::span<const float> values,
                         const copied_factors& factors = {});
  /// Whether this range of the push has been encoded.
  bool has(const protocols::push& push, flat_range where) const { return push.id == newest_ && find({where.begin, where.end}); }
  /// The head of a part of the newest push, with its form, and with its bytes if its range has been encoded.
  template <class Head>
  Head head_of(Head head) const {
    const part* known = find({head.where.begin, head.where.end});
    head.as = known ? known->as : form();
    head.bytes = known && kernels::says_bytes(known->as) ? static_cast<std::uint32_t>(known->codes.bytes()) : 0;
    return head;
  }
  /// The push has been sent. Unless it is finite, everybody leaves it out: its residuals are as they were before it.
  void settle(const protocols::push& push);
  /// Of the codes of the newest push.
  std::uint64_t bytes() const;
  /// What its receivers make of the newest push, all of whose ranges were encoded: the whole flat array, in a block of its own.
  kernels::buffer decoded() const;
  std::span<const float> residual() const { return residual_.now; }
  /// Copies of what the next push needs of those before, by name, for a checkpoint: "codec.residual" and, of dgc,
  /// "codec.velocity". A push that is not settled has changed nothing.
  named_buffers kept() const;
  /// It goes on with what another one kept; of other names, nothing. To be called before the first push.
  void resume(const saved_state& from);

private:
  struct part {
    flat_range where;
    kernels::buffer codes;
    kernels::form as{};
  };
  /// Of all elements, or of none: what is not used. Where the newest push has been encoded, also as it was before.
  struct memory {
    std::vector<float> now, before;
    std::span<float> remember(flat_range where);
    void take_back(flat_range where);
  };
  const part* find(flat_range where) const;
  kernels::buffer encode_all(protocols::version base, flat_range where, std::span<const float> values);
  kernels::buffer encode_some(protocols::version base, flat_range where, std::span<const float> values);
  part encode_product(flat_range where, std::span<const float> values, const copied_factors& factors) const;
  kernels::buffer sparse(flat_range where, std::span<const std::uint32_t> places, std::span<const float> values) const;
  bool add_up(flat_range where, std::span<const float> values);
  void take_back();

  codec_spec how_;
  float momentum_;
  float scale_ = 1; ///< of the newest push, which is clipped
  std::optional<protocols::push_density> allowed_{};
  protocols::worker_id worker_;
  std::uint64_t seed_;
  std::uint32_t workers_;
  std::int64_t floats_;
  allocate_fn allocate_;
  factored_slots factored_;
  memory residual_, velocity_;
  std::vector<float> whole_; ///< of one range: all that could be sent
  protocols::push_id newest_{};
  protocols::version base_{}; ///< of the newest push
  bool settled_ = true;
  std::map<std::int64_t, part> parts_; ///< of the newest push, by where they begin
};

/// What of this model travels as factors: nothing unless codec.push = "factors".
factored_slots factored_slots_of(const job& job, const model& net);

/// What a worker of this job, which runs this protocol, may push; none: it has no budget. `floats`: of the flat array.
std::optional<protocols::push_budget> push_budget_of(const job& job, const protocols::protocol& runs, std::int64_t floats);

} // namespace troupe::actors
