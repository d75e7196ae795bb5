// SPDX-License-Identifier: BSD-3-Clause
// Which nodes a job gets.
#include "actors/gang.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using testing::HasSubstr;
using gang = std::vector<std::uint32_t>;

/// A coordinator that holds no workers, and nodes that may hold anything, all here and free.
std::vector<member_view> seats_on(const std::vector<std::string>& hosts) {
  std::vector<member_view> seats{{.what = {"a", "h0", true, false}, .here = true}};
  for (const auto& host : hosts)
    seats.push_back({.what = {std::string(1, static_cast<char>('a' + seats.size())), host, true, true}, .here = true});
  return seats;
}

job wants(std::uint32_t nodes, std::uint32_t workers = 4) {
  job what;
  what.cluster = {.nodes = nodes, .workers = workers, .shards = 1};
  return what;
}

gang chosen(const job& what, const std::vector<member_view>& seats) {
  const auto got = choose_gang(what, seats);
  return std::holds_alternative<gang>(got) ? std::get<gang>(got) : gang{};
}

no_gang refused(const job& what, const std::vector<member_view>& seats) {
  const auto got = choose_gang(what, seats);
  return std::holds_alternative<no_gang>(got) ? std::get<no_gang>(got) : no_gang{};
}

TEST(Gang, AJobGetsAllThatItNeeds) {
  EXPECT_EQ(chosen(wants(3), seats_on({"h0", "h0", "h0"})), (gang{0, 1, 2}));
}

TEST(Gang, OrNothing) {
  auto seats = seats_on({"h0", "h0", "h0"});
  seats[1].job = 7;
  seats[2].here = false;
  const auto why = refused(wants(3), seats);
  EXPECT_FALSE(why.never);
  EXPECT_THAT(why.reason, HasSubstr("node b runs job 7"));
  EXPECT_THAT(why.reason, HasSubstr("node c has not joined"));
  EXPECT_EQ(chosen(wants(2), seats), (gang{0, 3}));
}

TEST(Gang, WhoLeavesGetsNothingNew) {
  auto seats = seats_on({"h0"});
  seats[1].leaving = true;
  EXPECT_THAT(refused(wants(2), seats).reason, HasSubstr("node b leaves"));
}

TEST(Gang, NodesOfOneHostGoTogether) {
  EXPECT_EQ(chosen(wants(3), seats_on({"h1", "h2", "h3", "h2"})), (gang{0, 2, 4}));
  EXPECT_EQ(chosen(wants(4), seats_on({"h1", "h2", "h1", "h2"})), (gang{0, 1, 3, 2}));
}

TEST(Gang, WhatNoStateOfTheClusterCouldServeIsRefusedForGood) {
  EXPECT_TRUE(refused(wants(3), seats_on({"h0"})).never);
  EXPECT_TRUE(refused(wants(1, 1), seats_on({"h0"})).never) << "the coordinator's node may hold no workers";
}

TEST(Gang, TheCoordinatorsNodeServesManyJobsButItsWorkersOne) {
  auto seats = seats_on({"h0", "h0"});
  seats[0].job = 3;
  EXPECT_EQ(chosen(wants(2), seats), (gang{0, 1})) << "shards alone";
  seats[0].what.worker = true;
  auto spread = wants(2);
  spread.cluster.where = placement::colocated;
  EXPECT_THAT(refused(spread, seats).reason, HasSubstr("node a runs job 3"));
  EXPECT_THAT(refused(wants(1, 1), seats).reason, HasSubstr("node a runs job 3"));
}

} // namespace
} // namespace troupe::actors
