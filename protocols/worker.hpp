// SPDX-License-Identifier: BSD-3-Clause
// The interface of a worker's half of a protocol.
#pragma once

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// Parameters in, effects out. Never throws on input.
class worker {
public:
  virtual ~worker() = default;
  virtual worker_effects on(const plan& msg) = 0;
  virtual worker_effects on(const params& msg) = 0;
  virtual worker_effects on(const computed& msg) = 0;
  virtual worker_effects on(const peer_message& msg) = 0;
  /// Asked of workers that hold the parameters themselves, while the job is held; answered with a `send_peer` to the evaluator.
  virtual worker_effects on(const fetch_order& msg) {
    (void)msg;
    return {};
  }
  /// Told to workers that hold the parameters themselves: where to stop. Replaces the previous one.
  virtual worker_effects on(const hold_order& msg) {
    (void)msg;
    return {};
  }
  /// Told to workers that all take the same steps: one of the next versions is for a checkpoint.
  virtual worker_effects on(const checkpoint_order& msg) {
    (void)msg;
    return {};
  }
  /// Told to those at the beginning of a job that goes on from a checkpoint: how many samples were applied before, and whether
  /// the worker's own parameters and dual variable are as one of this number had left them.
  virtual void goes_on(std::uint64_t samples, bool has_replica) {
    (void)samples;
    (void)has_replica;
  }
  /// How long one set of parameters is, before anything else.
  virtual void model_is(std::uint64_t bytes) { (void)bytes; }
  /// The peers from which it needs something now.
  virtual std::vector<worker_id> waiting_for() const { return {}; }
  /// Ends the process where an invariant of its state is broken. Between messages.
  virtual void check() const {}
};

} // namespace troupe::protocols
