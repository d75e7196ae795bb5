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

plan plan_of(std::uint32_t epoch, std::vector<member> workers) {
  return {.epoch = {epoch}, .workers = std::move(workers)};
}
/// A job of eight roles, in its first life.
const std::vector<entry> begun{submitted{1, true, {}, 8}, started{1, 1, {"a"}, 77}};
const course& course_of(const state& in) {
  return in.jobs.at(1).course;
}

TEST(LedgerOfARunningJob, KnowsItsNewestPlan) {
  auto now = after(begun);
  EXPECT_EQ(course_of(now), (course{.key = 77}));
  EXPECT_TRUE(apply(now, planned{1, 1, plan_of(1, {{{0}, {}}, {{1}, {}}})}));
  EXPECT_TRUE(apply(now, planned{1, 1, plan_of(4, {{{1}, {2}}})}));
  EXPECT_EQ(course_of(now).plan, plan_of(4, {{{1}, {2}}}));
  expect_nothing(now, planned{1, 1, plan_of(4, {{{0}, {}}})});
  expect_nothing(now, planned{1, 1, plan_of(3, {{{0}, {}}})});
  EXPECT_TRUE(sound(now));
}

TEST(LedgerOfARunningJob, NoIncarnationIsGivenTwice) {
  auto now = after(begun);
  expect_nothing(now, incarnated{1, 1, false, 2, 0});
  EXPECT_TRUE(apply(now, incarnated{1, 1, false, 2, 1}));
  EXPECT_TRUE(apply(now, incarnated{1, 1, true, 2, 1})) << "a worker's is another";
  expect_nothing(now, incarnated{1, 1, false, 2, 1});
  EXPECT_TRUE(apply(now, incarnated{1, 1, false, 2, 5}));
  expect_nothing(now, incarnated{1, 1, false, 2, 4});
  EXPECT_EQ(course_of(now).nodes, (std::map<std::uint32_t, incarnation>{{2, {5}}}));
  EXPECT_EQ(course_of(now).workers, (std::map<worker_id, incarnation>{{{2}, {1}}}));
}

TEST(LedgerOfARunningJob, EachBackupTakesAPlaceOnce) {
  auto now = after(begun);
  EXPECT_TRUE(apply(now, promoted{1, 1, {1}, {3}, 0}));
  expect_nothing(now, promoted{1, 1, {1}, {3}, 0});
  expect_nothing(now, promoted{1, 1, {0}, {2}, 0}); // the lead's view follows
  expect_nothing(now, promoted{1, 1, {0}, {2}, 2});
  EXPECT_TRUE(apply(now, promoted{1, 1, {0}, {2}, 1}));
  expect_nothing(now, promoted{1, 1, {1}, {5}, 0}); // of an older view
  EXPECT_TRUE(apply(now, promoted{1, 1, {1}, {5}, 1}));
  EXPECT_EQ(course_of(now).acting, (std::map<holder_id, holder_id>{{{0}, {2}}, {{1}, {5}}}));
  EXPECT_EQ(course_of(now).gone, (std::set<holder_id>{{2}, {3}, {5}}));
  EXPECT_EQ(course_of(now).view, 1U);
  EXPECT_TRUE(sound(now));
}

TEST(LedgerOfARunningJob, AHolderThatIsLostStaysOut) {
  auto now = after(begun);
  EXPECT_TRUE(apply(now, holder_lost{1, 1, {3}}));
  expect_nothing(now, holder_lost{1, 1, {3}});
  expect_nothing(now, promoted{1, 1, {1}, {3}, 0});
  EXPECT_TRUE(course_of(now).acting.empty());
}

