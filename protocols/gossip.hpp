// SPDX-License-Identifier: BSD-3-Clause
// A worker of gossip, which has no centre: sum-weight gossip (GoSGD: Blot et al. 2016; push-sum: Kempe, Dobra, Gehrke 2003).
#pragma once

#include <map>
#include <optional>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// The worker: trains parameters x of its own, at its own pace, and averages them with those of random others. Nobody waits.
///
/// It has a weight a, 1 at first. After a step it mixes in what has come, x = (a x + sum a_s x_s) / (a + sum a_s), in worker
/// order, and a grows by sum a_s; then it gives equal shares of a to k random others and itself, and sends (x, share) to
/// each. So sum a and sum a x over workers and messages stay what they were, but for the steps, whoever is slow or fast: all
/// x tend to one average.
///
/// Of a sender's messages that have not been mixed, the newest stands for all, with the weight of all: memory is bounded by
/// one tensor a sender, and whoever comes back after a pause finds the others where they are, not where they were. What goes
/// to the dead takes its weight along, which changes the average and not that all tend to it.
///
/// x is what it was until a step has ended: what is evaluated holds the finished steps and says how many these are, for the
/// lead may still be without the news of the last ones.
///
/// A weight of 0 says that x is not to be spread: it is taken over whole from the next message. So begins whoever joins late,
/// and so does a replica that has diverged. The messages' weights travel in `peer_message::weight`, steps in `round`.
class gossip_worker final : public worker {
public:
  gossip_worker(member self, std::uint32_t peers, std::uint64_t seed) : self_(self), peers_(peers), seed_(seed) {}

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override; ///< the first ones; there are no others
  worker_effects on(const computed& msg) override;
  /// From itself: what a driver could not send, its peer being gone or behind; the weight comes back.
  worker_effects on(const peer_message& msg) override;
  worker_effects on(const fetch_order& msg) override;
  void check() const override;

  double weight() const { return weight_; }

private:
  worker_effects begin_if_ready();
  void go_on(worker_effects& out);
  void mix_in(worker_effects& out);
  void share_out(worker_effects& out);
  local_step next_step();

  member self_;
  std::uint32_t peers_;
  std::uint64_t seed_;
  plan plan_; ///< the newest
  std::optional<params> first_;
  bool begun_ = false, late_ = false; ///< late: joined a job that had begun, and has heard of nobody yet
  bool idle_ = false;                 ///< has no samples, and nothing to pass on
  double weight_ = 0;
  /// What has come, by sender. Once mixed, its tensor and weight are 0; what is not newer is refused.
  std::map<member, peer_message> heard_;
  std::uint64_t steps_ = 0, position_ = 0;
  step_count made_; ///< steps that have been reported, and are in x
};

protocol gossip_protocol();

} // namespace troupe::protocols
