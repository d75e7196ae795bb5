// SPDX-License-Identifier: BSD-3-Clause
// Whose orders a node obeys.
#pragma once

#include <cstdint>
#include <set>

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>

#include "actors/messages/node.hpp"
#include "actors/roles/activity.hpp"

namespace troupe::actors {

/// A node obeys the coordinator of its job, and none that coordinated it before: what that one says late is about a job that is
/// over, or that another one leads. Each is remembered until it has ended, since nothing more can come from it then. And it
/// follows none of an older term: among several leaders of a cluster, one that does not know yet that it was replaced.
///
/// Part of a node, and used on its thread alone.
class allegiance {
public:
  explicit allegiance(measured_pointer<node_control> self) : self_(self) {}

  /// The cluster that the node has joined says so; another cluster of that name may have begun anew.
  void led_by(std::uint64_t term) { term_ = term; }
  bool is_of_term(std::uint64_t term) const { return term >= term_; }
  /// From now on this one, of a term that is not older. It may be null, as in tests.
  void follow(const coordinator_actor& next, std::uint64_t term) {
    term_ = term;
    ++followed_;
    if (next == current_)
      return;
    if (current_)
      former_.insert(current_.address());
    current_ = next;
    if (!next)
      return;
    former_.erase(next.address());
    self_->monitor(next);
  }
  /// `who` sent an order; null: nobody knows who did.
  bool obeys(const caf::strong_actor_ptr& who) const { return !former_.contains(caf::actor_cast<caf::actor_addr>(who)); }
  /// An actor has ended. Whether it was the coordinator that is followed: there is none then.
  bool lost(const caf::actor_addr& who) {
    former_.erase(who);
    if (!current_ || current_.address() != who)
      return false;
    current_ = nullptr;
    return true;
  }
  /// How many have been followed so far.
  std::uint64_t followed() const { return followed_; }

private:
  measured_pointer<node_control> self_;
  coordinator_actor current_{};
  std::set<caf::actor_addr> former_;
  std::uint64_t term_ = 0, followed_ = 0;
};

} // namespace troupe::actors
