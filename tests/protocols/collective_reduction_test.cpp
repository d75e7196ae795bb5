// SPDX-License-Identifier: BSD-3-Clause
// One rank's part in an allreduce: message by message, and all ranks together in any order of events.
#include "protocols/collective/reduction.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace troupe::protocols::collective {
namespace {

constexpr ticket t(std::uint64_t value) {
  return {value};
}

template <class Effect>
std::vector<Effect> all(const reduction_effects& of) {
  std::vector<Effect> out;
  for (const reduction_effect& each : of)
    if (const auto* found = std::get_if<Effect>(&each))
      out.push_back(*found);
  return out;
}

// -- one rank

/// Rank 1 of two by direct: it owns segment 1.
struct ReductionOfTwo : testing::Test {
  reduction subject{algorithm::direct};
  const begin its_own{1, 2, {4, 2.0, true}};
  const chunk from_the_other{{0, 0, 1}, 2, t(7), {6, 3.0, true}};
  const chunk sum_from_the_other{{0, 1, 0}, 1, t(8), {10, 5.0, true}};
};

TEST_F(ReductionOfTwo, SendsTheOthersSegmentAddsItsOwnInRankOrderAndSendsThat) {
  EXPECT_EQ(subject.on(its_own), (reduction_effects{send_chunk{0, 0, 0, 1, {4, 2.0, true}}}));
  EXPECT_EQ(subject.waiting_for(), std::vector{0U});
  EXPECT_EQ(subject.on(from_the_other), (reduction_effects{merge{0, 1, 2, {t(7), t(0)}}}));
  EXPECT_EQ(subject.on(merged{0, 1}), (reduction_effects{send_chunk{0, 1, 1, 2, {10, 5.0, true}}}));
  EXPECT_EQ(subject.on(sum_from_the_other), (reduction_effects{merge{1, 0, 1, {t(8)}}}));
  EXPECT_FALSE(subject.is_done());
  EXPECT_EQ(subject.on(merged{1, 0}), (reduction_effects{reduced{{10, 5.0, true}}}));
  EXPECT_TRUE(subject.is_done());
  EXPECT_TRUE(subject.waiting_for().empty());
}

TEST_F(ReductionOfTwo, WhatComesBeforeItsOwnTermWaits) {
  EXPECT_TRUE(subject.on(from_the_other).empty());
  const auto out = subject.on(its_own);
  EXPECT_EQ(all<merge>(out), (std::vector{merge{0, 1, 2, {t(7), t(0)}}}));
  EXPECT_EQ(all<send_chunk>(out).size(), 1U) << "its sum is not made yet";
}

TEST_F(ReductionOfTwo, ASumIsNotTakenIntoASegmentThatIsStillToBeSent) {
  EXPECT_TRUE(subject.on(sum_from_the_other).empty());
  const auto out = subject.on(its_own);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(std::get<send_chunk>(out[0]).first, 0U);
  EXPECT_EQ(std::get<merge>(out[1]), (merge{1, 0, 1, {t(8)}}));
}

TEST_F(ReductionOfTwo, AGradientThatIsNotFiniteIsKnownToAll) {
  subject.on(its_own);
  auto bad = from_the_other;
  bad.of.finite = false;
  subject.on(bad);
  EXPECT_FALSE(std::get<send_chunk>(subject.on(merged{0, 1}).front()).of.finite);
}

TEST_F(ReductionOfTwo, AChunkTwiceIsRefusedWhenever) {
  subject.on(from_the_other);
  const std::string why = "segment 1 of stage 0 from rank 0 came twice";
  const auto again = [&](std::uint64_t number) {
    auto out = from_the_other;
    out.data = t(number);
    return out;
  };
  EXPECT_EQ(subject.on(again(9)), (reduction_effects{refuse_chunk{{0, 0, 1}, t(9), why}})) << "before it begins";
  subject.on(its_own);
  EXPECT_EQ(subject.on(again(10)), (reduction_effects{refuse_chunk{{0, 0, 1}, t(10), why}})) << "while it is added";
  subject.on(merged{0, 1});
  EXPECT_EQ(subject.on(again(11)), (reduction_effects{refuse_chunk{{0, 0, 1}, t(11), why}})) << "afterwards";
}

TEST_F(ReductionOfTwo, AStrangersChunkIsRefused) {
  const auto why_not = [](const chunk& msg, bool early) {
    reduction subject{algorithm::direct};
    reduction_effects out;
    if (early)
      subject.on(msg);
    out = subject.on(begin{1, 2, {}});
    if (!early)
      out = subject.on(msg);
    const auto refused = all<refuse_chunk>(out);
    return refused.size() == 1 && refused[0].data == msg.data ? refused[0].why : "it is not refused";
  };
  for (const bool early : {false, true}) {
    EXPECT_EQ(why_not({{2, 0, 1}, 2, t(1), {}}, early), "segment 1 of stage 0 from rank 2 is not in the schedule");
    EXPECT_EQ(why_not({{1, 0, 1}, 2, t(1), {}}, early), "segment 1 of stage 0 from rank 1 is not in the schedule") << "itself";
    EXPECT_EQ(why_not({{0, 5, 1}, 2, t(1), {}}, early), "segment 1 of stage 5 from rank 0 is not in the schedule");
    EXPECT_EQ(why_not({{0, 0, 0}, 1, t(1), {}}, early), "segment 0 of stage 0 from rank 0 is not in the schedule");
    EXPECT_EQ(why_not({{0, 0, 1}, 9, t(1), {}}, early), "segment 1 of stage 0 from rank 0 ends with 9, and the schedule says 2");
  }
}

TEST_F(ReductionOfTwo, AbandonedItDropsWhatIsThereAndWhatComes) {
  subject.on(sum_from_the_other);
  EXPECT_EQ(subject.on(abandon{}), (reduction_effects{drop_chunk{t(8)}}));
  EXPECT_EQ(subject.on(from_the_other), (reduction_effects{drop_chunk{t(7)}}));
  EXPECT_TRUE(subject.on(its_own).empty());
  EXPECT_TRUE(subject.on(merged{0, 1}).empty());
  EXPECT_FALSE(subject.is_done());
}

TEST(Reduction, OfOneRankIsDoneAtOnce) {
  reduction subject{algorithm::ring};
  EXPECT_EQ(subject.on(begin{0, 1, {3, 1.5, true}}), (reduction_effects{reduced{{3, 1.5, true}}}));
  EXPECT_TRUE(subject.on(abandon{}).empty()) << "it is done";
  EXPECT_TRUE(subject.is_done());
}

/// Rank 0 of three by halving: block {0, 1}, and 2, whose sums come to both.
TEST(Reduction, OfThreeByHalvingGoesThroughBothBlocks) {
  reduction subject{algorithm::halving};
  EXPECT_EQ(subject.on(begin{0, 3, {1, 1, true}}), (reduction_effects{send_chunk{1, 0, 1, 2, {1, 1, true}}}));
  EXPECT_EQ(subject.waiting_for(), std::vector{1U}) << "what rank 2 brings comes behind";
  EXPECT_EQ(subject.on(chunk{{1, 0, 0}, 1, t(1), {1, 2, true}}), (reduction_effects{merge{0, 0, 1, {t(0), t(1)}}}));
  EXPECT_TRUE(subject.on(chunk{{2, 1, 0}, 1, t(2), {1, 4, true}}).empty()) << "the block's own sum comes first";
  EXPECT_EQ(subject.on(merged{0, 0}), (reduction_effects{merge{1, 0, 1, {t(0), t(2)}}}));
  EXPECT_EQ(subject.on(merged{1, 0}),
            (reduction_effects{send_chunk{2, 2, 0, 1, {3, 7, true}}, send_chunk{1, 3, 0, 1, {3, 7, true}}}));
  EXPECT_EQ(subject.on(chunk{{1, 3, 1}, 2, t(3), {3, 7, true}}), (reduction_effects{merge{3, 1, 2, {t(3)}}}));
  EXPECT_EQ(subject.on(merged{3, 1}), (reduction_effects{reduced{{3, 7, true}}}));
}

/// Rank 0 of four by halving adds rank 2's half, and sends of that the second quarter on.
TEST(Reduction, WhatIsSentOnHasTheFactsOfItsTerms) {
  reduction subject{algorithm::halving};
  subject.on(begin{0, 4, {1, 1, true}});
  subject.on(chunk{{2, 0, 0}, 2, t(1), {1, 2, true}});
  EXPECT_EQ(subject.on(merged{0, 0}), (reduction_effects{send_chunk{1, 1, 1, 2, {2, 3, true}}}));
}

/// Rank 3 of five is the root of the first tree, with children 1 and 4, and a leaf below rank 2 of the second.
TEST(Reduction, WaitsForEachChildThatHasNotComeAndForItsParent) {
  reduction subject{algorithm::tree};
  subject.on(begin{3, 5, {}});
  EXPECT_EQ(subject.waiting_for(), (std::vector{1U, 2U, 4U}));
  EXPECT_TRUE(subject.on(chunk{{4, 1, 0}, 1, t(4), {}}).empty());
  EXPECT_EQ(subject.waiting_for(), (std::vector{1U, 2U}));
  EXPECT_EQ(subject.on(chunk{{1, 1, 0}, 1, t(1), {}}), (reduction_effects{merge{1, 0, 1, {t(1), t(4), t(0)}}}));
  EXPECT_EQ(subject.waiting_for(), (std::vector{2U}));
}

// -- all ranks

/// Ranks with texts for tensors, a network that delivers in any order, and additions that take their time.
class group {
public:
  group(algorithm which, const topology& among, std::uint32_t seed) : ranks_(among.ranks), dice_(seed) {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      members_.emplace_back(reduction{which});
      place_.emplace_back(segments(which, among), std::to_string(rank));
      happen_later([this, rank, among] { perform(rank, members_[rank].on(begin{rank, among, own(rank)})); });
    }
  }

