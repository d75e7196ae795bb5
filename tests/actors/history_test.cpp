// SPDX-License-Identifier: BSD-3-Clause
// What a cluster remembers, and that it forgets in time.
#include "actors/cluster/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(const std::vector<cluster_event>& events) {
  std::vector<std::string> out;
  for (const auto& each : events)
    out.push_back(std::to_string(each.job) + " " + each.text);
  return out;
}

TEST(Thinned, KeepsTheFirstTheLastAndEvenlyManyBetween) {
  thinned<int, 4> some;
  EXPECT_TRUE(some.all().empty());
  for (int i = 0; i < 4; ++i)
    some.add(i);
  EXPECT_THAT(some.all(), ElementsAre(0, 1, 2, 3));
  some.add(4);
  EXPECT_THAT(some.all(), ElementsAre(0, 2, 4));
  some.add(5);
  EXPECT_THAT(some.all(), ElementsAre(0, 2, 4, 5));
  for (int i = 6; i <= 9; ++i)
    some.add(i);
  EXPECT_THAT(some.all(), ElementsAre(0, 4, 8, 9));
}

TEST(Thinned, NeverHoldsMoreThanItSays) {
  thinned<int, 8> some;
  for (int i = 0; i < 100'000; ++i) {
    some.add(i);
    const auto all = some.all();
    ASSERT_LE(all.size(), 9U);
    ASSERT_EQ(all.front(), 0);
    ASSERT_EQ(all.back(), i);
  }
}

TEST(History, TellsOfOneJobOrOfEverybodyInTheOrderOfHearing) {
  history_book book;
  book.say(0, "node b has joined", 1000);
  book.open(1, "small", "sync");
  book.say(1, "starts", 2000);
  book.open(2, "other", "async");
  book.say(2, "waits", 2000);
  book.say(1, "worker 0 is lost", 1500); // clocks may be set back
  progress seventh;
  seventh.step = 7;
  book.add(1, seventh);
  evaluation_point fifth;
  fifth.step = 5;
  book.add(1, fifth);
  EXPECT_THAT(texts(book.of(0).events), ElementsAre("0 node b has joined", "1 starts", "2 waits", "1 worker 0 is lost"));
  EXPECT_TRUE(book.of(0).steps.empty());
  const auto first = book.of(1);
  EXPECT_THAT(texts(first.events), ElementsAre("1 starts", "1 worker 0 is lost"));
  EXPECT_EQ(first.events[0].at_ms, 2000);
  ASSERT_EQ(first.jobs.size(), 2U);
  EXPECT_EQ(first.jobs[1].name, "other");
  EXPECT_EQ(first.steps.at(0).step, 7U);
  EXPECT_EQ(first.evaluations.at(0).step, 5U);
  EXPECT_TRUE(book.of(2).steps.empty());
}

TEST(History, ForgetsTheEventsThatAreOldAndCutsThoseThatAreLong) {
  history_book book;
  book.open(1, "small", "sync");
  for (std::size_t i = 0; i < 10 * history_book::most_events; ++i) {
    book.say(1, std::to_string(i), 0);
    book.say(0, "of the cluster", 0);
  }
  EXPECT_EQ(book.of(1).events.size(), history_book::most_events);
  EXPECT_EQ(book.of(1).events.back().text, std::to_string(10 * history_book::most_events - 1));
  EXPECT_EQ(book.of(0).events.size(), history_book::most_events);
  book.say(1, std::string(history_book::most_text - 1, 'x') + "ä", 0); // two bytes, of which one would fit
  EXPECT_EQ(book.of(1).events.back().text, std::string(history_book::most_text - 1, 'x'));
}

TEST(History, KeepsJobsThatGoOnAndTheLastThatEnded) {
  history_book book;
  for (std::uint64_t job = 1; job <= 20; ++job)
    book.open(job, "j", "sync");
  for (std::uint64_t job = 2; job <= 20; ++job) {
    book.close(job, "has ended");
    book.close(job, "has ended again");
  }
  EXPECT_EQ(book.of(0).jobs.size(), 1 + history_book::most_ended);
  EXPECT_TRUE(book.knows(0));
  EXPECT_TRUE(book.knows(1));
  EXPECT_EQ(book.of(1).jobs[0].state, "");
  EXPECT_FALSE(book.knows(12));
  EXPECT_TRUE(book.knows(13));
  EXPECT_EQ(book.of(13).jobs[1].state, "has ended");
  book.add(12, progress{}); // of one that is forgotten: nothing happens
  book.say(12, "late", 0);
  EXPECT_THAT(texts(book.of(0).events), ElementsAre("0 late"));
}

} // namespace
} // namespace troupe::actors
