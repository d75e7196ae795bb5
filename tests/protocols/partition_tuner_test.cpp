// SPDX-License-Identifier: BSD-3-Clause
// The search of a size of partitions: what is tried, in which order, and what is kept.
#include "protocols/partition_tuner.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/coordinator.hpp"
#include "protocols/takeover.hpp"
#include "tests/protocols/making.hpp"
#include "tests/protocols/simulated_job.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr nanoseconds ms = 1'000'000;

const partition_search sizes{.sizes = {256, 512, 1024, 2048}, .spans = 3};

/// A job of two workers, and how long its rounds take.
struct searched_job {
  partition_tuner subject{sizes};
  plan now = plan_of(1, {0, 1});
  std::function<double(std::uint32_t kib)> round_ms = [](auto) { return 10.0; };
  nanoseconds at = 0;
  std::vector<std::uint32_t> tried{}; ///< plans' sizes
  std::string said{};

  explicit searched_job(std::uint32_t first = 1024) {
    now.partition_kib = first;
    subject.on(now, {});
  }
  void next(plan msg) {
    msg.epoch = {now.epoch.value + 1};
    subject.on(msg, std::exchange(now, msg));
  }
  /// Of so many pushes. Whether it has decided something.
  bool round(double takes, std::uint32_t pushes = 2) {
    at += static_cast<nanoseconds>(takes * double(ms));
    const auto decided = subject.on({.event = report::kind::round_closed, .contributions = pushes, .at = at}, now);
    subject.check();
    if (!decided)
      return false;
    said = decided->why;
    if (*decided->partition_kib != now.partition_kib) {
      tried.push_back(*decided->partition_kib);
      plan changed = now;
      changed.partition_kib = *decided->partition_kib;
      next(changed);
    }
    return true;
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i)
      round(round_ms(now.partition_kib));
  }
};

TEST(PartitionTuner, WhereNothingIsFasterItStaysAfterOneTryEachWay) {
  searched_job job;
  job.rounds(100);
  EXPECT_THAT(job.tried, ElementsAre(2048, 512, 1024));
  EXPECT_TRUE(job.subject.state().settled);
  EXPECT_EQ(job.said, "exchange.partition_kib = 512: 10.000 ms a round, 1024: 10.000; keeps 1024");
}

TEST(PartitionTuner, SmallerOnesAreTriedAsLongAsTheyAreFaster) {
  searched_job job{2048};
  job.round_ms = [](std::uint32_t kib) { return kib == 512 ? 8.0 : kib == 1024 ? 9.0 : 10.0; };
  job.rounds(100);
  EXPECT_THAT(job.tried, ElementsAre(1024, 512, 256, 512)) << "2048 has no larger neighbour";
  EXPECT_THAT(job.said, HasSubstr("keeps 512"));
}

TEST(PartitionTuner, LargerOnesAreTriedFirst) {
  searched_job job{256};
  job.round_ms = [](std::uint32_t kib) { return 10.0 - double(kib) / 500; };
  job.rounds(100);
  EXPECT_THAT(job.tried, ElementsAre(512, 1024, 2048)) << "there is nothing smaller, and nothing larger at the end";
  EXPECT_EQ(job.now.partition_kib, 2048U);
  EXPECT_TRUE(job.subject.state().settled);
}

TEST(PartitionTuner, AGainOfLessThanThreeInAHundredIsNone) {
  for (const auto& [takes, kept] : {std::pair{9.71, 1024U}, {9.69, 2048U}}) {
    searched_job job;
    job.round_ms = [takes = takes](std::uint32_t kib) { return kib == 2048 ? takes : 10.0; };
    job.rounds(100);
    EXPECT_EQ(job.now.partition_kib, kept) << takes;
  }
}

