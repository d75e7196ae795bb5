// SPDX-License-Identifier: BSD-3-Clause
// Who evaluates: replaced where it fails, moved where its node is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include <caf/expected.hpp>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "kernels/buffer.hpp"

namespace troupe::actors {

/// An evaluator that fails by itself, or gets nowhere, is replaced on its node. If the new one has evaluated nothing when it is
/// lost, too, the next would do no better, and the job ends. If its node is lost, it goes to the lead's, however often.
///
/// Part of the coordinator, and used on its thread alone.
class evaluator_seat {
public:
  /// The coordinator.
  class owner {
  public:
    virtual ~owner() = default;
    /// Another evaluator is there: whatever is being evaluated begins again.
    virtual void evaluate_again() = 0;
    virtual void fail(const std::string& reason) = 0;
  };

  evaluator_seat(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places,
                 const std::set<std::uint32_t>& lost, owner& by)
      : self_(self), setup_(setup), places_(places), lost_(lost), by_(by) {}

  /// "evaluator 0 (node-1)".
  std::string name() const { return "evaluator 0 (" + setup_.nodes[places_.evaluator].name + ")"; }
  /// It died, or gets nowhere.
  void lost(const std::string& reason);
  void evaluated() { is_untried_ = false; }
  /// Nothing happens unless its node is lost and the lead's is not.
  void move();
  /// The parameters of a version that it has, in this process: `floats` of them. Every piece has a deadline.
  void fetch(protocols::version ver, std::uint64_t floats, std::function<void(caf::expected<kernels::buffer>)> take) const;

private:
  const node_actor& node() const { return setup_.nodes[places_.evaluator].actor; }
  void could_not_be_replaced(const caf::error& why);

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_places& places_;
  const std::set<std::uint32_t>& lost_; ///< nodes
  owner& by_;
  bool is_untried_ = false; ///< one that took another's place
};

} // namespace troupe::actors
