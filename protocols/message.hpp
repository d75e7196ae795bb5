// SPDX-License-Identifier: BSD-3-Clause
// The messages that machines take in. Plain values: copyable and comparable, without a tensor, a clock or a socket. Every field
// has a default, so a designated initialiser names only what matters.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocols/collective/facts.hpp"
#include "protocols/ids.hpp"
#include "protocols/spec.hpp"
#include "protocols/squared_norm.hpp"

namespace troupe::protocols {

/// Names one push for good. A holder that remembers each worker's last clock refuses to apply it twice.
struct push_id {
  worker_id worker{};
  protocols::incarnation incarnation{};
  clock_tick clock{};
  friend auto operator<=>(const push_id&, const push_id&) = default;
};

/// A worker in a plan.
struct member {
  worker_id worker{};
  protocols::incarnation incarnation{};
  friend auto operator<=>(const member&, const member&) = default;
};

/// Coordinator to everyone: who takes part from the next round on, and by which protocol. `workers` is sorted.
struct plan {
  plan_epoch epoch{}; ///< the first plan's is 1
  std::vector<member> workers{};
  protocol_spec protocol{};
  std::uint32_t period = 1;   ///< local steps between communications (H)
  std::int64_t batch = 1;     ///< samples per worker and step (B)
  std::int64_t data_size = 1; ///< samples of one epoch of the data (N)
  double lr_scale = 1;        ///< factor on the job's learning rate; 1 until the operator or a controller changes it
  std::set<holder_id> gone{}; ///< aggregators: their children and workers are their parents' (tree.hpp)
  plan_epoch rooted{};        ///< the first plan of which these are gone
  /// What is of this plan travels in partitions of at most so many KiB, and workers sum a gradient in as many. 0: the job's size.
  std::uint32_t partition_kib = 0;
  friend bool operator==(const plan&, const plan&) = default;