TEST(LedgerOfARunningJob, ACopyThatComesLaterTakesAPlaceOnceItIsWhole) {
  auto now = after(begun);
  EXPECT_TRUE(apply(now, placed{1, 1, {4}, {1}, 2}));
  expect_nothing(now, placed{1, 1, {4}, {1}, 2});
  expect_nothing(now, placed{1, 1, {3}, {1}, 2}); // some holder may have had that number
  expect_nothing(now, promoted{1, 1, {1}, {4}, 0});
  expect_nothing(now, copied{1, 1, {5}});
  EXPECT_TRUE(apply(now, copied{1, 1, {4}}));
  expect_nothing(now, copied{1, 1, {4}});
  expect_nothing(now, promoted{1, 1, {0}, {4}, 1}); // of another shard
  EXPECT_EQ(course_of(now).copies, (std::map<holder_id, late_copy>{{{4}, {{1}, 2, true}}}));
  EXPECT_TRUE(apply(now, promoted{1, 1, {1}, {4}, 0}));
  expect_nothing(now, promoted{1, 1, {1}, {4}, 0});
  expect_nothing(now, holder_lost{1, 1, {4}}); // it is the shard
  EXPECT_TRUE(course_of(now).acts({4}));
  EXPECT_TRUE(sound(now));
}

TEST(LedgerOfARunningJob, OfCopiesThatAreLostOnlyTheirNumbersStay) {
  auto now = after(begun);
  for (std::uint32_t number = 4; number < 40; number += 2) { // many more than it has roles
    EXPECT_TRUE(apply(now, placed{1, 1, {number}, {0}, 2}));
    EXPECT_TRUE(apply(now, copied{1, 1, {number}}));
    EXPECT_TRUE(apply(now, placed{1, 1, {number + 1}, {1}, 2}));
    EXPECT_TRUE(apply(now, holder_lost{1, 1, {number + 1}}));
    expect_nothing(now, holder_lost{1, 1, {number + 1}});
    EXPECT_TRUE(apply(now, promoted{1, 1, {0}, {number}, course_of(now).view + 1}));
  }
  EXPECT_EQ(course_of(now).copies.size(), 1U) << "the one that acts";
  EXPECT_TRUE(course_of(now).gone.empty());
  EXPECT_EQ(std::pair(course_of(now).first_copy, course_of(now).newest_copy), std::pair(holder_id{4}, holder_id{39}));
  expect_nothing(now, promoted{1, 1, {0}, {4}, course_of(now).view + 1});
  EXPECT_TRUE(sound(now));
}

TEST(LedgerOfARunningJob, KnowsItsNewestCheckpoints) {
  auto now = after(begun);
  for (std::uint64_t step = 1; step <= most_checkpoints + 2; ++step)
    EXPECT_TRUE(apply(now, checkpointed{1, 1, {10 * step}}));
  expect_nothing(now, checkpointed{1, 1, {10 * (most_checkpoints + 2)}});
  expect_nothing(now, checkpointed{1, 1, {5}});
  EXPECT_EQ(course_of(now).checkpoints.size(), most_checkpoints);
  EXPECT_EQ(course_of(now).checkpoints.front(), version{30});
  EXPECT_EQ(course_of(now).checkpoints.back(), version{10 * (most_checkpoints + 2)});
  EXPECT_TRUE(sound(now));
}

const std::vector<entry> of_a_life{
    planned{1, 1, plan_of(9, {})}, incarnated{1, 1, false, 0, 9}, incarnated{1, 1, true, 0, 9}, promoted{1, 1, {1}, {7}, 0},
    holder_lost{1, 1, {6}},        checkpointed{1, 1, {9}},       placed{1, 1, {8}, {1}, 2},    copied{1, 1, {8}}};

TEST(LedgerOfARunningJob, ALifeBeginsWithNothingOfTheLast) {
  auto now = after(begun);
  for (const auto& each : of_a_life)
    EXPECT_TRUE(apply(now, each));
  EXPECT_TRUE(apply(now, started{1, 2, {"b"}, 78}));
  EXPECT_EQ(course_of(now), (course{.key = 78}));
  for (const auto& each : of_a_life)
    expect_nothing(now, each);
}

TEST(LedgerOfARunningJob, OfOneThatDoesNotRunNothingIsDecided) {
  const auto waits = after({submitted{1, true, {}, 8}});
  auto over = after(begun);
  EXPECT_TRUE(apply(over, end_of(1)));
  for (const auto& each : of_a_life) {
    expect_nothing(state{}, each);
    expect_nothing(waits, each);
    expect_nothing(over, each);
  }
  expect_nothing(waits, planned{1, 0, plan_of(1, {})});
}

