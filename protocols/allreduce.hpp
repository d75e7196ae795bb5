// SPDX-License-Identifier: BSD-3-Clause
// A worker without a shard: gradients are summed among the workers (Patarasuk and Yuan 2009), and each takes the same step. Or
// the sum is of what local steps moved by: local SGD (Stich 2019) and DiLoCo (Douillard et al. 2023) without a centre.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "protocols/collective/reduction.hpp"
#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// Every worker has the parameters and the optimizer's state. A round is the mean gradient of a global batch, as in `sync`: each
/// computes its cut, their weighted sum is made in one reduction, and everyone takes the step that makes the next version, at the
/// same bits. A round with a gradient that is not finite makes a version without a step, at everyone alike. Each version is
/// reported to the lead, which counts; nobody waits for it.
///
/// **Partitions.** Of a gradient each is summed by itself, as soon as it is there; so sums are made during backward. The first
/// begins last, with all facts; once its sum is there, everyone knows whether there is a step, and takes it partition by
/// partition. Of a round that ends before the last sum, these steps are undone.
///
/// **Local steps.** A round of H > 1 is as in `local`: each worker takes H steps of its own from the newest version, each on its
/// cut of a global batch, and what is summed is what they moved by. The common step is the outer optimizer's. Who leaves a round
/// half done, because the plan is a new one, begins again from the version; the momentum of its own steps is what it has become.
///
/// **Fragments** (Streaming DiLoCo: Douillard et al. 2025). The parameters are F fragments, and version v is made of fragment
/// v mod F alone, H / F local steps after the one before: each fragment is summed once in H steps. **Overlap.** What a fragment
/// has moved by is summed while the next steps are taken. The version is made so many steps later, to the step, at everyone: it
/// comes earlier or later by no clock. There the worker's own fragment becomes a mean of itself and of the version's. So workers'
/// own parameters are never all alike; a new plan, or a version that was not finite, makes them the version again.
///
/// **Where workers stop.** Each has the coordinator's newest `hold_order` and stops by itself at the version that it names. So
/// all are at that one when the lead has heard of it from all.
///
/// **Checkpoints.** Who has been told that a version is wanted says so in the facts of its next sum. So all know it of the same
/// version, and save it: the plan's first worker what all have, each what it alone keeps.
///
/// **A new plan** ends the open round: each worker says its standing to all, and once it has heard all of them it knows the
/// newest version that a member has. Workers are at most one version apart, for nobody makes v + 1 without everyone's gradient at
/// v. The first member that has it gives all of its state to those that have not: who was a version behind, who joins. Then the
/// round is computed anew, by the new plan. So no round is lost that somebody has, and none is counted twice. The plan names all
/// that there are, so nobody votes; a death meanwhile is another plan.
///
/// **Groups.** Workers of a node are summed first (topology), so that bytes between nodes go by the nodes. Their first weighs no
/// terms: each goes by its share of the batch, in `direct` and `broadcast`, too.
///
/// No message of a later plan's rounds comes before that plan: who sends it has this worker's standing under it.
class allreduce_worker final : public worker {
public:
  struct options {
    /// None: by the table, which goes by the number of workers and the bytes of a set of parameters.
    std::optional<collective::algorithm> which{};
    std::uint32_t steps = 1;     ///< H
    step_rule outer{};           ///< what is done with the mean of H > 1 steps
    std::uint32_t fragments = 1; ///< F, divides H
    std::uint32_t overlap = 0;   ///< steps between what is summed and the version; below H / F
    double merge = 0.5;          ///< what its own fragment counts for in that mean, if there are such steps; else nothing
    std::uint32_t group = 0;     ///< workers of so many numbers in a row sum first; 0: those of a node
  };
  allreduce_worker(member self, options how) : self_(self), options_(how) {}

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override; ///< the initial ones, if the job is new
  worker_effects on(const computed& msg) override;
  worker_effects on(const computed_partition& msg) override;
  worker_effects on(const peer_message& msg) override;
  worker_effects on(const fetch_order& msg) override; ///< the first of the plan answers
  worker_effects on(const hold_order& msg) override;
  worker_effects on(const checkpoint_order& msg) override;
  void goes_on(const worker_memory& from) override;
  kept_replica kept() const override;
  bool saves_later(version ver) const override { return !ver_ || *ver_ < ver; }
  void model_is(std::uint64_t bytes) override { bytes_ = bytes; }
  void partitions_are(std::function<std::uint32_t(std::uint32_t kib)> count) override { partitions_of_ = std::move(count); }
  void nodes_are(const std::vector<std::uint32_t>& blocks) override { blocks_ = blocks; }
  std::vector<worker_id> waiting_for() const override;
  void check() const override;

