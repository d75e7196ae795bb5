// SPDX-License-Identifier: BSD-3-Clause
// A whole job in one process without time or tensors: the machines, a queue per link, and checkers apart from the machines.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "protocols/coordinator.hpp"
#include "protocols/dice.hpp"
#include "protocols/params_worker.hpp"
#include "protocols/holder.hpp"
#include "protocols/lead.hpp"

namespace troupe::protocols {

struct cluster_options {
  coordinator_options job{};
  std::uint64_t seed = 0;       ///< of the schedule; 0: always the oldest message, nothing at random
  double duplicate = 0;         ///< probability that a message is delivered twice
  double wild = 0;              ///< probability that a gradient is not finite
  std::uint32_t deaths = 0;     ///< workers to kill at random moments
  std::uint32_t comebacks = 0;  ///< dead workers to bring back
  std::uint32_t latecomers = 0; ///< workers beyond the first plan's
  std::uint32_t aggregator_deaths = 0;
};

/// Links are queues in order; which link delivers next is up to the seed. A dead worker's queues lose a random tail. Anything
/// that breaks an invariant is noted in `broken`.
///
/// A tensor is the multiset of pushes that it sums: {push: weight}. So what a shard applied can be read off exactly.
class cluster {
public:
  using tensor = std::map<push_id, double>;

  explicit cluster(const cluster_options& options);

  /// Every worker joins.
  void start();
  /// Delivers one message, and perhaps makes a fault happen; false when nothing is left to deliver.
  bool step();
  /// Steps until nothing is left.
  void run();
  void kill(worker_id who);
  void come_back(worker_id who);
  void join_late();
  void kill_aggregator(holder_id who);

  bool ended() const { return ended_; }
  const stop& end() const { return end_; }
  version made() const { return lead_->current(); }
  /// What each shard made of each version, version 1 first.
  const std::vector<std::vector<tensor>>& applied() const { return applied_; }
  /// Where in the data the samples of this push come from.
  std::pair<std::uint64_t, std::uint64_t> slice_of(push_id id) const { return slices_.at(id); }
  std::size_t kept() const;                          ///< pushes at all holders
  std::size_t open() const { return lead_->open(); } ///< pushes that the lead has not decided
  std::size_t tensors() const;                       ///< that some holder's driver keeps
  const std::vector<std::string>& broken() const { return broken_; }
  const std::vector<std::string>& trace() const { return trace_; }
  const std::vector<version>& evaluations() const { return evaluations_; }

private:
  struct endpoint {
    char kind = 'c'; ///< coordinator, lead, holder, worker, evaluator
    std::uint32_t index = 0;
    friend auto operator<=>(const endpoint&, const endpoint&) = default;
  };
  struct parcel {
    std::uint64_t sent = 0;
    std::string text;
    std::function<void()> deliver;
  };
  struct worker_seat {
    incarnation life;
    bool alive = false;
    std::unique_ptr<params_worker> machine;
    std::map<std::pair<version, plan_epoch>, std::set<holder_id>> incoming; ///< shards whose part has come
  };
  struct holder_seat {
    explicit holder_seat(const holder_place& at) : place(at), machine(at) {}
    holder_place place;
    holder machine;
    bool alive = true;
    std::uint64_t last_ticket = 0;
    std::map<ticket, tensor> kept;
  };

  static std::string name_of(endpoint who);
  void send(endpoint from, endpoint to, std::string text, std::function<void()> deliver);
  void forget_links(std::function<bool(endpoint from, endpoint to)> which, bool tail_only);
  void faults();
  void breaks(std::string what) { broken_.push_back(std::move(what)); }
  worker_seat* alive(member who);

  void perform(const coordinator_effects& effects);
  void perform(const lead_effects& effects);
  void perform(holder_seat& at, const holder_effects& effects);
  void perform(member self, const worker_effects& effects);
  void broadcast(const std::string& text, const std::function<void(holder_seat&)>& deliver, bool from_lead);
  void check(const close& round);
  void check_limit(const close& round);
  ticket keep(holder_seat& at, tensor what);
  tensor take(holder_seat& at, const std::vector<term>& sum);
  void push_to_holders(member self, const push& what);
  void send_parameters(holder_id from, const std::vector<worker_id>& to, const params& what);
  void parameters_came(worker_id to, holder_id from, const params& what);
  void fetched(holder_id from, version ver);

  cluster_options options_;
  dice dice_;
  std::vector<holder_place> tree_;
  coordinator coordinator_;
  std::unique_ptr<lead> lead_;
  std::vector<std::unique_ptr<holder_seat>> holders_;
  std::map<worker_id, worker_seat> workers_;
  std::map<std::pair<endpoint, endpoint>, std::deque<parcel>> links_;
  std::uint64_t sent_ = 0;

  std::set<member> down_at_lead_;
  std::set<push_id> used_, dropped_;
  hold_order limit_; ///< that the lead has heard last, while it is not reached
  std::uint64_t samples_used_ = 0;
  std::map<push_id, push> pushed_;
  std::map<push_id, std::pair<std::uint64_t, std::uint64_t>> slices_;
  std::map<plan_epoch, plan> plans_;
  std::map<version, std::set<holder_id>> fetched_;
  std::vector<std::vector<tensor>> applied_;
  std::vector<version> evaluations_;
  std::vector<std::string> broken_, trace_;
  bool aggregator_died_ = false, ended_ = false;
  stop end_;
};

} // namespace troupe::protocols
