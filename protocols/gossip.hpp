// SPDX-License-Identifier: BSD-3-Clause
// A worker of decentralized training by sum-weight gossip (GoSGD: Blot et al. 2016; push-sum: Kempe, Dobra, Gehrke 2003).
#pragma once

#include <map>
#include <optional>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// Trains its own parameters x at its own pace and averages them with those of random peers. No worker waits.
///
/// It has a weight a, initially 1. After a step it mixes in the messages that have come, x = (a x + sum a_s x_s) / (a + sum a_s),
/// in worker order, and a grows by sum a_s. Then it divides a into equal shares for itself and k random peers, and sends (x,
/// share) to each. So mixing preserves sum a and sum a x over workers and messages, at any speeds, and all x tend to one average.
///
/// A sender's newest unmixed message replaces its earlier ones and takes over their weight. So memory is bounded by one tensor
/// per sender, and a worker that comes back after a pause gets its peers' present state. A message to a dead worker is lost with
/// its weight: this changes the average, but all x still tend to it.
///
/// x changes only when a step has ended. A replica that is evaluated holds the finished steps and says how many there are,
/// because the lead may not have heard of the last ones.
///
/// A weight of 0 means that x must not be spread: the next message replaces it. A worker that joins late starts this way, and so
/// does a replica that has diverged. One of a job that goes on from a checkpoint has the x and a of then; what was on its way is
/// lost. Where the checkpoint has none for it, it begins at the mean with weight 1. A message's weight travels in
/// `peer_message::weight`, its step in `round`.
class gossip_worker final : public worker {
public:
  gossip_worker(member self, std::uint32_t peers, std::uint64_t seed) : self_(self), peers_(peers), seed_(seed) {}

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override; ///< the initial ones; there are no others
  worker_effects on(const computed& msg) override;
  /// From itself: a message that the driver could not send because the peer is gone or behind; its weight comes back.
  worker_effects on(const peer_message& msg) override;
  worker_effects on(const fetch_order& msg) override;
  void goes_on(const worker_memory& from) override { memory_ = from; }
  /// As if it mixed now. The step under way is made again.
  kept_replica kept() const override;
  void check() const override;

  double weight() const { return weight_; }

private:
  worker_effects begin_if_ready();
  void go_on(worker_effects& out);
  bool nothing_came() const; ///< that is not mixed yet
  /// The sum of the weights here, its own and of what has come.
  double weight_here() const;
  std::vector<term> mean() const;
  void mix_in(worker_effects& out);
  void share_out(worker_effects& out);
  local_step next_step();

  member self_;
  std::uint32_t peers_;
  std::uint64_t seed_;
  plan plan_; ///< the newest
  std::optional<params> first_;
  bool begun_ = false, late_ = false; ///< late: joined a running job and has heard from no peer yet
  bool idle_ = false;                 ///< has no samples and nothing to pass on
  double weight_ = 0;
  /// The newest message of each sender. Once mixed, its tensor and weight are 0; a message that is not newer is refused.
  std::map<member, peer_message> heard_;
  std::uint64_t steps_ = 0;
  std::uint64_t position_ = 0, next_position_ = 0; ///< of the step under way, and of the next
  worker_memory memory_{};                         ///< with which it begins
  step_count made_;                                ///< steps that have been reported and are in x
};

protocol gossip_protocol();

} // namespace troupe::protocols