// Two rounds of a plan wait besides the one that begins the first span, and three are measured.
TEST(PartitionTuner, ItMeasuresOnceAPlanHasSettledByTheMedian) {
  searched_job job;
  for (const double takes : {99.0, 99.0, 99.0, 10.0, 50.0})
    EXPECT_FALSE(job.round(takes));
  EXPECT_TRUE(job.round(9.0));
  EXPECT_THAT(job.said, HasSubstr("1024: 10.000 ms a round; tries 2048"));
}

TEST(PartitionTuner, ASpanHasAsManyPushesAsThereAreWorkers) {
  searched_job job;
  job.round(1);
  for (int i = 0; i < 9; ++i)
    EXPECT_FALSE(job.round(5, 1)) << i;
  EXPECT_FALSE(job.round(500, 0)) << "nothing of it was used: the span goes on";
  EXPECT_TRUE(job.round(5, 1));
  EXPECT_THAT(job.said, HasSubstr("1024: 10.000 ms")) << "the median of 10, 10 and 510";
}

TEST(PartitionTuner, OtherWorkersAnotherProtocolOrPeriodBeginItAnew) {
  const std::vector<std::function<void(plan&)>> changes{
      [](plan& p) { p.workers.pop_back(); }, [](plan& p) { p.protocol.name = "backup"; }, [](plan& p) { p.period = 2; }};
  for (const auto& change : changes) {
    searched_job job;
    job.rounds(100);
    plan other = job.now;
    change(other);
    job.next(other);
    EXPECT_FALSE(job.subject.state().settled);
    EXPECT_EQ(job.subject.state().best, 0U) << "what was measured was of another job";
    job.rounds(100);
    EXPECT_THAT(job.tried, ElementsAre(2048, 512, 1024, 2048, 512, 1024));
  }
}

TEST(PartitionTuner, APlanThatIsTheSameButForItsRateMeasuresTheSizeOnceMore) {
  searched_job job;
  job.rounds(11);
  ASSERT_EQ(job.now.partition_kib, 2048U);
  plan other = job.now;
  other.lr_scale = 0.5;
  job.next(other);
  EXPECT_EQ(job.subject.state().best, 1024U);
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(job.round(20)) << "it waits again";
  EXPECT_TRUE(job.round(20));
  EXPECT_THAT(job.said, HasSubstr("2048: 20.000 ms a round, 1024: 10.000; tries 512"));
}

TEST(PartitionTuner, FromASizeThatIsNotListedItGoesToItsNeighbours) {
  searched_job job{700};
  job.rounds(100);
  EXPECT_THAT(job.tried, ElementsAre(1024, 512, 700));
}

TEST(PartitionTuner, WithoutSizesItDecidesNothing) {
  searched_job job;
  job.subject = partition_tuner{{}};
  job.rounds(100);
  EXPECT_TRUE(job.tried.empty());
  EXPECT_TRUE(job.subject.state().spans.empty());
}

// As when another coordinator goes on.
TEST(PartitionTuner, AnotherOneGoesOnWhereItWas) {
  for (int after = 0; after < 25; ++after) {
    searched_job job;
    job.round_ms = [](std::uint32_t kib) { return kib == 512 ? 8.0 : 10.0; };
    job.rounds(after);
    const partition_tuning was = job.subject.state();
    job.subject = partition_tuner{sizes, was};
    job.rounds(100);
    EXPECT_THAT(job.tried, ElementsAre(2048, 512, 256, 512)) << after;
  }
}

// -- in a job

coordinator_options two_sizes() {
  return {.workers = 2, .batch = 10, .data_size = 100, .partition_kib = 512, .search = {{512, 1024}, 1}, .stop = {.steps = 500}};
}

