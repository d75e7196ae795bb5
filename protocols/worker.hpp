// SPDX-License-Identifier: BSD-3-Clause
// The interface of a worker's half of a protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "protocols/collective/facts.hpp"
#include "protocols/effect.hpp"

namespace troupe::protocols {

/// With what a worker begins at the start of a job that goes on from a checkpoint.
struct worker_memory {
  std::uint64_t samples = 0; ///< applied before, by all workers
  bool has_replica = false;  ///< its own parameters and dual variable are as a worker of this number left them
  // With a replica, as `kept` said then:
  double weight = 0;
  std::uint64_t position = 0;
  collective::facts open{};
};
/// What a worker adds to a checkpoint where no two have the same parameters.
struct kept_replica {
  std::vector<term> sum{}; ///< its parameters; none: it has none that are of use
  double weight = 0;       ///< of these in the mean over all workers
  std::uint64_t position = 0;
  collective::facts open{}; ///< of local steps that are part of them, and of no version yet
};

/// Parameters in, effects out. Never throws on input.
class worker {
public:
  virtual ~worker() = default;
  virtual worker_effects on(const plan& msg) = 0;
  virtual worker_effects on(const params& msg) = 0;
  virtual worker_effects on(const computed& msg) = 0;
  virtual worker_effects on(const peer_message& msg) = 0;
  /// Only where gradients are summed in partitions, in any order, each once. `computed` brings the gradient once more.
  virtual worker_effects on(const computed_partition& msg) { return {discard{msg.gradient}}; }
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
  /// Before anything else.
  virtual void goes_on(const worker_memory& from) { (void)from; }
  /// For a checkpoint of now, between two messages.
  virtual kept_replica kept() const { return {}; }
  /// Whether it is still to make this version, and saves it then by itself, with `save_replica`: what it keeps now is another's.
  virtual bool saves_later(version ver) const {
    (void)ver;
    return false;
  }
  /// How long one set of parameters is, before anything else.
  virtual void model_is(std::uint64_t bytes) { (void)bytes; }
  /// How many partitions of a gradient are summed among workers each by itself, by plan::partition_kib; 1 unless it is said. To
  /// be called before anything else.
  virtual void partitions_are(std::function<std::uint32_t(std::uint32_t kib)> count) { (void)count; }
  /// tree_shape::blocks, before anything else: which workers share a node. Empty: nobody has asked for it.
  virtual void nodes_are(const std::vector<std::uint32_t>& blocks) { (void)blocks; }
  /// The peers from which it needs something now.
  virtual std::vector<worker_id> waiting_for() const { return {}; }
  /// Ends the process where an invariant of its state is broken. Between messages.
  virtual void check() const {}
};

} // namespace troupe::protocols