  /// The position (samples handed out since the start) after the global batch that starts at `position`: n*B further,
  /// but never past the end of the data's epoch, so that a short batch closes it.
  std::uint64_t after(std::uint64_t position) const;
  /// The same for any number of cuts of B samples: 1 where every worker is handed a slice of its own.
  std::uint64_t after(std::uint64_t position, std::uint64_t cuts) const;
  /// Where the global batch began that ends at `position`, or that it is in.
  std::uint64_t before(std::uint64_t position) const;
  /// Samples in cut `index` when a global batch of `samples` is divided into `cuts`: sizes differ by at most one, the larger
  /// first.
  static std::int64_t cut_size(std::uint64_t samples, std::uint32_t cuts, std::uint32_t index);
  /// Place of a worker among `workers`, or -1.
  int rank_of(worker_id who) const;
  /// Whether this incarnation of this worker takes part.
  bool has(member who) const;
};

/// A worker's contribution, complete at one holder: the trailer has come, and every partition before it.
struct push {
  plan_epoch epoch{};
  push_id id{};
  version base{};    ///< the parameters it was computed against
  ticket gradient{}; ///< ticket 0 when `samples` is 0
  std::int64_t samples = 0;
  double loss = 0;           ///< mean training loss over the samples, as far as their labels count
  nanoseconds compute = 0;   ///< how long the worker computed
  bool finite = true;        ///< the worker looked at every element
  double weight = 1;         ///< elastic averaging: alpha, so that both sides use the same
  nanoseconds at = 0;        ///< training time of its arrival
  double ignored = 0;        ///< samples' worth of labels that do not count: half a sample where half of a sample's are ignored
  squared_norm squares{};    ///< of the gradient, where each push is applied alone and gradients are clipped
  std::uint64_t applied = 0; ///< allreduce: samples of all rounds up to this one; `samples` are the round's
  /// What the loss and the gradient are the mean over, and weighted by.
  double counted() const { return static_cast<double>(samples) - ignored; }
  friend bool operator==(const push&, const push&) = default;
};

/// Holder to lead: this push is complete here. The ticket stays with the holder; in `push` it is 0.
struct arrival {
  holder_id holder{};
  protocols::push push{};
  friend bool operator==(const arrival&, const arrival&) = default;
};

/// Coordinator to rules and holders: stop waiting for this worker in the open round.
struct worker_down {
  worker_id worker{};
  protocols::incarnation incarnation{};
  friend bool operator==(const worker_down&, const worker_down&) = default;
};

/// A holder is gone for good. Sent to the coordinator, which passes it on to every holder if it is a backup. If it is an
/// aggregator, the next plan says so.
struct holder_down {
  holder_id holder{};
  std::string reason{};
  friend bool operator==(const holder_down&, const holder_down&) = default;
};

/// A timer that the machine armed has run out.
struct expired {
  timer_id timer{};
  nanoseconds at = 0;
  friend bool operator==(const expired&, const expired&) = default;
};

/// Shards to worker: new parameters, complete (every partition of every shard has come).
struct params {
  plan_epoch epoch{};
  version ver{};              ///< the lead shard's
  std::uint64_t key = 0;      ///< the same in the parts from all shards: see `send_order`
  std::uint64_t position = 0; ///< where the next global batch starts (round rules) or the worker's own slice (per-push rules)
  std::uint32_t period = 1;   ///< local steps to make with them
  version marked{};           ///< the newest version of a checkpoint; 0: none
  ticket parameters{};
  friend bool operator==(const params&, const params&) = default;
};

/// Compute to worker: the computation that `compute` asked for is done.
struct computed {
  std::uint64_t step = 0;
  ticket gradient{};
  std::int64_t samples = 0;
  double loss = 0;
  nanoseconds compute = 0;
  bool finite = true;
  double ignored = 0;     ///< as in `push`
  squared_norm squares{}; ///< likewise
  double counted() const { return static_cast<double>(samples) - ignored; }
  friend bool operator==(const computed&, const computed&) = default;
};

/// Compute to worker, while the rest is still computed: this partition of the gradient is there (worker::partitions_are).
struct computed_partition {
  std::uint64_t step = 0;
  ticket gradient{}; ///< all of it
  std::uint32_t partition = 0;
  std::int64_t samples = 0;
  double ignored = 0; ///< as in `push`
  friend bool operator==(const computed_partition&, const computed_partition&) = default;
};

/// Steps that this incarnation of a worker has finished and reported, and their samples.
struct step_count {
  std::uint64_t steps = 0, samples = 0;
  friend bool operator==(const step_count&, const step_count&) = default;
};
/// Segments [first, last) of a tensor that is cut into `of` of them, as evenly as its grains go.
struct segment_range {
  /// Where each part of the parameters is summed by itself: so many at most, each cut for all workers.
  static constexpr std::uint32_t most_parts = 256;
  std::uint32_t first = 0, last = 1, of = 1;
  friend auto operator<=>(const segment_range&, const segment_range&) = default;
};
/// Coordinator to lead: hold your replies once this much is applied (0: no limit), or with `now` at the next version. Replaces
/// the previous order.
struct hold_order {
  std::uint64_t at_samples = 0;
  std::uint64_t at_version = 0;
  bool now = false;
  /// Whether the version at which it holds is for a checkpoint; at_version: only if it holds because of that.
  enum class saves : std::uint8_t { never, at_version, always } checkpoint = saves::never;
  /// Of the version at which it holds.
  bool saves_at(version made) const {
    return checkpoint == saves::always || (checkpoint == saves::at_version && at_version != 0 && made.value >= at_version);
  }
  friend bool operator==(const hold_order&, const hold_order&) = default;
};
/// Where a worker is whose steps all workers take (allreduce), besides its parameters and its optimizer's state.
struct worker_course {
  std::uint64_t position = 0, samples = 0; ///< in the data; applied
  hold_order limit{};                      ///< the newest, but for `now`, which is for a lead
  friend bool operator==(const worker_course&, const worker_course&) = default;
};
/// Worker to worker (gossip, allreduce).
///
/// `replica`: `data` is that worker's own parameters; gossip's rounds are the sender's steps, and weights its shares. To the
/// evaluator, the round is the version it asked for, and a weight of 0 means: leave this replica out.
///
/// allreduce's rounds are the versions that they make. `chunk`: some segments of the round's sum, as far as it is made, with the
/// facts of these. `standing`: the sender is at version `round` under this plan, or, if the weight is 0, has no parameters yet.
/// `state`: all that the sender has of version `round`, with the facts of the round that made it.
struct peer_message {
  enum class kind : std::uint8_t { replica, chunk, standing, state };
  member from{};
  std::uint64_t round = 0;
  double weight = 1;
  ticket data{};
  step_count made{}; ///< to the evaluator: the sender's own steps that `data` contains; allreduce: all steps
  kind is = kind::replica;
  plan_epoch epoch{};      ///< allreduce: of the round
  std::uint32_t stage = 0; ///< chunk: of its schedule
  segment_range part{};    ///< chunk
  collective::facts facts{};
  worker_course course{}; ///< state
  friend bool operator==(const peer_message&, const peer_message&) = default;
};

/// One push in a closed round and its weight in the sum.
struct contribution {
  push_id id{};
  double weight = 1;
  friend bool operator==(const contribution&, const contribution&) = default;
};

/// How a shard makes its next version from its parameters p and the weighted sum g of a round's pushes.
struct step_rule {
  enum class kind : std::uint8_t {
    optimizer, ///< the job's own, p = optimizer(p, g)
    outer,     ///< SGD with the scalars below; g is a difference of parameters (Reddi et al. 2021; DiLoCo, Douillard et al. 2023)
    linear,    ///< p = parameter_weight p + g, then the soft threshold of that
  };
  kind method = kind::optimizer;
  double lr_scale = 1;         ///< optimizer: times the job's learning rate. Per-push rules: samples / (n B)
  double lr = 1, momentum = 0; ///< outer
  bool nesterov = false;       ///< outer
  double parameter_weight = 1; ///< linear
  double threshold = 0;        ///< linear: sign(p) max(|p| - threshold, 0)
  squared_norm squares{};      ///< optimizer: of g, which is clipped by it; 0: it is not
  friend bool operator==(const step_rule&, const step_rule&) = default;
};

/// DC-ASGD (Zheng et al. 2017): the gradient g, computed against `backup`, is replaced by g + lambda g*g*(p - backup), by
/// element; adaptive: lambda / sqrt(running mean of g*g).
struct delay_compensation {
  double lambda = 0; ///< 0: none
  bool adaptive = false;
  ticket backup{}; ///< retained parameters
  friend bool operator==(const delay_compensation&, const delay_compensation&) = default;
};

/// Lead to holders: the round is decided. Every holder applies (an aggregator forwards) the same pushes with the same weights in
/// the order given, then sends the new version to `send_to`. Without contributions the version advances but the parameters do not
/// change: no momentum, no weight decay.
struct close {
  plan_epoch epoch{};
  version ver{}; ///< the version that this makes
  std::vector<contribution> contributions{};
  bool keep = false; ///< later closes may name them again
  step_rule step{};
  std::uint64_t samples_before = 0; ///< samples applied before this close: drives the learning-rate schedule
  std::uint32_t workers = 1;        ///< n of the round's plan: drives the linear scaling rule
  std::vector<worker_id> send_to{}; ///< may be empty (held, or no worker waits)
  plan_epoch send_epoch{};          ///< the plan under which the new version is sent
  std::uint64_t key = 0;            ///< as in send_order
  std::uint64_t position = 0;       ///< travels with the parameters
  std::uint32_t period = 1;
  delay_compensation compensate{}; ///< per-push rules, whose lead is local: it does not travel
  bool checkpoint = false;         ///< shards write the new version to a disk
  // Where versions are made in two phases, which a `commit_order` ends:
  std::uint64_t view = 0;        ///< how often another holder has taken the lead; the newest lead is obeyed
  std::uint64_t decision = 0;    ///< what is decided of this version: a later decision, if there is one, has a larger number
  squared_norm squares_before{}; ///< of the sum of the version before, for a holder that its commit_order has not reached
  friend bool operator==(const close&, const close&) = default;
};

/// Lead to holders: send the parameters you have. Broadcasts come in one order, so a holder has `ver`.
///
/// A worker joins the parts that carry the same `key`; a later sending has a larger key. The lead numbers its sendings. Where
/// each shard applies pushes alone, the key is the clock of the push that is answered. Parts from an epoch before the first plan
/// with this incarnation of the worker were meant for an older one: they are dropped.
struct send_order {
  plan_epoch epoch{};
  version ver{};
  std::uint64_t key = 0;
  std::vector<worker_id> to{}; ///< `evaluator` is one of them when the job is evaluated
  std::uint64_t position = 0;
  std::uint32_t period = 1;
  friend bool operator==(const send_order&, const send_order&) = default;
};
/// The order to send the version that a round makes; to nobody, perhaps.
inline send_order order_of(const close& round) {
  return {round.send_epoch, round.ver, round.key, round.send_to, round.position, round.period};
}

/// Lead to holders: no version will use this push.
struct drop_order {
  push_id id{};
  friend bool operator==(const drop_order&, const drop_order&) = default;
};

/// An aggregator's sum for a round, to its parents in the tree; or a primary's sum of a round, to its backups. `sum` is ticket 0
/// when none of its workers counted.
struct partial {
  holder_id from{};
  version ver{}; ///< that the round makes
  ticket sum{};
  std::uint64_t decision = 0; ///< as in `close`
  friend bool operator==(const partial&, const partial&) = default;
};

/// Where versions are made in two phases, each shard and backup to the lead: all that this version needs is here.
struct prepared {
  holder_id holder{};
  version ver{};
  std::uint64_t decision = 0; ///< as in `close`
  bool possible = true;       ///< false: it will never be, for a worker or an aggregator is gone
  squared_norm squares{};     ///< of this shard's part of the sum, where gradients are clipped; a backup says 0
  friend bool operator==(const prepared&, const prepared&) = default;
};
/// Lead to every holder, once all are prepared: make this version. Or forget the close: the lead decides again.
struct commit_order {
  version ver{};
  std::uint64_t decision = 0;
  bool abandoned = false;
  squared_norm squares{}; ///< of the whole sum, where gradients are clipped
  friend bool operator==(const commit_order&, const commit_order&) = default;
};
/// Coordinator to holders and workers: `by`, a backup of this shard, is the shard from now on.
struct takes_over {
  holder_id shard{};
  holder_id by{};
  std::uint64_t view = 0;           ///< as in `close`: if it is the lead's shard, of the new lead
  std::vector<holder_id> backups{}; ///< of this shard, that are left
  std::set<holder_id> holders{};    ///< all shards and backups that are there
  friend bool operator==(const takes_over&, const takes_over&) = default;
};

/// To the coordinator, and from it to the lead: a backup of this shard is up, and has nothing of it yet.
struct new_backup {
  holder_id holder{};
  holder_id shard{};
  friend bool operator==(const new_backup&, const new_backup&) = default;
};
/// Lead to holders, in one order with its other orders: this backup hears all orders from here on, and must be prepared for the
/// next version, too.
struct admit_order {
  holder_id holder{};
  holder_id shard{};
  version ver{};          ///< the newest that is proposed or made
  std::uint64_t view = 0; ///< as in `close`
  friend bool operator==(const admit_order&, const admit_order&) = default;
};
/// A backup that catches up, to its shard: pieces of this version. The last of all is no tensor, but who was sent what.
struct copy_request {
  holder_id from{};
  version ver{};
  std::vector<std::uint32_t> pieces{};
  std::uint32_t of = 0;   ///< how many there are
  std::uint64_t view = 0; ///< in which it was admitted
  friend bool operator==(const copy_request&, const copy_request&) = default;
};
/// The answer, piece by piece, while the shard is at that version.
struct shard_piece {
  holder_id from{};
  version ver{};
  std::uint32_t piece = 0;
  ticket data{};
  std::vector<double> memory{};   ///< of the shard's driver: what its next step needs besides
  std::vector<send_order> sent{}; ///< in the last piece: the newest to each
  squared_norm squares{};         ///< of this shard's part of the sum that made the version, where gradients are clipped
  friend bool operator==(const shard_piece&, const shard_piece&) = default;
};
/// To the coordinator: this backup has all that its shard has.
struct caught_up {
  holder_id holder{};
  friend bool operator==(const caught_up&, const caught_up&) = default;
};

/// Coordinator to lead: the first version from `at` on is for a checkpoint. Where each shard applies pushes alone, to every
/// shard: save the version that you have, as one of `at`. Where all workers take the same steps, to every worker, and the
/// version is the first that one of them makes after it has heard this.
struct checkpoint_order {
  version at{};
  friend bool operator==(const checkpoint_order&, const checkpoint_order&) = default;
};
/// Coordinator to workers: save what you keep between rounds for the checkpoint of this version, unless you did so before you
/// began with it. Where each push is applied alone, and of gossip, that is what you have now.
struct keep_order {
  version ver{};
  friend bool operator==(const keep_order&, const keep_order&) = default;
};
/// Coordinator to lead: send what was held.
struct resume_order {
  version held{std::numeric_limits<version::rep>::max()}; ///< ignored by a lead that holds at a later version
  friend bool operator==(const resume_order&, const resume_order&) = default;
};
/// Coordinator to lead: have every shard send its parameters to the evaluator, all of one version, held or not. In a
/// decentralized job, to every worker and the evaluator: each worker sends its own.
struct fetch_order {
  version ver{}; ///< held
  friend bool operator==(const fetch_order&, const fetch_order&) = default;
};

/// To coordinator: a worker is up (roles spawned, lanes connected, data loaded).
struct joined {
  member who{};
  friend bool operator==(const joined&, const joined&) = default;
};
/// To coordinator: a worker is gone; its node was lost, or its actor died.
struct down {
  member who{};
  std::string reason{};
  friend bool operator==(const down&, const down&) = default;
};
/// Lead to coordinator: holding at `ver`; `samples` are applied.
struct held {
  version ver{};
  std::uint64_t samples = 0;
  nanoseconds at = 0;
  friend bool operator==(const held&, const held&) = default;
};
/// To coordinator: what an evaluation found.
struct evaluated {
  version ver{};
  double train_loss = 0, test_loss = 0, test_accuracy = 0;
  nanoseconds at = 0;
  std::vector<std::pair<member, step_count>> made{}; ///< decentralized: by each worker that was asked
  std::optional<double> validation_loss{};           ///< of what is held out, if anything is
  /// By which evaluations are compared.
  double loss() const { return validation_loss.value_or(test_loss); }
  friend bool operator==(const evaluated&, const evaluated&) = default;
};

} // namespace troupe::protocols
