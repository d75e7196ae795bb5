// SPDX-License-Identifier: BSD-3-Clause
// An allreduce's worker 0, and what it hears.
#pragma once

#include <cstdint>
#include <optional>

#include "protocols/allreduce.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {

using collective::algorithm;
using collective::facts;
using kind = peer_message::kind;

inline constexpr std::uint64_t model = 64; // bytes

inline member life(std::uint32_t worker) {
  return {w(worker), {}};
}

inline peer_message standing(std::uint32_t worker, std::uint32_t epoch, std::optional<std::uint64_t> at) {
  return {.from = life(worker), .round = at.value_or(0), .weight = at ? 1.0 : 0.0, .is = kind::standing, .epoch = e(epoch)};
}

inline peer_message chunk(std::uint32_t worker, std::uint64_t round, std::uint32_t stage, segment_range part, std::uint64_t data,
                          facts of = {10, 5}, std::uint32_t epoch = 1) {
  return {.from = life(worker),
          .round = round,
          .data = t(data),
          .is = kind::chunk,
          .epoch = e(epoch),
          .stage = stage,
          .part = part,
          .facts = of};
}

inline compute cut(std::uint64_t step, std::uint64_t position, std::uint32_t index, std::uint32_t n) {
  return {.step = step, .position = position, .batches = n, .cuts = n, .parts = {{index, 1}}};
}

inline computed done(std::uint64_t step, std::uint64_t gradient, std::int64_t samples = 10) {
  return {.step = step, .gradient = t(gradient), .samples = samples, .loss = 0.5, .compute = 3};
}

/// This worker, which has the initial parameters and has heard from each of the others: in its first step.
inline allreduce_worker begun(const plan& with, allreduce_worker worker, member self = life(0)) {
  worker.model_is(model);
  worker.on(with);
  worker.on(params{.epoch = with.epoch, .parameters = t(50)});
  for (const member& other : with.workers)
    if (other != self)
      worker.on(standing(other.worker.value, with.epoch.value, 0));
  return worker;
}
inline allreduce_worker begun(const plan& with, std::optional<algorithm> which = algorithm::direct) {
  return begun(with, allreduce_worker{life(0), {.which = which}});
}

/// Worker 0 of two, past its first version: in its second step.
inline allreduce_worker at_version_one() {
  allreduce_worker out = begun(plan_of(1, {0, 1}));
  out.on(done(1, 100));
  out.on(chunk(1, 1, 0, {0, 1, 2}, 101));
  out.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10}));
  return out;
}

} // namespace troupe::protocols