TEST(LedgerOfARunningJob, HasRoomForItsRolesAndNoMore) {
  const std::vector<entry> narrow{submitted{1, true, {}, 1}, started{1, 1, {}, 7}};
  auto now = after(narrow);
  const planned two{1, 1, plan_of(1, {{{0}, {}}, {{1}, {}}})};
  EXPECT_THAT(no_room_for(now, two), HasSubstr("no room for a plan of 2 workers"));
  expect_nothing(now, two);
  planned wordy{1, 1, plan_of(1, {})};
  wordy.plan.protocol.parameters["texts"] = std::vector{std::string(most_of_protocol, 'x')};
  EXPECT_THAT(no_room_for(now, wordy), HasSubstr("whose protocol takes"));
  expect_nothing(now, wordy);
  wordy.plan.protocol.parameters["texts"] = std::string(most_of_protocol, 'x');
  expect_nothing(now, wordy);
  wordy.plan.protocol.parameters = {{std::string(most_of_protocol, 'x'), true}};
  expect_nothing(now, wordy);
  const planned one{1, 1, plan_of(1, {{{0}, {}}})};
  EXPECT_EQ(no_room_for(now, one), "");
  EXPECT_TRUE(apply(now, one));
  EXPECT_TRUE(apply(now, incarnated{1, 1, false, 0, 1}));
  EXPECT_TRUE(apply(now, incarnated{1, 1, false, 0, 2}));
  expect_nothing(now, incarnated{1, 1, false, 1, 1});
  EXPECT_TRUE(apply(now, holder_lost{1, 1, {3}}));
  expect_nothing(now, holder_lost{1, 1, {4}});
  expect_nothing(now, promoted{1, 1, {1}, {4}, 0});
  EXPECT_LT(size_of(after({submitted{1, true, {}, 1}})), size_of(after({submitted{1, true, {}, 2}}))) << "it is kept free";
}

TEST(LedgerOfARunningJob, KnowsWhatNoEntriesCanHaveComeTo) {
  auto good = after(begun);
  for (const auto& each : of_a_life)
    EXPECT_TRUE(apply(good, each));
  ASSERT_TRUE(sound(good));
  const auto refuses = [&](const char* what, auto change) {
    auto bad = good;
    change(bad.jobs.at(1), bad.jobs.at(1).course);
    EXPECT_FALSE(sound(bad)) << what;
  };
  refuses("a course of a job that has not begun", [](job& of, course&) {
    of.life = 0;
    of.nodes.clear();
  });
  refuses("a plan of more than its roles", [](job& of, course& its) {
    of.roles = 1;
    its.plan.workers = {{{0}, {}}, {{1}, {}}};
    its.gone = {{7}};
  });
  refuses("more nodes", [](job& of, course& its) {
    of.roles = 2;
    its.nodes = {{0, {1}}, {1, {1}}, {2, {1}}};
  });
  refuses("more workers", [](job& of, course& its) {
    of.roles = 2;
    its.workers = {{{0}, {1}}, {{1}, {1}}, {{2}, {1}}};
  });
  refuses("more holders", [](job& of, course&) { of.roles = 1; });
  refuses("a backup that acts and is not out", [](job&, course& its) { its.gone.erase({7}); });
  refuses("a backup that acts and is not whole", [](job&, course& its) {
    its.acting = {{{1}, {8}}};
    its.copies[{8}].whole = false;
  });
  refuses("a backup that acts for another shard", [](job&, course& its) { its.acting = {{{0}, {8}}}; });
  refuses("more copies", [](job& of, course& its) {
    of.roles = 2;
    for (std::uint32_t number = 6; number < 9; ++number)
      its.copies[{number}] = {};
    its.first_copy = {6};
  });
  refuses("a copy whose number came before", [](job&, course& its) { its.first_copy = {9}; });
  refuses("a copy whose number was not given", [](job&, course& its) { its.newest_copy = {7}; });
  refuses("more checkpoints than are kept", [](job&, course& its) {
    its.checkpoints.clear();
    for (std::uint64_t i = 0; i <= most_checkpoints; ++i)
      its.checkpoints.push_back({i});
  });
  refuses("checkpoints that do not follow each other", [](job&, course& its) { its.checkpoints = {{9}, {9}}; });
}

} // namespace
} // namespace troupe::protocols::ledger
