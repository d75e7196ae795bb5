// SPDX-License-Identifier: BSD-3-Clause
// What must hold whatever the order of delivery and whoever dies; written apart from the machines, from what is said aloud.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "protocols/sim/listener.hpp"
#include "protocols/sim/options.hpp"
#include "protocols/sim/tally.hpp"

namespace troupe::protocols::sim {

/// Notes what is wrong; the first few are enough.
class checker : public listener {
public:
  const std::vector<std::string>& found() const { return found_; }

protected:
  void wrong(std::string text) {
    if (found_.size() < 10)
      found_.push_back(std::move(text));
  }

private:
  std::vector<std::string> found_;
};

/// Each push is used once, or dropped: none twice, none after it was dropped, none that is not finite, none of a worker that the
/// lead knows to be dead, and none is kept for ever. A protocol that keeps pushes (ADMM) names them until it drops them.
class each_push_ends_once final : public checker {
public:
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void pushed(nanoseconds at, const push& head) override;
  void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) override;
  void retaining(holder_id shard, std::size_t count) override;
  void broken(const std::string& text) override { wrong(text); }
  void finished(const aftermath& all) override;

private:
  struct one_lead {
    std::set<push_id> used, kept;
    std::map<push_id, std::uint64_t> dropped; ///< and in which view
    std::uint64_t view = 0;                   ///< of whoever leads
    std::set<member> dead;
    // Where versions are made in two phases:
    std::map<std::uint64_t, std::set<member>> dead_then; ///< by decision: of whom the lead knew when it proposed it
    std::set<member> known_dead;
    nanoseconds free_since = -1; ///< it looks at what has waited, in turn
    std::size_t members = 0;
    plan_epoch newest{};
  };
  static void note_proposal(one_lead& own, nanoseconds at, const message& msg);
  void check(one_lead& own, const close& round);

  std::map<push_id, push> pushed_;
  std::map<holder_id, one_lead> leads_;
};

/// Rounds are sound: weights sum to 1 (of decoded ones the samples' do), contributions are of this round and in worker order,
/// every shard makes every version from the same gradients, every copy of it is the same in all its pieces, no sample is used
/// twice, and no worker answers a version twice under one plan: what its codec lost would be lost for both. Needs tally numerics.
class rounds_are_sound final : public checker {
public:
  explicit rounds_are_sound(const options& job);
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void pushed(nanoseconds at, const push& head) override;
  void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) override;
  void applying(nanoseconds at, nanoseconds until, holder_id shard, const close& round, std::span<const operand> sum) override;
  void made(holder_id shard, version ver, std::span<const std::uint64_t> fingerprints) override;

  /// Samples (positions) that the lead shard's versions used.
  const std::set<std::uint64_t>& used() const { return used_; }

private:
  void check(const close& round);
  void check_samples(const close& round, const tally& sum, bool first_shard);

  bool per_push_ = false, decentralized_ = false;
  std::set<std::string> decoded_; ///< protocols whose weights decode
  std::map<plan_epoch, plan> plans_;
  std::map<push_id, push> pushed_;
  std::set<std::tuple<member, plan_epoch, version>> answered_;
  std::uint32_t holders_; ///< those that the job begins with
  std::map<holder_id, std::uint64_t> made_;
  std::map<std::pair<holder_id, version>, std::uint64_t> fingerprints_; ///< of each version of each shard
  std::map<std::uint64_t, tally> versions_;                             ///< by shard 0
  std::set<std::uint64_t> used_;
};

