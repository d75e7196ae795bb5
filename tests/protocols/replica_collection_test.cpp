// SPDX-License-Identifier: BSD-3-Clause
// What an evaluator collects in a decentralized job: for whom it waits, and who counts in the average.
#include "protocols/binding/replica_collection.hpp"

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Tensors are words.
class ReplicaCollection : public testing::Test {
protected:
  using average = std::optional<replica_collection<std::string>::average>;
  replica_collection<std::string> subject;

  average plan_with(std::uint32_t epoch, std::initializer_list<std::uint32_t> workers) {
    return subject.on(plan_of(epoch, workers));
  }
  average collect(std::uint64_t ver) { return subject.on(fetch_order{v(ver)}); }
  average replica(std::uint32_t worker, std::uint64_t ver, const std::string& tensor, double weight = 1) {
    return subject.on({.from = {w(worker), {}}, .round = ver, .weight = weight}, tensor);
  }
  /// Of who has none yet.
  average nothing(std::uint32_t worker, std::uint64_t ver) {
    return subject.on({.from = {w(worker), {}}, .round = ver, .weight = 0}, std::nullopt);
  }
  static std::string text(const average& found) {
    if (!found)
      return "not yet";
    std::string out;
    for (const auto& part : found->terms)
      out += fmt::format("{}{} {}", out.empty() ? "" : " + ", part.weight, part.tensor);
    return fmt::format("{} = {}", found->ver.value, out.empty() ? "nothing" : out);
  }
};

TEST_F(ReplicaCollection, TheAverageIsByWeightOnceTheLastReplicaHasCome) {
  plan_with(1, {0, 1});
  EXPECT_EQ(text(collect(3)), "not yet");
  EXPECT_EQ(text(replica(1, 3, "b", 1.5)), "not yet");
  EXPECT_THAT(subject.missing(), ElementsAre(member{w(0), {}}));
  EXPECT_EQ(text(replica(0, 3, "a", 0.5)), "3 = 0.25 a + 0.75 b");
  EXPECT_FALSE(subject.collects());
  EXPECT_EQ(subject.collected(), v(3));
}

TEST_F(ReplicaCollection, ItTellsWhatEverybodyHasMadeWithAReplicaOrNot) {
  plan_with(1, {0, 1});
  collect(1);
  subject.on({.from = {w(1), {}}, .round = 1, .weight = 0, .made = {2, 20}}, std::nullopt);
  const auto whole = subject.on({.from = {w(0), {}}, .round = 1, .made = {5, 50}}, "a");
  ASSERT_TRUE(whole);
  EXPECT_THAT(whole->made,
              ElementsAre(std::pair{member{w(0), {}}, step_count{5, 50}}, std::pair{member{w(1), {}}, step_count{2, 20}}));
}

TEST_F(ReplicaCollection, AReplicaThatComesBeforeItIsAskedForIsKept) {
  plan_with(1, {0, 1});
  EXPECT_EQ(text(replica(0, 1, "a")), "not yet");
  collect(1);
  EXPECT_THAT(subject.missing(), ElementsAre(member{w(1), {}}));
  EXPECT_EQ(text(replica(1, 1, "b")), "1 = 0.5 a + 0.5 b");
}

TEST_F(ReplicaCollection, WhereEverybodyWasEarlyAskingCompletesIt) {
  plan_with(1, {0});
  replica(0, 1, "a");
  EXPECT_EQ(text(collect(1)), "1 = 1 a");
}

TEST_F(ReplicaCollection, WhoDiesMeanwhileIsNotWaitedFor) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  EXPECT_EQ(text(plan_with(2, {0})), "1 = 1 a");
}

TEST_F(ReplicaCollection, WhoDiesAfterItHasSentIsNotInTheAverage) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  EXPECT_EQ(text(plan_with(2, {1})), "not yet");
  EXPECT_EQ(text(replica(1, 1, "b")), "1 = 1 b");
}

TEST_F(ReplicaCollection, AnotherLifeOfAWorkerIsAnotherMember) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  plan back = plan_of(2, {0, 1});
  back.workers[0].incarnation = {1};
  subject.on(back);
  EXPECT_EQ(text(replica(0, 1, "of the first incarnation")), "not yet");
  EXPECT_EQ(text(replica(1, 1, "b")), "1 = 1 b");
}

TEST_F(ReplicaCollection, WhoJoinsMeanwhileIsNotWaitedFor) {
  plan_with(1, {0});
  collect(1);
  plan_with(2, {0, 1});
  EXPECT_EQ(text(replica(0, 1, "a")), "1 = 1 a");
}

TEST_F(ReplicaCollection, WhereNobodyIsLeftThereIsNothingToAverage) {
  plan_with(1, {0});
  collect(1);
  EXPECT_EQ(text(plan_with(2, {})), "1 = nothing");
}

TEST_F(ReplicaCollection, AStrangersReplicaIsIgnored) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  replica(7, 1, "stranger");
  EXPECT_EQ(text(replica(1, 1, "b")), "1 = 0.5 a + 0.5 b");
}

TEST_F(ReplicaCollection, ALateReplicaOfAnOlderVersionDoesNotReplaceTheNewOne) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  replica(1, 1, "b");
  collect(2);
  replica(0, 2, "a, later");
  EXPECT_EQ(text(replica(0, 1, "a")), "not yet");
  EXPECT_EQ(text(replica(1, 2, "b, later")), "2 = 0.5 a, later + 0.5 b, later");
}

TEST_F(ReplicaCollection, AskedAgainWhileItCollectsItGoesOnAsBefore) {
  plan_with(1, {0, 1});
  collect(1);
  replica(0, 1, "a");
  EXPECT_EQ(text(collect(1)), "not yet");
  EXPECT_THAT(subject.missing(), ElementsAre(member{w(1), {}}));
}

TEST_F(ReplicaCollection, AVersionIsAveragedOnce) {
  plan_with(1, {0});
  collect(1);
  EXPECT_EQ(text(replica(0, 1, "a")), "1 = 1 a");
  EXPECT_EQ(text(collect(1)), "not yet");
  EXPECT_FALSE(subject.collects());
  EXPECT_EQ(text(replica(0, 1, "a")), "not yet");
}

TEST_F(ReplicaCollection, WhoHasNothingYetIsNotInTheAverage) {
  plan_with(1, {0, 1, 2});
  collect(1);
  replica(0, 1, "a");
  replica(1, 1, "weightless", 0);
  EXPECT_EQ(text(nothing(2, 1)), "1 = 1 a");
  collect(2);
  nothing(0, 2);
  nothing(1, 2);
  const auto whole = nothing(2, 2);
  ASSERT_TRUE(whole);
  EXPECT_THAT(whole->terms, IsEmpty());
}

TEST_F(ReplicaCollection, WhereNobodyHasAWeightEachHasDivergedAndTheAverageShowsIt) {
  plan_with(1, {0, 1, 2});
  collect(1);
  replica(0, 1, "nan", 0);
  nothing(2, 1);
  EXPECT_EQ(text(replica(1, 1, "inf", 0)), "1 = 0.5 nan + 0.5 inf");
}

} // namespace
} // namespace troupe::protocols
