// SPDX-License-Identifier: BSD-3-Clause
// The ledger: each decision counts once, in any company of late, repeated and malformed ones.
#include "protocols/ledger.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::protocols::ledger {
namespace {

using testing::HasSubstr;

bytes of(std::size_t size, int value = 7) {
  return bytes(size, std::byte(value));
}
ended end_of(job_number number, ending how = ending::done) {
  return {number, how, "made 60 steps", of(3)};
}
state after(const std::vector<entry>& all) {
  state out;
  for (const auto& each : all)
    EXPECT_TRUE(apply(out, each));
  EXPECT_TRUE(sound(out));
  return out;
}
/// What is not to change a ledger.
void expect_nothing(const state& in, const entry& what) {
  state out = in;
  EXPECT_FALSE(apply(out, what));
  EXPECT_EQ(out, in);
}
const std::vector<entry> a_life{submitted{1, true, of(4)}, started{1, 1, {"a", "b"}}, end_of(1, ending::failed)};

TEST(Ledger, KnowsWhatBecameOfEachJob) {
  auto now = after({submitted{1, true, of(4)}, submitted{2, false, of(2, 9)}});
  EXPECT_EQ(now.last, 2U);
  EXPECT_EQ(now.jobs.at(1), (job{true, of(4)}));
  EXPECT_EQ(now.jobs.at(2), (job{false, of(2, 9)}));
  EXPECT_TRUE(apply(now, started{2, 1, {"a", "c"}}));
  EXPECT_EQ(now.jobs.at(2), (job{false, of(2, 9), 1, {"a", "c"}}));
  EXPECT_TRUE(apply(now, started{2, 2, {"d"}}));
  EXPECT_EQ(now.jobs.at(2), (job{false, of(2, 9), 2, {"d"}}));
  EXPECT_TRUE(apply(now, end_of(2, ending::interrupted)));
  EXPECT_EQ(now.jobs.at(2).end, (job_end{ending::interrupted, "made 60 steps", of(3)}));
  EXPECT_TRUE(apply(now, forgotten{2}));
  EXPECT_FALSE(now.jobs.contains(2));
  EXPECT_EQ(now.last, 2U) << "its number is not given again";
  EXPECT_TRUE(sound(now));
}

TEST(Ledger, ADecisionThatIsRepeatedChangesNothing) {
  state now;
  for (const auto& each : a_life) {
    EXPECT_TRUE(apply(now, each));
    expect_nothing(now, each);
  }
  EXPECT_TRUE(apply(now, forgotten{1}));
  for (const auto& each : a_life)
    expect_nothing(now, each);
  expect_nothing(now, forgotten{1});
}

TEST(Ledger, AJobHasOneEnd) {
  const auto now = after(a_life);
  expect_nothing(now, end_of(1, ending::done));
  expect_nothing(now, started{1, 2, {"a"}});
}

TEST(Ledger, ALifeFollowsTheOneBefore) {
  const auto now = after({submitted{1, true, {}}, started{1, 1, {}}});
  expect_nothing(now, started{1, 0, {}});
  expect_nothing(now, started{1, 1, {"b"}});
  expect_nothing(now, started{1, 3, {}});
}

TEST(Ledger, ALifeIsNotCountedBeyondTheLast) {
  state now;
  now.last = 1;
  now.jobs[1].life = 0xffff'ffff;
  expect_nothing(now, started{1, 0, {}});
}

TEST(Ledger, AJobIsNotForgottenBeforeItsEnd) {
  const auto now = after({submitted{1, true, {}}});
  expect_nothing(now, forgotten{1});
}

TEST(Ledger, NumbersGoUp) {
  const auto now = after({submitted{5, true, {}}});
  expect_nothing(now, submitted{0, true, {}});
  expect_nothing(now, submitted{5, false, of(1)});
  expect_nothing(now, submitted{3, true, {}});
  state next = now;
  EXPECT_TRUE(apply(next, (submitted{9, true, {}}))) << "one whose submission was refused has taken a number";
  EXPECT_EQ(next.last, 9U);
}

TEST(Ledger, OfAJobThatItDoesNotKnowNothingIsDecided) {
  const auto now = after({submitted{1, true, {}}});
  expect_nothing(now, started{2, 1, {}});
  expect_nothing(now, end_of(2));
  expect_nothing(now, forgotten{2});
}

TEST(Ledger, WhatIsMalformedIsIgnored) {
  const auto now = after({submitted{1, true, {}}});
  expect_nothing(now, ended{1, static_cast<ending>(3), {}, {}});
  expect_nothing(now, ended{1, ending::done, std::string(most_of_end, 'x'), of(1)});
  expect_nothing(now, started{1, 1, {std::string(most_of_nodes, 'x')}});
}

TEST(Ledger, ARefusalNamesWhatIsFullAndWhatWouldHelp) {
  state now;
  job_number number = 0;
  std::string why;
  while ((why = no_room_for(now, submitted{number + 1, true, of(1000)})).empty())
    ASSERT_TRUE(apply(now, (submitted{++number, true, of(1000)})));
  EXPECT_GT(number, 150U) << "as many jobs as nobody submits";
  EXPECT_LE(number, most_bytes / (1000 + most_of_nodes + most_of_end)) << "with what each comes to";
  EXPECT_THAT(why, HasSubstr("the queue is full: " + std::to_string(number) + " jobs"));
  EXPECT_THAT(why, HasSubstr("submit it again when some of them have ended"));
  EXPECT_LE(size_of(now), most_bytes);
  for (const auto& each : std::vector<entry>{started{1, 1, {"a"}}, end_of(1), forgotten{1}}) {
    EXPECT_EQ(no_room_for(now, each), "") << "a job that was submitted comes to its end";
    EXPECT_TRUE(apply(now, each));
  }
  EXPECT_EQ(no_room_for(now, submitted{number + 1, true, of(1000)}), "");
}

TEST(Ledger, OneJobMayBeTooLarge) {
  EXPECT_THAT(no_room_for({}, submitted{1, true, of(most_bytes)}), HasSubstr("0 jobs"));
}

TEST(Ledger, KnowsWhatNoEntriesCanHaveComeTo) {
  const auto good = after(a_life);
  auto bad = good;
  bad.last = 0;
  EXPECT_FALSE(sound(bad)) << "a number that was not given";
  bad = good;
  bad.jobs[0] = {};
  EXPECT_FALSE(sound(bad)) << "there is no job 0";
  bad = good;
  bad.jobs.at(1).life = 0;
  EXPECT_FALSE(sound(bad)) << "it began nowhere";
  bad = good;
  bad.jobs.at(1).nodes = {std::string(most_of_nodes, 'x')};
  EXPECT_FALSE(sound(bad));
  bad = good;
  bad.jobs.at(1).end->how = static_cast<ending>(9);
  EXPECT_FALSE(sound(bad));
  bad = good;
  bad.jobs.at(1).end->outcome = of(most_of_end);
  EXPECT_FALSE(sound(bad));
}

} // namespace
} // namespace troupe::protocols::ledger
