// SPDX-License-Identifier: BSD-3-Clause
// What a worker sends instead of its gradients: their codes. It keeps what these lose.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "actors/job.hpp"
#include "kernels/buffer.hpp"
#include "protocols/ids.hpp"
#include "protocols/message.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// Encodes the pushes of one life of a worker, range by range, in host memory (kernels/codec.hpp). With error feedback, what the
/// codes of a push lose is added to the next push, each element at its place in the flat array. Used by one thread.
///
/// The residuals survive plans and aggregators, for they do not know of either; another life begins with zeros. A push that was
/// left out takes along what it carried, as without a codec. Numbers are drawn by worker, version and place, so a run that goes
/// on from a checkpoint draws the same.
class push_encoder {
public:
  using allocate_fn = std::function<kernels::buffer(std::size_t bytes)>;

  /// `floats`: of the flat array. `seed`: the job's.
  push_encoder(const codec_spec& how, protocols::worker_id worker, std::uint64_t seed, std::int64_t floats, allocate_fn allocate);

  kernels::form form() const { return form_; }
  /// The codes of these values of the flat array, as a part of this push; again for the same range: the same. The first range of
  /// another push ends the last, and takes it back unless it was settled.
  kernels::buffer encode(const protocols::push& push, flat_range where, std::span<const float> values);
  /// The push has been sent. Unless it is finite, everybody leaves it out: its residuals are as they were before it.
  void settle(const protocols::push& push);
  /// What its receivers make of the newest push, all of whose ranges were encoded: the whole flat array, in a block of its own.
  kernels::buffer decoded() const;
  std::span<const float> residual() const { return residual_; }

private:
  struct part {
    flat_range where;
    kernels::buffer codes;
  };
  void take_back();

  kernels::form form_;
  bool feeds_back_;
  protocols::worker_id worker_;
  std::uint64_t seed_;
  std::int64_t floats_;
  allocate_fn allocate_;
  std::vector<float> residual_, before_; ///< of all elements; before the newest push, where it has been encoded
  protocols::push_id newest_{};
  bool settled_ = true;
  std::map<std::int64_t, part> parts_; ///< of the newest push, by where they begin
};

} // namespace troupe::actors
