// SPDX-License-Identifier: BSD-3-Clause
// A simulated job: what a job file says, where its roles are, and what goes wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/form.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"
#include "protocols/emulate/inject.hpp"
#include "protocols/push_budget.hpp"

namespace troupe::protocols::sim {

/// What a real run was measured to take, instead of emulated times.
struct calibration {
  /// By worker: how long its steps took, each a whole batch; drawn in order, over and over. Workers beyond the last begin again
  /// with the first. Empty: `inject.step_ms` alone says how long steps take.
  std::vector<std::vector<nanoseconds>> compute{};
  nanoseconds message = 0; ///< that a push, or parameters, take longer than the link says
  nanoseconds apply = 0;   ///< a shard's step; one after the other
};

/// A worker beyond those that the job begins with.
struct late_join {
  worker_id worker{};
  nanoseconds at = 0;
};
/// Of an aggregator; or, where shards have backups, of whoever holds this place then.
struct holder_death {
  holder_id holder{};
  nanoseconds at = 0;
};

/// A new backup, where this shard has fewer copies than `replicas` then.
struct backup_join {
  holder_id shard{};
  nanoseconds at = 0;
};

/// Of the coordinator, once training has begun. What was on its way to it is lost. Another one goes on with the job, from what
/// was decided and what the lead says, and finds out who died meanwhile.
struct coordinator_death {
  nanoseconds at = 0, next_after = 0;
};

/// What only a test wishes for; all of it bears the same promise: the messages of one sender to one receiver come in order, and
/// none is lost while both live.
struct disorder {
  nanoseconds jitter = 0; ///< every message takes up to so much longer, drawn anew for each
  bool tail_loss = false; ///< of what a dying role had sent, a random tail of each link is lost; else all of it arrives
  double not_finite = 0;  ///< probability that a gradient is not finite
  /// For each machine and after each event, the probability that another takes its place, made from its encoded state. Changes
  /// nothing that can be seen.
  double hop = 0;
};

/// Of so many bytes of floats in this form, if a share of them is sent.
inline std::uint64_t bytes_in(kernels::form as, std::uint64_t bytes, double share) {
  const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
  return static_cast<std::uint64_t>(kernels::expected_bytes(as, {0, floats}, std::min(share, 1.0)));
}

/// A part of the parameters, and when a step is at it: shares of its time.
struct partition_times {
  double end = 1;    ///< up to where it goes, as a share of all parameters
  double needed = 0; ///< what goes before its parameters are first read
  double ready = 1;  ///< after what its gradient is there
};

/// What a gradient is cut into: see `options`.
struct step_cut {
  std::uint32_t partitions = 1;
  std::vector<partition_times> overlap{};
};

struct options {
  /// Of these the simulator sets `protocol`, `period`, `decentralized` and `same_replicas` by `protocol`.
  coordinator_options job{};
  /// As in the job file, checked (catalog.hpp); of the catalog or of what the program has added to it.
  protocol_spec protocol{};
  bool clips = false; ///< gradients are clipped
  std::vector<protocols::protocol> added{};
  std::uint64_t seed = 1;
  inject_spec inject{};
  calibration measured{};
  std::uint64_t model_bytes = 0;
  std::uint32_t partitions = 1; ///< where workers sum gradients: so many, each by itself
  /// Where computing hides communication: what a step is cut into, in the order of the flat parameters; where workers sum
  /// gradients, `partitions`. Empty: a step begins once all parameters are there, and its gradient is there at its end.
  std::vector<partition_times> overlap{};
  /// Instead of both, by plan::partition_kib.
  std::function<step_cut(std::uint32_t kib)> cut_under{};
  bool by_layers = false;                          ///< of partitions that workers sum, the first go first
  kernels::form push_form = kernels::form::fp32;   ///< of pushes; sums of pushes are fp32
  kernels::form params_form = kernels::form::fp32; ///< of parameters, but for those that are sent whole
  /// In a sparse form: the share of a push's elements that is sent, by the version it is computed against, and that of the
  /// parameters which a version changes. Sums have the elements of each push. Of factors, the share of a push's bytes.
  std::function<double(version)> pushed_share = [](version) { return 1.0; }, changed_share = pushed_share;
  std::optional<push_budget> budget{}; ///< of each worker's pushes, instead of `pushed_share`
  /// Every worker, shard, backup and aggregator has a host of its own. Colocated: `nodes` hosts (0: one for each worker) that
  /// share the shards, backups and workers; an aggregator is with its first worker.
  bool colocated = false;
  std::uint32_t nodes = 0;
  /// Where the job goes by them: tree_shape::blocks. Each has a host, with its workers and their aggregator.
  std::vector<std::uint32_t> blocks{};
  /// One way, on the control plane, between hosts; negative: the link's.
  nanoseconds control_latency = -1;
  std::vector<late_join> late_joins{};
  std::vector<holder_death> holder_deaths{};
  std::vector<backup_join> backup_joins{};
  std::vector<coordinator_death> coordinator_deaths{};
  disorder tests{};
  /// The run is given up after so many events, or after so long without a new version (0: no bound).
  std::uint64_t max_events = 0;
  nanoseconds stall_after = 0;
  /// It is given up, too, after this many events at one instant that bring its end no nearer: steps take no time, and either the
  /// job ends by time alone or what would make a version is still under way.
  std::uint64_t max_events_at_rest = 2'000'000;
  /// Asked before each event; true ends the run where it is. Without it nothing does.
  std::function<bool()> interrupted{};
};

} // namespace troupe::protocols::sim