  std::optional<version> current() const { return ver_; } ///< none: it has no parameters yet
  /// Whether it is past the beginning of its plan: all members are at one version.
  bool settled() const { return settled_; }

private:
  struct partition {
    collective::reduction sum;
    bool stepped = false; ///< in the version that its round makes
  };
  /// The reductions of one round, and what is known of the chunks that they have.
  struct open_round {
    std::vector<partition> partitions;
    std::map<ticket, collective::facts> known{};
  };

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(plan_.workers.size()); }
  collective::algorithm algorithm() const {
    return options_.which.value_or(collective::algorithm_for(among_.parties(), bytes_ / options_.fragments));
  }
  /// Whether a worker's own parameters go on from where they are when a version is made.
  bool streams() const { return options_.fragments > 1 || options_.overlap > 0; }
  std::uint32_t steps_to_a_sum() const { return options_.steps / options_.fragments; }
  /// Into how many segments each sum is cut, and where those of a partition of this version are in the whole.
  std::uint32_t cuts() const { return collective::segments(algorithm(), among_); }
  segment_range part_of(std::uint64_t ver, std::uint32_t partition, std::uint32_t first, std::uint32_t last) const;
  /// Likewise all of some partitions.
  segment_range whole_of(std::uint64_t ver, std::uint32_t first, std::uint32_t last) const;
  /// Whether who sums has the terms of all workers: it can weigh them as a shard does.
  bool weighs_terms() const { return collective::sums_terms(algorithm()) && among_.groups.empty(); }
  bool at_its_limit() const;
  void abandon(worker_effects& out);
  void say_standing(worker_effects& out);
  void settle(worker_effects& out);
  void begin(worker_effects& out);
  void step(worker_effects& out);
  void report(worker_effects& out, const collective::facts& of, nanoseconds compute);
  bool saves(const collective::facts& of) const;
  void save(worker_effects& out);
  void answer(worker_effects& out);
  void on_chunk(const peer_message& msg, worker_effects& out);
  void on_state(const peer_message& msg, worker_effects& out);
  void reduce(collective::reduction_effects effects, std::uint64_t round, std::uint32_t partition, worker_effects& out);
  add_up merged(open_round& of, std::uint64_t number, std::uint32_t partition, const collective::merge& effect) const;
  void measured(const computed& msg, worker_effects& out);
  void keep_gradient(ticket gradient, worker_effects& out);
  void begin_sum(std::uint32_t partition, const collective::facts& own, worker_effects& out);
  bool take_steps(version made, const collective::facts& sum, worker_effects& out);
  void finish(worker_effects& out);
  open_round& round(std::uint64_t number);

  member self_;
  options options_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> blocks_{};
  std::function<std::uint32_t(std::uint32_t kib)> partitions_of_ = [](auto) { return 1U; };
  std::uint32_t partitions_ = 1;  ///< by the newest plan
  plan plan_;                     ///< the newest
  collective::topology among_{1}; ///< of its workers
  bool joined_ = false;           ///< has been in a plan
  bool begun_ = false;            ///< has the initial parameters, or came too late for them
  std::optional<version> ver_;
  collective::facts last_; ///< of the round that made it
  worker_course course_;
  /// By plan, the newest and later ones: the version that a member has, if it has one.
  std::map<plan_epoch, std::map<member, std::optional<version>>> standings_;
  bool settled_ = false;
  std::uint64_t steps_ = 0;
  bool computing_ = false, in_vain_ = false;   ///< in vain: for a round of an older plan
  bool open_ = false;                          ///< a round: some step past the newest version has begun
  bool from_common_ = true;                    ///< the next step is taken from the newest version
  bool anew_ = true;                           ///< the next round is the first of its plan
  std::uint32_t left_ = 0;                     ///< steps until the next is to be summed
  std::uint64_t position_ = 0;                 ///< in the data: of the next step
  std::uint64_t summed_to_ = 0;                ///< likewise, where the steps begin that the next sum is of
  collective::facts own_;                      ///< of those of them that it has made
  nanoseconds compute_ = 0;                    ///< how long the steps since the newest version took
  ticket gradient_;                            ///< of the sum that is being made: what is in place
  double samples_in_sum_ = 0;                  ///< of it, of all workers
  std::uint32_t late_ = 0;                     ///< steps to make before it makes a version
  std::optional<collective::facts> sum_;       ///< its first partition is there, and says this of all
  std::optional<collective::facts> carried_;   ///< at a new version: of steps that it left in the worker's own parameters
  bool writes_ = false;                        ///< what all have: it was the first of the plan that was settled last
  bool resumes_ = false;                       ///< those are there from a checkpoint, with what `own_` says
  std::map<std::uint64_t, open_round> rounds_; ///< the open one and, of who is ahead, the next
  std::optional<version> asked_;               ///< by an evaluator that has no answer yet
  std::optional<version> to_save_;             ///< the first version from this one on
  version saved_;                              ///< the last of these
};

/// The ranks of a sum among these workers, in their order: by groups of so many numbers in a row, or, if that is 0, by
/// tree_shape::blocks.
collective::topology topology_of(const std::vector<worker_id>& workers, std::uint32_t group,
                                 const std::vector<std::uint32_t>& blocks);

protocol allreduce_protocol();

} // namespace troupe::protocols
