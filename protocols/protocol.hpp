// SPDX-License-Identifier: BSD-3-Clause
// A protocol as one value: what it is called, what it takes, what others need to know of it, and its machines.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocols/controller.hpp"
#include "protocols/parameters.hpp"
#include "protocols/params_worker.hpp"
#include "protocols/round_cost.hpp"
#include "protocols/round_policy.hpp"
#include "protocols/rule.hpp"

namespace troupe::protocols {

/// What a protocol makes its roles keep beside the parameters and a gradient.
struct footprint {
  bool replica = false;        ///< workers: parameters of their own, which an optimizer of their own steps on
  bool pushed_replica = false; ///< workers: the replica as it was pushed
  bool velocity = false;       ///< workers: a momentum of the protocol's own, instead of the optimizer's state
  bool dual = false;           ///< workers: a dual variable
  bool backups = false;        ///< shards: the version that each worker computes with
  bool outer_momentum = false; ///< shards: the state of the step on the workers' mean
  std::uint32_t parts = 1;     ///< workers: of a batch that each computes; with several, their sum beside a part's gradient

  /// What this keeps and what `other` does.
  footprint with(const footprint& other) const;
};

/// One protocol. Its file alone knows its name: who needs to know something of it asks here.
struct protocol {
  std::string name{};
  std::string summary{};       ///< one line for `troupe protocols`
  std::string round_is_full{}; ///< when is a round full, with what weights
  std::string who_gets{};      ///< who gets parameters, when
  std::string pays_when{};     ///< for the table of the first page; an added one's needs none

  bool per_push = false; ///< runs at every shard, each push alone
  bool takes_fan_in = false;
  bool centreless = false;  ///< the parameters are the workers' own; the shard hands out the first ones and counts
  bool decodes = false;     ///< workers compute parts of each other's batches, and what has come is decoded
  bool own_samples = false; ///< it is about samples that each worker keeps for itself

  std::vector<parameter_info> parameters{};
  /// The one of them that counts the local steps between communications. Absent: there is one step.
  std::optional<parameter<std::int64_t>> period{};
  /// What is wrong with parameters taken together, or with so many workers; an empty string: nothing. Absent: nothing to check.
  std::function<std::string(const protocol_spec&, std::uint32_t workers)> check{};
  /// Absent: nothing more.
  std::function<footprint(const protocol_spec&)> keeps{};
  /// Nanoseconds that a round takes for each 1/n of its samples, if the plan's n workers take these times; auto compares them.
  /// Absent: auto cannot choose it.
  std::function<double(const protocol_spec&, const plan&, round_times)> cost{};
  /// Those that it chooses from while the job runs, the first to begin with. Absent: itself alone.
  std::function<std::vector<protocol_spec>(const protocol_spec&)> candidates{};

  /// Of one that has rounds, for round_protocol(): when they are full, and what its workers do. Absent: a gradient.
  policy_maker policy{};
  task_maker task{};

  std::function<std::unique_ptr<rule>(const protocol_spec&, std::uint64_t seed)> make_rule{};
  std::function<std::unique_ptr<worker>(const protocol_spec&, member self, std::uint64_t seed)> make_worker{};
  /// Absent: nothing changes while the job runs.
  std::function<std::unique_ptr<controller>(const protocol_spec&)> make_controller{};

  /// Local steps between communications, at first.
  std::uint32_t period_of(const protocol_spec& spec) const;
};

/// The same with the machines of rounds: a rule by its policy, and workers with its task.
protocol round_protocol(protocol what);

/// Workers that answer parameters with a push, by this task: for `make_worker`.
inline auto answers(task_maker make) {
  return [make = std::move(make)](const protocol_spec&, member self, std::uint64_t) {
    return std::make_unique<params_worker>(self, make);
  };
}
/// The gradient of a slice that the worker is handed, where each push is applied alone: for `make_worker`.
inline auto answers_with_own_slice() {
  return answers([](const protocol_spec&) { return std::make_unique<gradient_task>(true); });
}

} // namespace troupe::protocols
