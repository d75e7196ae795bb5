// SPDX-License-Identifier: BSD-3-Clause
// Backup workers, worked by hand.
#include "protocols/backup_workers.hpp"

#include <gtest/gtest.h>

#include "protocols/round_rule.hpp"
#include "protocols/sync_sgd.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

round_rule backup_rule(std::size_t quorum) {
  return round_rule{[quorum](const protocol_spec&, std::uint64_t) { return std::make_unique<backup_workers>(quorum); }};
}

push gradient_from(std::uint32_t worker, std::uint64_t base = 0, std::int64_t samples = 10) {
  return {.epoch = e(1),
          .id = {w(worker), {}, {base + 1}},
          .base = v(base),
          .gradient = t(100 * (base + 1) + worker),
          .samples = samples};
}

/// How many pushes, in the order of the workers, close a first round of four.
std::size_t pushes_to_close(std::size_t quorum) {
  round_rule rule = backup_rule(quorum);
  rule.on(plan_of(1, {0, 1, 2, 3}));
  for (std::uint32_t worker = 0; worker < 4; ++worker)
    if (count<apply>(rule.on(gradient_from(worker))) > 0)
      return worker + 1;
  return 0;
}

TEST(BackupWorkers, RoundClosesWithItsFirstK) {
  EXPECT_EQ(pushes_to_close(1), 1u);
  EXPECT_EQ(pushes_to_close(3), 3u);
  EXPECT_EQ(pushes_to_close(4), 4u);
  EXPECT_EQ(pushes_to_close(9), 4u) << "no more than there are";
  EXPECT_EQ(pushes_to_close(0), 3u) << "all but one";
}

TEST(BackupWorkers, WhoeverComesFirstIsWeightedBySamples) {
  round_rule rule = backup_rule(2);
  rule.on(plan_of(1, {0, 1, 2}));
  EXPECT_EQ(rule.on(gradient_from(2, 0, 30)), rule_effects{});
  const rule_effects closed = rule.on(gradient_from(1, 0, 10));
  EXPECT_EQ(only<apply>(closed),
            (apply{.sum = {{t(101), 0.25}, {t(102), 0.75}}, .ver = v(1), .epoch = e(1), .workers = 3, .samples = 40}));
  EXPECT_EQ(only<send_params>(closed).to, (std::vector{w(1), w(2)}));
}

TEST(BackupWorkers, LatePushIsCountedAndItsWorkerHelpsWithTheOpenRound) {
  round_rule rule = backup_rule(2);
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(gradient_from(0));
  rule.on(gradient_from(1));
  const rule_effects late = rule.on(gradient_from(2));
  EXPECT_EQ(only<discard>(late).tensor, t(102));
  EXPECT_EQ(only<report>(late), (report{.event = report::kind::push_discarded, .ver = v(0), .worker = w(2)}));
  EXPECT_EQ(only<send_params>(late).ver, v(1));
  rule.on(gradient_from(0, 1));
  EXPECT_EQ(only<apply>(rule.on(gradient_from(2, 1))).sum, (std::vector<term>{{t(200), 0.5}, {t(202), 0.5}}));
}

TEST(BackupWorkers, DeathLowersTheQuorumOnlyWhereTooFewAreLeft) {
  round_rule rule = backup_rule(2);
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(gradient_from(0));
  EXPECT_EQ(count<apply>(rule.on(worker_down{w(2), {}})), 0u) << "two of two";
  EXPECT_EQ(only<apply>(rule.on(worker_down{w(1), {}})).sum, (std::vector<term>{{t(100), 1}})) << "one of one";
}

TEST(BackupWorkers, AllButOneOfTheLiving) {
  round_rule rule = backup_rule(0);
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(gradient_from(0));
  EXPECT_EQ(count<apply>(rule.on(worker_down{w(2), {}})), 1u) << "one of two";
  EXPECT_EQ(count<apply>(rule.on(worker_down{w(1), {}})), 0u);
  EXPECT_EQ(count<apply>(rule.on(gradient_from(0, 1))), 1u) << "one of one: never none";
}

TEST(BackupWorkers, PushThatIsNotFiniteIsAStragglers) {
  round_rule rule = backup_rule(2);
  rule.on(plan_of(1, {0, 1, 2}));
  push wild = gradient_from(0);
  wild.finite = false;
  rule.on(wild);
  EXPECT_EQ(count<apply>(rule.on(gradient_from(1))), 0u) << "one gradient of two";
  EXPECT_EQ(only<apply>(rule.on(gradient_from(2))).sum, (std::vector<term>{{t(101), 0.5}, {t(102), 0.5}}));

  push wild_too = gradient_from(1, 1);
  wild_too.finite = false;
  wild.base = v(1);
  rule.on(wild);
  rule.on(wild_too);
  EXPECT_EQ(only<apply>(rule.on(gradient_from(2, 1))).sum, (std::vector<term>{{t(202), 1}})) << "full: nobody else will come";
}

TEST(BackupWorkers, QuorumOfAllIsSynchronousSgd) {
  round_rule backup = backup_rule(3);
  round_rule sync{[](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }};
  EXPECT_EQ(backup.on(plan_of(1, {0, 1, 2}, 10, 55)), sync.on(plan_of(1, {0, 1, 2}, 10, 55)));
  for (std::uint64_t round = 0; round < 4; ++round)
    for (const std::uint32_t worker : {2u, 0u, 1u}) {
      const push next = gradient_from(worker, round, 7 + worker);
      EXPECT_EQ(backup.on(next), sync.on(next));
    }
  EXPECT_EQ(backup.current(), v(4));
  EXPECT_EQ(backup.on(worker_down{w(1), {}}), sync.on(worker_down{w(1), {}}));
}

/// Four workers share a last batch of two samples: workers 2 and 3 have none.
round_rule short_batch(std::size_t quorum) {
  round_rule rule = backup_rule(quorum);
  rule.on(plan_of(1, {0, 1, 2, 3}, 10, 2));
  return rule;
}

TEST(BackupWorkers, PushWithoutSamplesIsNoGradient) {
  round_rule rule = short_batch(2);
  for (const std::uint32_t empty : {2, 3})
    EXPECT_EQ(count<apply>(rule.on(gradient_from(empty, 0, 0))), 0u);
  EXPECT_EQ(count<apply>(rule.on(gradient_from(1, 0, 1))), 0u) << "one gradient of two";
  EXPECT_EQ(only<apply>(rule.on(gradient_from(0, 0, 1))).sum, (std::vector<term>{{t(100), 0.5}, {t(101), 0.5}}));
}

TEST(BackupWorkers, NobodyWaitsForWhoHasNoSamples) {
  round_rule rule = short_batch(3);
  EXPECT_EQ(count<apply>(rule.on(gradient_from(0, 0, 1))), 0u);
  EXPECT_EQ(only<apply>(rule.on(gradient_from(1, 0, 1))).samples, 2) << "two gradients of three: there are no more";
}

} // namespace
} // namespace troupe::protocols
