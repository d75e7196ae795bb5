// SPDX-License-Identifier: BSD-3-Clause
// What an evaluator collects where there is no centre: every worker's replica, and their average. The actor and the simulator
// both run it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/message.hpp"

namespace troupe::protocols {

/// Collects one version at a time, of the workers that the newest plan names: whoever dies meanwhile is left out by the next
/// plan. What comes before it is asked for is kept; what is old, or of nobody in the plan, is ignored.
template <class Tensor>
class replica_collection {
public:
  struct average {
    version ver{};
    operands<Tensor> terms{}; ///< by worker; empty: nobody has sent a tensor
    std::vector<std::pair<member, step_count>> made{};
  };

  /// The average, once the last replica that was missing has come or is not to come.
  std::optional<average> on(const plan& msg) {
    members_ = msg;
    std::erase_if(replicas_, [this](const auto& each) { return !members_.has(each.second.head.from); });
    std::erase_if(missing_, [this](member who) { return !members_.has(who); });
    return complete();
  }
  /// Collect this version. Asked again, for somebody has died, it changes nothing.
  std::optional<average> on(const fetch_order& msg) {
    if (collecting_ || msg.ver <= averaged_)
      return std::nullopt;
    TROUPE_ASSERT(missing_.empty());
    collecting_ = msg.ver;
    for (const member& who : members_.workers)
      if (const auto sent = replicas_.find(who); sent == replicas_.end() || version{sent->second.head.round} != msg.ver)
        missing_.insert(who);
    return complete();
  }
  /// None where its weight is 0, or where it has nothing yet.
  std::optional<average> on(const peer_message& head, std::optional<Tensor> what) {
    if (!members_.has(head.from) || version{head.round} <= averaged_)
      return std::nullopt;
    replicas_[head.from] = {head, std::move(what)};
    if (version{head.round} == collecting_)
      missing_.erase(head.from);
    return complete();
  }

  bool collects() const { return collecting_.has_value(); }
  version collected() const { return collecting_.value_or(averaged_); } ///< now or last
  const std::set<member>& missing() const { return missing_; }          ///< whose replicas it waits for

private:
  struct replica {
    peer_message head;
    std::optional<Tensor> what;
  };

  std::optional<average> complete() {
    if (!collecting_ || !missing_.empty())
      return std::nullopt;
    TROUPE_ASSERT(*collecting_ > averaged_);
    averaged_ = *std::exchange(collecting_, std::nullopt);
    average out{.ver = averaged_};
    double total = 0, count = 0;
    for (const auto& [who, each] : replicas_)
      if (each.what) {
        total += each.head.weight;
        ++count;
      }
    for (auto& [who, each] : std::exchange(replicas_, {})) {
      TROUPE_ASSERT(members_.has(who));
      out.made.emplace_back(each.head.from, each.head.made);
      // By weights. If nobody has one each has diverged, and the average shows it.
      if (each.what && (each.head.weight > 0 || total == 0))
        out.terms.push_back({.what = *std::move(each.what), .weight = total > 0 ? each.head.weight / total : 1 / count});
    }
    return out;
  }

  plan members_;
  std::optional<version> collecting_;
  version averaged_; ///< the last
  std::set<member> missing_;
  std::map<member, replica> replicas_;
};

} // namespace troupe::protocols
