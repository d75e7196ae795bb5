// SPDX-License-Identifier: BSD-3-Clause
// A worker without a shard: gradients are summed among the workers (Patarasuk and Yuan 2009), and each takes the same step. Or
// the sum is of what local steps moved by: local SGD (Stich 2019) and DiLoCo (Douillard et al. 2023) without a centre.
#pragma once

#include <map>
#include <optional>

#include "protocols/collective/reduction.hpp"
#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// Every worker has the parameters and the optimizer's state. A round is the mean gradient of a global batch, as in `sync`: each
/// computes its cut, their weighted sum is made in one reduction, and everyone takes the step that makes the next version, at the
/// same bits. A round with a gradient that is not finite makes a version without a step, at everyone alike. Each version is
/// reported to the lead, which counts; nobody waits for it.
///
/// **Local steps.** A round of H > 1 is as in `local`: each worker takes H steps of its own from the newest version, each on its
/// cut of a global batch, and what is summed is what they moved by. The common step is the outer optimizer's. Who leaves a round
/// half done, because the plan is a new one, begins again from the version; the momentum of its own steps is what it has become.
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
/// terms: each goes by its share of the batch, in `direct`, too.
///
/// No message of a later plan's rounds comes before that plan: who sends it has this worker's standing under it.
class allreduce_worker final : public worker {
public:
  struct options {
    /// None: by the table, which goes by the number of workers and the bytes of a set of parameters.
    std::optional<collective::algorithm> which{};
    std::uint32_t steps = 1; ///< H
    step_rule outer{};       ///< what is done with the mean of H > 1 steps
    std::uint32_t group = 0; ///< workers of so many numbers in a row sum first; 0: those of a node
  };
  allreduce_worker(member self, options how) : self_(self), options_(how) {}

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override; ///< the initial ones, if the job is new
  worker_effects on(const computed& msg) override;
  worker_effects on(const peer_message& msg) override;
  worker_effects on(const fetch_order& msg) override; ///< the first of the plan answers
  worker_effects on(const hold_order& msg) override;
  worker_effects on(const checkpoint_order& msg) override;
  void goes_on(const worker_memory& from) override { course_.samples = from.samples; }
  void model_is(std::uint64_t bytes) override { bytes_ = bytes; }
  void nodes_are(const std::vector<std::uint32_t>& blocks) override { blocks_ = blocks; }
  std::vector<worker_id> waiting_for() const override;
  void check() const override;

  std::optional<version> current() const { return ver_; } ///< none: it has no parameters yet
  /// Whether it is past the beginning of its plan: all members are at one version.
  bool settled() const { return settled_; }

private:
  /// The reduction of one round, and what is known of the chunks that it has.
  struct open_round {
    collective::reduction machine;
    std::map<ticket, collective::facts> known{};
  };

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(plan_.workers.size()); }
  collective::algorithm algorithm() const { return options_.which.value_or(collective::algorithm_for(among_.parties(), bytes_)); }
  /// Whether each segment is summed by one rank from the terms themselves: it can weigh them as a shard does.
  bool has_owners() const { return algorithm() == collective::algorithm::direct && among_.groups.empty(); }
  /// Of all workers. Once this worker's part of the round is there.
  double round_samples() const { return static_cast<double>(position_ - course_.position); }
  bool at_its_limit() const;
  void abandon(worker_effects& out);
  void say_standing(worker_effects& out);
  void settle(worker_effects& out);
  void begin(worker_effects& out);
  void step(worker_effects& out);
  void report(worker_effects& out, const collective::facts& of, nanoseconds compute);
  void save(worker_effects& out);
  void answer(worker_effects& out);
  void on_chunk(const peer_message& msg, worker_effects& out);
  void on_state(const peer_message& msg, worker_effects& out);
  void reduce(collective::reduction_effects effects, std::uint64_t round, worker_effects& out);
  add_up merged(open_round& of, const collective::merge& what) const;
  void finish(const collective::facts& sum, worker_effects& out);
  open_round& round(std::uint64_t number);

  member self_;
  options options_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> blocks_{};
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
  std::uint32_t left_ = 0;                     ///< of the open round: steps to make
  std::uint64_t position_ = 0;                 ///< likewise, in the data: of the next of them
  collective::facts own_;                      ///< of those that it has made
  nanoseconds compute_ = 0;                    ///< how long they took
  ticket gradient_;                            ///< of the open round: what is in place
  std::map<std::uint64_t, open_round> rounds_; ///< the open one and, of who is ahead, the next
  std::optional<version> asked_;               ///< by an evaluator that has no answer yet
  std::optional<version> to_save_;             ///< the first version from this one on
  version saved_;                              ///< the last of these
};

protocol allreduce_protocol();

} // namespace troupe::protocols
