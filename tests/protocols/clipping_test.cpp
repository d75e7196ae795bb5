// SPDX-License-Identifier: BSD-3-Clause
// Sums that are clipped by the norm of the whole: what leads and holders say of their squares.
#include <gtest/gtest.h>

#include "tests/protocols/two_phases.hpp"

namespace troupe::protocols {
namespace {

prepared measured_by(std::uint32_t holder, const close& round, std::uint64_t squares) {
  prepared out = prepared_by(holder, round);
  out.squares = {0, squares};
  return out;
}

TEST(Clipping, ACommitHasTheSquaresOfAllShardsAndTheNextCloseThoseOfTheVersionBefore) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0), h(1), h(2)}}, 0};
  const close round = proposed_by(subject);
  EXPECT_EQ(round.squares_before, squared_norm{});
  subject.on(measured_by(0, round, 5));
  subject.on(measured_by(2, round, 0)); // a backup
  subject.on(measured_by(2, round, 9)); // twice is once
  EXPECT_EQ(std::get<commit_order>(subject.on(measured_by(1, round, 7)).front()).squares, (squared_norm{0, 12}));
  EXPECT_EQ(subject.newest_record().squares_before, (squared_norm{0, 12}));
  subject.on(arrived_at(0, 2));
  EXPECT_EQ(only<close>(subject.on(arrived_at(1, 2))).squares_before, (squared_norm{0, 12}));
  EXPECT_EQ(subject.record().squares_before, (squared_norm{0, 12})) << "whoever leads next says it, too";
}

TEST(Clipping, AShardThatHasTakenOverSaysItsSquaresAnew) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0), h(1), h(2), h(3)}}, 0}; // 2 and 3 back up 0 and 1
  const close round = proposed_by(subject);
  subject.on(measured_by(0, round, 5));
  subject.on(measured_by(1, round, 7));
  subject.on(takes_over{h(1), h(3), 0});
  subject.on(measured_by(1, round, 7));
  EXPECT_EQ(std::get<commit_order>(subject.on(measured_by(2, round, 0)).front()).squares, (squared_norm{0, 12}));
}

holder copy_that_clips(std::uint32_t self) {
  holder out{holder_tree({.workers = 2, .replicas = 2, .clips = true})[self]};
  out.on(plan_of(1, {0, 1}));
  return out;
}

TEST(Clipping, WhatIsClippedIsMeasuredBeforeItIsPreparedAndMadeByTheWholeSumsSquares) {
  holder subject = copy_that_clips(0);
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two());
  EXPECT_EQ(subject.on(summed{v(1), 1, t(7)}), (holder_effects{measure{v(1), 1, t(7)}}));
  EXPECT_EQ(subject.on(measured{v(1), 2, {0, 6}}), holder_effects{}) << "of another decision's sum";
  EXPECT_EQ(subject.on(measured{v(1), 1, {0, 5}}), (holder_effects{send_prepared{{h(0), v(1), 1, true, {0, 5}}}}));
  EXPECT_EQ(only<apply_round>(subject.on(commit_order{v(1), 1, false, {1, 12}})).round.step.squares, (squared_norm{1, 12}));
  close again = round_of_two(1, 1); // the next lead decides it again: here it is made
  EXPECT_EQ(subject.on(again), (holder_effects{send_prepared{{h(0), v(1), 1, true, {0, 5}}}}));
}

TEST(Clipping, ACommitThatWasLostIsInTheNextCloseWithItsSquares) {
  holder subject = copy_that_clips(0);
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two());
  subject.on(summed{v(1), 1, t(7)});
  subject.on(measured{v(1), 1, {0, 5}});
  close next = round_of_two(2, 1);
  next.ver = v(2);
  next.squares_before = {0, 12};
  EXPECT_EQ(only<apply_round>(subject.on(next)).round.step.squares, (squared_norm{0, 12}));
}

TEST(Clipping, ABackupMeasuresForTheDayWhenItIsTheShardAndSaysNothingOfIt) {
  holder subject = copy_that_clips(1);
  subject.on(round_of_two());
  EXPECT_EQ(only<measure>(subject.on(partial{h(0), v(1), t(7), 1})), (measure{v(1), 1, t(7)}));
  EXPECT_EQ(subject.on(measured{v(1), 1, {0, 5}}), (holder_effects{send_prepared{{h(1), v(1), 1}}}));
  EXPECT_EQ(only<apply_round>(subject.on(commit_order{v(1), 1, false, {0, 12}})).round.step.squares, (squared_norm{0, 12}));
  EXPECT_EQ(only<send_prepared>(subject.on(takes_over{h(0), h(1), 1})).prepared.squares, (squared_norm{0, 5}));
}

TEST(Clipping, ASumOfNothingIsNotMeasured) {
  holder subject = copy_that_clips(0);
  close round = round_of_two();
  round.contributions.clear();
  subject.on(round);
  EXPECT_EQ(subject.on(summed{v(1), 1, {}}), (holder_effects{send_prepared{{h(0), v(1), 1}}}));
}

} // namespace
} // namespace troupe::protocols