  /// One event; false: there is none.
  bool step() {
    if (events_.empty())
      return false;
    std::swap(events_[std::uniform_int_distribution<std::size_t>(0, events_.size() - 1)(dice_)], events_.back());
    const auto next = std::move(events_.back());
    events_.pop_back();
    next();
    return true;
  }
  void run() {
    while (step()) {
    }
  }
  void abandon_all() {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      perform(rank, members_[rank].on(abandon{}));
  }
  static facts own(std::uint32_t rank) { return {rank + 1, 0.1 * rank, rank != 5, 0, rank == 3}; }

  const std::vector<reduction>& members() const { return members_; }
  const std::vector<std::vector<std::string>>& place() const { return place_; }
  const std::map<std::uint32_t, facts>& done() const { return done_; }
  std::size_t tensors() const { return tensors_.size(); }
  bool repeats = false; ///< each chunk comes twice

private:
  void happen_later(std::function<void()> what) { events_.push_back(std::move(what)); }

  void perform(std::uint32_t rank, const reduction_effects& effects) {
    for (const reduction_effect& effect : effects)
      std::visit([&](const auto& each) { perform(rank, each); }, effect);
  }
  void perform(std::uint32_t rank, const merge& what) {
    // What is named now is read now, or later: the place must not change meanwhile.
    happen_later([this, rank, what] {
      for (std::uint32_t s = what.first; s < what.last; ++s) {
        std::string sum;
        for (const ticket term : what.terms) {
          const std::string& text = term == ticket{} ? place_[rank][s] : tensors_.at(term)[s - what.first];
          sum = sum.empty() ? text : fmt::format("({}+{})", sum, text);
        }
        place_[rank][s] = sum;
      }
      for (const ticket term : what.terms)
        tensors_.erase(term);
      perform(rank, members_[rank].on(merged{what.stage, what.first}));
    });
  }
  void perform(std::uint32_t rank, const send_chunk& what) {
    const auto& from = place_[rank];
    for (int times = repeats ? 2 : 1; times > 0; --times) {
      const ticket name{++last_};
      tensors_.emplace(name, std::vector(from.begin() + what.first, from.begin() + what.last));
      happen_later([this, rank, what, name] {
        perform(what.to, members_[what.to].on(chunk{{rank, what.stage, what.first}, what.last, name, what.of}));
      });
    }
  }
  void perform(std::uint32_t, const drop_chunk& what) { EXPECT_EQ(tensors_.erase(what.data), 1U); }
  void perform(std::uint32_t, const refuse_chunk& what) {
    EXPECT_TRUE(repeats) << what.why;
    EXPECT_EQ(tensors_.erase(what.data), 1U);
  }
  void perform(std::uint32_t rank, const reduced& what) { EXPECT_TRUE(done_.emplace(rank, what.of).second); }