TEST(PartitionTuner, ACoordinatorTriesASizeByThePlanAndSaysWhatItKeeps) {
  coordinator subject{two_sizes()};
  subject.on(join(0));
  EXPECT_EQ(only<send_plan>(subject.on(join(1))).plan.partition_kib, 512U);
  nanoseconds at = 0;
  const auto round = [&](nanoseconds takes) {
    at += takes;
    subject.check();
    subject = coordinator{two_sizes(), nullptr, subject.state()}; // another one, that remembers all
    return subject.on(report{.event = report::kind::round_closed, .ver = v(1), .contributions = 2, .at = at});
  };
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(round(10 * ms), coordinator_effects{});
  const coordinator_effects tries = round(10 * ms);
  EXPECT_EQ(only<say>(tries).text, "exchange.partition_kib = 512: 10.000 ms a round; tries 1024");
  plan next = plan_of(2, {0, 1}, 10, 100);
  next.partition_kib = 1024;
  EXPECT_EQ(only<send_plan>(tries).plan, next);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(round(5 * ms), coordinator_effects{});
  EXPECT_EQ(round(5 * ms), (coordinator_effects{say{"exchange.partition_kib = 1024: 5.000 ms a round, 512: 10.000; keeps 1024"}}))
      << "a plan would change nothing";
  EXPECT_EQ(only<send_plan>(subject.on(join(2))).plan.partition_kib, 1024U);
}

TEST(PartitionTuner, ACoordinatorThatTakesOverKeepsTheSizeOfThePlan) {
  plan last = plan_of(4, {0, 1});
  last.partition_kib = 1024;
  const lead_report said{.made = {40}, .samples = 140};
  coordinator next{two_sizes(), nullptr, taken_over(two_sizes(), {.key = 7, .plan = last}, {}, said)};
  for (const send_plan& each : all<send_plan>(next.take_office(said)))
    EXPECT_EQ(each.plan.partition_kib, 1024U);
}

/// As much as a link of 1 byte a microsecond takes 32 ms for, computed in 20; by as many partitions, whose gradients are there
/// one after the other.
sim::options tried_job(const std::string& protocol) {
  sim::options job = sim::simulated_job(protocol, 2, 400);
  job.inject.step_ms = 20;
  job.inject.link.mbit = 8;
  job.model_bytes = 32'000;
  job.cut_under = [](std::uint32_t kib) {
    sim::step_cut out{kib >= 1024 ? 1U : kib == 512 ? 2U : 4U, {}};
    for (std::uint32_t i = 0; i < out.partitions; ++i)
      out.overlap.push_back(
          {.end = (i + 1.0) / out.partitions, .needed = 0.3 * i / out.partitions, .ready = 1 - 0.7 * i / out.partitions});
    return out;
  };
  const sim::step_cut first = job.cut_under(1024);
  job.partitions = first.partitions;
  job.overlap = first.overlap;
  return job;
}

TEST(PartitionTuner, InASimulationItFindsTheSizeWithTheShortestRounds) {
  for (const char* protocol : {"sync", "allreduce"}) {
    sim::options job = tried_job(protocol);
    std::map<std::uint32_t, nanoseconds> alone;
    for (const std::uint32_t kib : {256U, 512U, 1024U}) {
      sim::options fixed = job;
      fixed.job.partition_kib = kib;
      alone[kib] = without_numerics(fixed).virtual_time;
    }
    ASSERT_LT(alone[256] * 1.03, double(alone[512])) << protocol;
    ASSERT_LT(alone[512] * 1.03, double(alone[1024])) << protocol;
    job.job.partition_kib = 1024;
    job.job.search = {{256, 512, 1024, 2048}, 15};
    const sim::result found = without_numerics(job);
    ASSERT_EQ(found.notes.size(), 4U) << protocol;
    EXPECT_THAT(found.notes[0], HasSubstr("1024: ")) << "the first is measured";
    EXPECT_THAT(found.notes[1], HasSubstr("tries 512")) << "2048 is no other size for this model";
    EXPECT_THAT(found.notes[3], HasSubstr("keeps 256"));
    EXPECT_EQ(found.partition_kib, 256U);
    EXPECT_GT(found.virtual_time, alone[256]);
    EXPECT_LT(found.virtual_time, alone[1024]) << protocol;
  }
}

} // namespace
} // namespace troupe::protocols
