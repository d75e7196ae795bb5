// SPDX-License-Identifier: BSD-3-Clause
// What an evaluator collects in a decentralized job: every worker's replica, and their average. Both the actor and the simulator
// run it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/message.hpp"

namespace troupe::protocols {

/// Collects one version at a time from the workers in the newest plan: the next plan leaves out those that die meanwhile.
/// Replicas that come early are kept; those that are old, or of a worker outside the plan, are ignored.
///
/// Where all replicas are the same, the first that comes is enough: the plan's first worker is asked, and if that dies, the next
/// plan's.
template <class Tensor>
class replica_collection {
public:
  explicit replica_collection(bool same = false) : same_(same) {}

  struct average {
    version ver{};
    operands<Tensor> terms{}; ///< by worker; empty: no worker has sent a tensor
    std::vector<std::pair<member, step_count>> made{};
  };

  /// The average, once the last missing replica has come or is no longer expected.
  std::optional<average> on(const plan& msg) {
    members_ = msg;
    std::erase_if(replicas_, [this](const auto& each) { return !members_.has(each.second.head.from); });
    std::erase_if(missing_, [this](member who) { return !members_.has(who); });
    expect_one();
    return complete();
  }
  /// Collect this version. Repeating the order, after a death, changes nothing.
  std::optional<average> on(const fetch_order& msg) {
    if (collecting_ || msg.ver <= averaged_)
      return std::nullopt;
    TROUPE_ASSERT(missing_.empty());
    collecting_ = msg.ver;
    for (const member& who : members_.workers)
      if (const auto sent = replicas_.find(who); sent == replicas_.end() || version{sent->second.head.round} != msg.ver)
        missing_.insert(who);
    expect_one();
    return complete();
  }
  /// No tensor if its weight is 0, or if the worker has none yet.
  std::optional<average> on(const peer_message& head, std::optional<Tensor> tensor) {
    if (!members_.has(head.from) || version{head.round} <= averaged_)
      return std::nullopt;
    replicas_[head.from] = {head, std::move(tensor)};
    if (version{head.round} == collecting_)
      missing_.erase(head.from);
    if (same_ && version{head.round} == collecting_)
      missing_.clear();
    return complete();
  }

  bool collects() const { return collecting_.has_value(); }
  version collected() const { return collecting_.value_or(averaged_); } ///< now or last
  const std::set<member>& missing() const { return missing_; }          ///< whose replicas it waits for

private:
  struct replica {
    peer_message head;
    std::optional<Tensor> tensor;
  };

  void expect_one() {
    const bool is_here =
        std::ranges::any_of(replicas_, [this](const auto& each) { return version{each.second.head.round} == collecting_; });
    if (same_ && collecting_)
      missing_ = is_here || members_.workers.empty() ? std::set<member>{} : std::set{members_.workers.front()};
  }

  std::optional<average> complete() {
    if (!collecting_ || !missing_.empty())
      return std::nullopt;
    TROUPE_ASSERT(*collecting_ > averaged_);
    averaged_ = *std::exchange(collecting_, std::nullopt);
    average out{.ver = averaged_};
    double total = 0, count = 0;
    for (const auto& [who, each] : replicas_)
      if (each.tensor) {
        total += each.head.weight;
        ++count;
      }
    for (auto& [who, each] : std::exchange(replicas_, {})) {
      TROUPE_ASSERT(members_.has(who));
      out.made.emplace_back(each.head.from, each.head.made);
      // By weights. If all are 0, every replica has diverged, and the average shows it.
      if (each.tensor && (each.head.weight > 0 || total == 0))
        out.terms.push_back({.tensor = *std::move(each.tensor), .weight = total > 0 ? each.head.weight / total : 1 / count});
    }
    return out;
  }

  bool same_;
  plan members_;
  std::optional<version> collecting_;
  version averaged_; ///< the last
  std::set<member> missing_;
  std::map<member, replica> replicas_;
};

} // namespace troupe::protocols