  std::uint32_t ranks_;
  std::mt19937 dice_;
  std::vector<reduction> members_;
  std::vector<std::vector<std::string>> place_;
  std::map<ticket, std::vector<std::string>> tensors_;
  std::map<std::uint32_t, facts> done_;
  std::vector<std::function<void()>> events_;
  std::uint64_t last_ = 0;
};

struct ReductionSchedules : testing::TestWithParam<algorithm> {};

/// Each for itself, and in groups of two or three.
std::vector<topology> topologies_of(std::uint32_t ranks) {
  std::vector<topology> out{topology{ranks}};
  for (const std::uint32_t size : {2U, 3U})
    out.emplace_back(ranks, [size](std::uint32_t rank) { return rank / size; });
  return out;
}

TEST_P(ReductionSchedules, EveryRankHasTheSameSumsAndFactsAndNoTensorIsLeft) {
  for (std::uint32_t ranks = 1; ranks <= 12; ++ranks)
    for (const topology& among : topologies_of(ranks)) {
      std::optional<std::vector<std::string>> sums;
      for (std::uint32_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE(fmt::format("{} of {} in {} groups, seed {}", name_of(GetParam()), ranks, among.groups.size(), seed));
        group all{GetParam(), among, seed};
        all.repeats = seed % 2 == 1;
        all.run();
        ASSERT_EQ(all.done().size(), ranks) << "it stands still";
        EXPECT_EQ(all.tensors(), 0U);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(all.place()[rank], sums.value_or(all.place()[0]));
          EXPECT_EQ(all.done().at(rank), all.done().at(0));
        }
        sums = all.place()[0];
        EXPECT_EQ(all.done().at(0).samples, std::int64_t{ranks} * (ranks + 1) / 2);
        EXPECT_NEAR(all.done().at(0).loss, 0.05 * ranks * (ranks - 1), 1e-9);
        EXPECT_EQ(all.done().at(0).finite, ranks <= 5);
        EXPECT_EQ(all.done().at(0).saves, ranks > 3);
      }
    }
}

TEST_P(ReductionSchedules, AbandonedAtAnyEventNoTensorIsLeft) {
  for (const topology& among : {topology{2}, topology{3}, topologies_of(5)[1], topology{5}, topologies_of(8)[2], topology{8}})
    for (std::uint32_t events = 0;; ++events) {
      group all{GetParam(), among, events};
      bool more = true;
      for (std::uint32_t i = 0; i < events && more; ++i)
        more = all.step();
      all.abandon_all();
      all.run();
      ASSERT_EQ(all.tensors(), 0U) << name_of(GetParam()) << " of " << among.ranks << ", after " << events << " events";
      if (!more)
        break;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ReductionSchedules,
                         testing::Values(algorithm::direct, algorithm::ring, algorithm::halving, algorithm::tree,
                                         algorithm::broadcast),
                         [](const auto& which) { return std::string(name_of(which.param)); });

} // namespace
} // namespace troupe::protocols::collective