/// Where all workers take the same steps: a version is the mean of one global batch, each sample once, and the same at every
/// worker that has it. It is made again only if whoever had it is dead. Needs tally numerics.
class replicas_are_one final : public checker {
public:
  /// `carries_on`: workers' own parameters go on past a version, which may be of samples of earlier rounds, too.
  explicit replicas_are_one(bool carries_on) : carries_on_(carries_on) {}
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void stepping(member who, const close& round, std::span<const operand> sum) override;
  void has(member who, version ver, std::uint64_t fingerprint) override;
  void finished(const aftermath& all) override;

private:
  struct one_version {
    plan_epoch epoch{}; ///< under which it was made
    std::uint64_t fingerprint = 0;
    std::set<member> holders{}; ///< who has had it
    tally sum{};
    std::uint64_t begin = 0, end = 0; ///< the samples of its own round
  };
  bool carries_on_;
  std::map<plan_epoch, plan> plans_;
  std::map<version, one_version> versions_;
  std::map<member, version> newest_;
};

/// The lead shard holds at the version that reaches its limit, says how many samples are applied, and sends nothing while it
/// holds.
class limits_are_exact final : public checker {
public:
  explicit limits_are_exact(const options& job);
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void computing(nanoseconds at, nanoseconds until, member who, const batch& of) override;
  void pushed(nanoseconds at, const push& head) override;
  void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) override;

private:
  std::uint64_t samples_of(const close& round);

  std::set<std::string> decoded_; ///< protocols whose pushes repeat samples
  bool asked_again_;              ///< another coordinator repeats an evaluation
  bool decentralized_ = false;    ///< steps are counted, and their pushes, which hold no tensor, dropped
  std::map<plan_epoch, plan> plans_;
  std::map<member, batch> last_batch_;
  std::map<push_id, push> pushed_;
  std::map<push_id, std::uint64_t> global_batch_;
  std::set<push_id> counted_;
  hold_order limit_{};
  std::map<std::uint64_t, hold_order> proposed_{}; ///< by decision, where shards have backups: the limit then
  std::uint64_t samples_ = 0;
  std::uint64_t evaluated_ = 0; ///< key of the newest sending to the evaluator
  bool holds_ = false;
  version held_at_{};
};

/// A worker computes with parameters of one sending, made for this life of it: of one version or, where each shard has its own,
/// each the answer to the same push.
class sets_are_of_one_sending final : public checker {
public:
  explicit sets_are_of_one_sending(const options& job);
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void joining(member who, std::span<const params> parts) override;

private:
  bool per_push_ = false;
  std::map<worker_id, plan> newest_;         ///< that each has heard
  std::map<member, plan_epoch> first_plans_; ///< that named it
};

/// Where sums are clipped, every version is made by the squares of its whole sum, over all shards. Needs tally numerics.
class norms_are_whole final : public checker {
public:
  explicit norms_are_whole(const options& job);
  void applying(nanoseconds at, nanoseconds until, holder_id shard, const close& round, std::span<const operand> sum) override;

private:
  bool clips_ = false;
  std::uint32_t shards_ = 1;
};

/// Nobody is sent parameters who would then be more than `bound` clocks ahead of the slowest, at any shard.
class bound_is_kept final : public checker {
public:
  explicit bound_is_kept(std::uint64_t bound) : bound_(bound) {}
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) override;

private:
  struct one_shard {
    std::map<member, std::uint64_t> clocks; ///< pushes decided, from those of the slowest when it joined
    std::set<member> dead;
    plan_epoch newest{};
    std::set<push_id> seen;
  };
  void count(one_shard& own, const push_id& id);
  void check(const one_shard& own, holder_id shard, const std::vector<worker_id>& to);

  std::uint64_t bound_;
  std::map<holder_id, one_shard> shards_;
};

/// No live worker's pushes come too late for more than `most` rounds in a row.
class nobody_is_left_behind final : public checker {
public:
  explicit nobody_is_left_behind(std::uint64_t most) : most_(most) {}
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) override;

private:
  std::uint64_t most_;
  std::map<plan_epoch, plan> plans_;
  std::set<member> dead_;
  std::map<member, version> newest_; ///< base of its newest push that has come to the lead
  std::map<member, std::uint64_t> misses_;
};

} // namespace troupe::protocols::sim
