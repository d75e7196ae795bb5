// SPDX-License-Identifier: BSD-3-Clause
// A protocol as one value: its name, its parameters, its traits, and its machines.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocols/collective/schedule.hpp"
#include "protocols/controller.hpp"
#include "protocols/parameters.hpp"
#include "protocols/params_worker.hpp"
#include "protocols/round_cost.hpp"
#include "protocols/round_policy.hpp"
#include "protocols/rule.hpp"

namespace troupe::protocols {

/// What a protocol makes its roles keep besides the parameters and a gradient.
struct footprint {
  bool replica = false;         ///< workers: their own parameters, with their own optimizer
  bool replica_goes_on = false; ///< workers: a version changes these in part, so that no two workers have the same
  bool pushed_replica = false;  ///< workers: the replica as it was pushed
  bool velocity = false;        ///< workers: a momentum of the protocol, instead of the optimizer's state
  bool dual = false;            ///< workers: a dual variable
  bool backups = false;         ///< shards: each worker's current version
  bool outer_momentum = false;  ///< shards: the state of the step on the workers' mean
  std::uint32_t parts = 1;      ///< workers: parts of a batch that each computes; if several, their sum is kept too

  /// What either of them keeps.
  footprint combined_with(const footprint& other) const;
};

/// How workers make a sum among themselves.
struct sum_shape {
  collective::algorithm by{};
  collective::topology among{1};
  std::uint32_t fragments = 1; ///< the parameters are so many, as even as it goes, and each sum is of the next
};

/// One protocol. Only its own file knows its name; other code asks for its traits here.
struct protocol {
  std::string name{};
  std::string summary{};       ///< one line for `troupe protocols`
  std::string round_is_full{}; ///< when a round is full, and with what weights
  std::string recipients{};    ///< who gets parameters, and when
  std::string pays_when{};     ///< for README.md's table; optional for added protocols

  bool per_push = false; ///< runs at every shard, each push alone
  bool takes_fan_in = false;
  bool decentralized = false; ///< the workers hold the parameters; the shard gives out the initial ones and counts steps
  bool decodes = false;       ///< workers compute parts of each other's batches, and the rule decodes their pushes
  /// A push is a worker's parameters, not what they are to move by: what a codec loses does not shrink as training converges.
  bool pushes_parameters = false;
  bool own_samples = false;  ///< meant for workers that keep samples of their own
  bool keeps_pushes = false; ///< a version is made of older pushes, too, which a checkpoint does not have, nor a backup
  /// All that a job goes on with is in the shards, in the rule, in the controller, in what all workers have alike, in what a
  /// worker's `kept` tells, or its momentum. What else a worker has, one that joins does without.
  bool resumable = false;

  std::vector<parameter_info> parameters{};
  /// The parameter that gives the local steps between communications. Absent: 1.
  std::optional<parameter<std::int64_t>> period{};
  /// Pushes that a worker may be ahead of the slowest. Absent: it has no such bound.
  std::function<std::uint64_t(const protocol_spec&)> clock_bound{};
  /// What is wrong with the parameters together, or with this number of workers; empty if valid. Absent: nothing to validate.
  std::function<std::string(const protocol_spec&, std::uint32_t workers)> validate{};
  /// decentralized, and all workers take the same steps, each at a sum of so many bytes that they make among themselves: how they
  /// make it, by tree_shape::blocks if it asks for nodes. Absent: they do not.
  std::function<sum_shape(const protocol_spec&, std::uint32_t workers, const std::vector<std::uint32_t>& blocks,
                          std::uint64_t bytes)>
      reduces{};
  /// Whether its workers are to know who shares a node. Absent: no.
  std::function<bool(const protocol_spec&)> asks_for_nodes{};
  /// Likewise, the step that they take at the sum. Absent: the job's optimizer's.
  std::function<step_rule(const protocol_spec&)> steps_by{};
  /// Absent: nothing more.
  std::function<footprint(const protocol_spec&)> keeps{};
  /// Nanoseconds that a round takes for each 1/n of its samples, given the times of the plan's n workers. auto compares them; if
  /// absent, auto cannot choose this protocol.
  std::function<double(const protocol_spec&, const plan&, round_times)> cost{};
  /// The protocols that it chooses from while the job runs; the first is the initial one. Absent: itself alone.
  std::function<std::vector<protocol_spec>(const protocol_spec&)> candidates{};

  /// For round_protocol(): when rounds are full, and what the workers do. An absent task computes a gradient.
  policy_maker policy{};
  task_maker task{};

  std::function<std::unique_ptr<rule>(const protocol_spec&, std::uint64_t seed)> make_rule{};
  std::function<std::unique_ptr<worker>(const protocol_spec&, member self, std::uint64_t seed)> make_worker{};
  /// Absent: nothing changes while the job runs.
  std::function<std::unique_ptr<controller>(const protocol_spec&)> make_controller{};

  /// Whether every worker has parameters of its own, and no shard has any but the first: checkpoints are of workers alone.
  bool replicas_differ() const { return decentralized && !reduces; }
  /// Whether its shards may have backups: a version is the sum of a round, and what is kept between rounds goes with the lead.
  bool may_have_backups() const { return resumable && !per_push && !decentralized && !keeps_pushes; }
  /// Whether a version may be made of the sum of several workers' gradients, which is then clipped by its own norm. Elsewhere
  /// each push or each local step is.
  bool sums_gradients(const protocol_spec& spec) const;
  /// Whether workers make sums among themselves, and these are of gradients, not of what local steps moved by.
  bool reduces_gradients(const protocol_spec& spec) const { return reduces && !(keeps && keeps(spec).replica); }
  /// Local steps between communications, at first.
  std::uint32_t period_of(const protocol_spec& spec) const;
};

/// Completes a protocol with rounds: adds a rule by its policy and workers with its task.
protocol round_protocol(protocol draft);

/// For `make_worker`: workers that answer parameters with a push, by this task; `once_a_version` as params_worker says.
inline auto params_worker_maker(task_maker make, bool once_a_version = false) {
  return [make = std::move(make), once_a_version](const protocol_spec&, member self, std::uint64_t) {
    return std::make_unique<params_worker>(self, make, once_a_version);
  };
}
/// For `make_worker`, where each push is applied alone: the gradient of a slice that the worker is given.
inline auto own_slice_worker_maker() {
  return params_worker_maker([](const protocol_spec&) { return std::make_unique<gradient_task>(true); });
}

} // namespace troupe::protocols
