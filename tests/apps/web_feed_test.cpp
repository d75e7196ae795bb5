// SPDX-License-Identifier: BSD-3-Clause
// What the web page is told.
#include "apps/web/feed.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/web/activity.hpp"
#include "apps/web/folding.hpp"
#include "apps/web/thinned_curve.hpp"

namespace troupe::apps::web {
namespace {

using testing::ElementsAre;
using point = thinned_curve::point;

actors::actor_report actor(const std::string& id, const std::string& state, std::vector<std::string> waits_for = {}) {
  return {.id = id, .role = id.substr(0, id.find(' ')), .node = "b", .job = 1, .state = state, .waits_for = std::move(waits_for)};
}

console::snapshot of(std::vector<actors::actor_report> all, std::vector<actors::link_report> links = {}) {
  console::snapshot at;
  at.reports.nodes.push_back({.node = "b", .job = 1, .pid = 7, .actors = std::move(all), .links = std::move(links)});
  return at;
}

TEST(ThinnedCurve, KeepsEveryValueWhileTheyAreFew) {
  thinned_curve curve{4};
  curve.add(0, 3);
  curve.add(1, std::numeric_limits<double>::quiet_NaN()); // no value
  curve.add(2, 1);
  EXPECT_THAT(curve.points(), ElementsAre(point{0, 3, 3, 3, 1}, point{2, 1, 1, 1, 1}));
}

TEST(ThinnedCurve, MakesTwoPointsOneWhereTheyAreMany) {
  thinned_curve curve{4};
  for (int i = 0; i < 7; ++i)
    curve.add(i, i);
  // The fifth value found four points; from then on each has two values.
  EXPECT_THAT(curve.points(),
              ElementsAre(point{0, 0.5, 0, 1, 2}, point{2, 2.5, 2, 3, 2}, point{4, 4.5, 4, 5, 2}, point{6, 6, 6, 6, 1}));
}

TEST(ThinnedCurve, NeverGrowsBeyondItsBound) {
  thinned_curve curve{8};
  for (int i = 0; i < 10'000; ++i) {
    curve.add(i, 1);
    ASSERT_LE(curve.points().size(), 8U);
  }
  EXPECT_EQ(curve.points().front().at, 0);
  std::uint64_t values = 0;
  for (const auto& each : curve.points())
    values += each.values;
  EXPECT_EQ(values, 10'000U);
}

TEST(RecentActivity, AreSharesOfTheLastLooks) {
  recent_activity seen;
  const auto busy = of({actor("worker 0", "computes")}), waiting = of({actor("worker 0", "waits for parameters", {"shard 0"})});
  seen.see(busy, 1);
  EXPECT_TRUE(seen.actors(busy).arrows.empty());
  seen.see(waiting, 2);
  // The look before counts 0.9: 1 / 1.9 of the time it waited.
  const auto now = seen.actors(waiting);
  EXPECT_EQ(boost::json::serialize(json_of(now.arrows)), R"([{"from":"worker 0","to":"shard 0","share":5.26E-1}])");
  const auto worker = json_of(now.boxes).at(0).as_object();
  EXPECT_EQ(worker.at("mood"), "waits");
  EXPECT_EQ(boost::json::serialize(worker.at("shares")), R"({"idle":0E0,"stuck":0E0,"waits":5.26E-1,"works":4.74E-1})");
}

TEST(RecentActivity, WhoIsPausedDoesNotWorkAndWhoHasEndedIsInTrouble) {
  auto at = of({actor("worker 0", "stands still: paused by the operator"), actor("worker 1", "has ended")});
  at.reports.nodes[0].actors[0].paused = true;
  at.reports.nodes[0].actors[1].ended = true;
  recent_activity seen;
  seen.see(at, 1);
  const auto boxes = seen.actors(at).boxes;
  EXPECT_EQ(boxes.at(0).mood, "idle");
  EXPECT_EQ(boxes.at(1).mood, "stuck");
}

TEST(RecentActivity, WhatLastsIsShownAsItIs) {
  recent_activity seen;
  for (int i = 0; i < 3; ++i)
    seen.see(of({actor("worker 0", "computes")}), i);
  auto at = of({actor("worker 0", "waits for parameters", {"shard 0"})});
  seen.see(at, 3);
  EXPECT_EQ(seen.actors(at).boxes.at(0).mood, "works"); // most of the time
  at.reports.nodes[0].actors[0].since_s = 2;
  EXPECT_EQ(seen.actors(at).boxes.at(0).mood, "waits");
}

TEST(RecentActivity, WhoeverWaitsForNobodyAndDoesNothingIsIdle) {
  const auto mood = [](const char* state) { return recent_activity{}.actors(of({actor("shard 0", state)})).boxes.at(0).mood; };
  for (const auto* state : {"idle", "collects", "holds", "held, waits for a plan", "runs"})
    EXPECT_EQ(mood(state), "idle") << state;
  for (const auto* state : {"computes", "loads a batch", "applies", "sums", "evaluates"})
    EXPECT_EQ(mood(state), "works") << state;
}

TEST(RecentActivity, WhoeverIsGoneIsForgotten) {
  recent_activity seen;
  seen.see(of({actor("worker 0", "waits for parameters", {"shard 0"})}, {{"c", 10, 10, 0}}), 1);
  seen.see(of({}), 2);
  EXPECT_TRUE(seen.actors(of({actor("worker 0", "idle")})).arrows.empty());
  EXPECT_TRUE(seen.lanes(9).empty());
}

TEST(RecentActivity, ALaneHasTheBytesOfASecond) {
  recent_activity seen;
  seen.see(of({}, {{"c", 1000, 0, 0}}), 1);
  EXPECT_EQ(seen.lanes(9).at(0).at("sent_per_s").as_double(), 0); // seen but once
  seen.see(of({}, {{"c", 5000, 0, 7}}), 3);
  EXPECT_EQ(seen.lanes(9).at(0).at("sent_per_s").as_double(), 2000);
  seen.see(of({}, {{"c", 100, 0, 0}}), 4); // a new life of the node: no negative rate
  EXPECT_EQ(seen.lanes(9).at(0).at("sent_per_s").as_double(), 2000);
}

TEST(RecentActivity, OfManyLanesThoseOverWhichNothingGoesAreOneRow) {
  std::vector<actors::link_report> links;
  for (int i = 0; i < 13; ++i)
    links.push_back({.peer = fmt::format("n{}", i), .bytes_sent = 64});
  recent_activity seen;
  seen.see(of({}, links), 1);
  EXPECT_EQ(seen.lanes(64).size(), 0U);
  EXPECT_EQ(boost::json::serialize(seen.other_lanes(64)), R"({"count":13,"sent_per_s":0E0,"bytes_sent":832,"bytes_queued":0})");
  links[3].bytes_sent = 1064;
  links[5].queued_bytes = 7;
  seen.see(of({}, links), 2);
  ASSERT_EQ(seen.lanes(64).size(), 2U);
  EXPECT_EQ(seen.lanes(64).at(0).at("to"), "n3");
  EXPECT_EQ(seen.lanes(64).at(1).at("to"), "n5");
  EXPECT_EQ(seen.other_lanes(64).at("count").to_number<int>(), 11);
  EXPECT_EQ(seen.other_lanes(1).at("bytes_queued").to_number<int>(), 7) << "those beyond the bound are counted, too";
  links.pop_back();
  seen.see(of({}, links), 3);
  EXPECT_EQ(seen.lanes(64).size(), 12U) << "a dozen is no crowd";
}

TEST(RecentActivity, AStepThatWasNotMadeYetIsNoFastOne) {
  auto at = of({actor("worker 0", "loads a batch")});
  recent_activity seen;
  for (const auto* ms : {"0.000", "8.000"}) {
    at.reports.nodes[0].actors[0].fields["compute_ms"] = ms;
    seen.see(at, 1);
  }
  EXPECT_EQ(seen.stragglers(at).at("workers").at(0).at("compute_ms").as_double(), 8);
}

TEST(RecentActivity, TheMedianIsOfWhatIsShown) {
  auto at = of({actor("worker 0", "computes"), actor("worker 1", "computes"), actor("worker 2", "computes")});
  recent_activity seen;
  for (const auto* ms : {"10", "20"}) {
    for (auto& worker : at.reports.nodes[0].actors)
      worker.fields["compute_ms"] = ms;
    seen.see(at, 1);
  }
  const auto out = seen.stragglers(at);
  EXPECT_EQ(out.at("workers").at(1).at("compute_ms").as_double(), 15.263); // (0.9 * 10 + 20) / 1.9
  EXPECT_EQ(out.at("median_ms").as_double(), 15.263);
}

TEST(RecentActivity, OfManyWorkersEachNodeHasARowAndTheSlowStandOut) {
  std::vector<actors::actor_report> workers;
  for (int i = 0; i < 25; ++i) {
    workers.push_back(actor("worker " + std::to_string(i), "computes"));
    workers.back().fields["compute_ms"] = i == 7 ? "90" : i == 8 ? "11" : "10";
  }
  recent_activity seen;
  seen.see(of(workers), 1);
  const auto out = seen.stragglers(of(workers));
  ASSERT_EQ(out.at("workers").as_array().size(), 1U);
  EXPECT_EQ(out.at("workers").at(0).at("id"), "worker 7");
  EXPECT_EQ(out.at("workers").at(0).at("slow"), true);
  EXPECT_EQ(boost::json::serialize(out.at("nodes")), R"([{"id":"b","count":24,"compute_ms":1E1,"low_ms":1E1,"high_ms":1.1E1}])");
  EXPECT_EQ(out.at("left_out").to_number<int>(), 0);
  workers.pop_back();
  EXPECT_EQ(seen.stragglers(of(workers)).at("workers").as_array().size(), 24U);
}

/// So many workers, one after the other on these nodes.
picture workers(std::size_t count, const std::vector<std::string>& nodes) {
  picture out;
  for (std::size_t i = 0; i < count; ++i)
    out.boxes.push_back({.id = fmt::format("worker {}", i),
                         .role = "worker",
                         .node = nodes[i % nodes.size()],
                         .mood = "works",
                         .shares = {{"works", 1}}});
  return out;
}
std::vector<std::string> ids_of(const picture& all) {
  std::vector<std::string> out;
  for (const auto& each : all.boxes)
    out.push_back(each.id);
  return out;
}

TEST(Folding, FewActorsAreToldApart) {
  auto all = workers(24, {"b", "c"});
  all.arrows = {{"worker 0", "worker 1", 0.5}, {"worker 2", "worker 1", 0.7}};
  const auto out = folded(all);
  EXPECT_EQ(ids_of(out), ids_of(all));
  EXPECT_EQ(out.arrows.at(0).share, 0.7); // the widest first
}

TEST(Folding, ManyOfARoleAreOneForEachNode) {
  auto all = workers(25, {"b", "c"});
  all.boxes.insert(all.boxes.begin(), {.id = "shard 0", .role = "shard", .node = "b", .mood = "waits"});
  all.boxes[1].shares = {{"works", 0.35}, {"waits", 0.65}}; // worker 0 on b, which has 13
  all.boxes[1].mood = "waits";
  all.boxes[3].mailbox = 4;
  all.arrows = {{"worker 0", "shard 0", 0.65},
                {"worker 2", "shard 0", 0.65},
                {"shard 0", "worker 1", 0.5},
                {"shard 0", "worker 3", 0.75},
                {"worker 0", "worker 2", 1}};
  const auto out = folded(all);
  EXPECT_THAT(ids_of(out), ElementsAre("shard 0", "workers on b", "workers on c"));
  const auto& on_b = out.boxes.at(1);
  EXPECT_EQ(on_b.moods, (std::map<std::string, std::size_t>{{"waits", 1}, {"works", 12}}));
  EXPECT_EQ(on_b.mood, "works");
  EXPECT_EQ(on_b.mailbox, 4U);
  EXPECT_DOUBLE_EQ(on_b.shares.at("works"), 0.95);
  ASSERT_EQ(out.arrows.size(), 2U) << "none from a group to itself";
  EXPECT_EQ(out.arrows[0].to, "workers on c");
  EXPECT_EQ(out.arrows[0].share, 1) << "0.5 + 0.75 is as good as always";
  EXPECT_EQ(out.arrows[1].from, "workers on b");
  EXPECT_DOUBLE_EQ(out.arrows[1].share, 0.1); // 2 * 0.65 of 13
}

TEST(Folding, TheFirstInTroubleStandOutButWhereAllOfANodeAre) {
  auto all = workers(60, {"b", "c"});
  for (std::size_t i = 0; i < 60; ++i)
    if (i % 2 == 1) // all on c
      all.boxes[i].mood = "stuck";
    else if (i >= 40) // ten on b
      all.boxes[i].mood = "slow";
  const auto out = folded(all);
  EXPECT_THAT(ids_of(out), ElementsAre("worker 40", "worker 42", "worker 44", "worker 46", "worker 48", "worker 50",
                                       "workers on b", "workers on c"));
  EXPECT_EQ(out.boxes[6].moods, (std::map<std::string, std::size_t>{{"slow", 4}, {"works", 20}}));
  EXPECT_EQ(out.boxes[7].mood, "stuck");
}

TEST(Folding, OfManyNodesThoseInTroubleComeFirstAndTheRestIsOne) {
  std::vector<std::string> nodes;
  for (int i = 0; i < 40; ++i)
    nodes.push_back(fmt::format("n{}", i));
  auto all = workers(5000, nodes);
  for (std::size_t i = 0; i < 5000; ++i)
    if (i % 40 == 39)
      all.boxes[i].mood = "stuck";
  const auto ids = ids_of(folded(all));
  ASSERT_EQ(ids.size(), 25U);
  EXPECT_EQ(ids.front(), "workers on n39");
  EXPECT_EQ(ids[1], "workers on n0");
  EXPECT_EQ(ids.back(), "workers on other nodes");
}

TEST(Folding, OneAloneOnItsNodeIsItself) {
  std::vector<std::string> nodes(24, "b");
  nodes.emplace_back("c");
  EXPECT_THAT(ids_of(folded(workers(25, nodes))), ElementsAre("workers on b", "worker 24"));
}

class Feed : public testing::Test {
protected:
  const boost::json::object& said() {
    last_ = boost::json::parse(lines_.back()).as_object();
    return last_;
  }
  std::vector<std::string> lines_;
  boost::json::object last_;
  static actors::job job() {
    actors::job job;
    job.name = "x";
    return job;
  }
  static actors::progress at(double seconds, double train_loss) {
    actors::progress now;
    now.seconds = seconds;
    now.train_loss = train_loss;
    return now;
  }
  feed feed_{job(), nullptr, [this](std::string line) { lines_.push_back(std::move(line)); }};
};

TEST_F(Feed, SaysFromTheBeginningWhatItKnows) {
  EXPECT_EQ(said().at("state"), "starts");
  EXPECT_EQ(said().at("job").at("name"), "x");
  EXPECT_TRUE(said().at("progress").is_null());
}

TEST_F(Feed, ALossThatIsNoNumberIsNoJsonEither) {
  feed_.on_progress(at(1, std::numeric_limits<double>::infinity()));
  feed_.on_evaluation({.test_loss = std::nan("")});
  feed_.on_silence("nobody is there");
  EXPECT_TRUE(said().at("progress").at("train_loss").is_null());
  EXPECT_TRUE(said().at("curves").at("evaluations").at(0).at("test_loss").is_null());
  EXPECT_TRUE(said().at("curves").at("losses").as_array().empty());
  EXPECT_EQ(said().at("cluster").at("silent"), "nobody is there");
}

TEST_F(Feed, ActorsOfANodeThatIsSilentAreStuck) {
  feed_.on_snapshot(of({actor("worker 0", "computes")}));
  auto silent = of({});
  silent.reports.nodes[0] = {.node = "b", .job = 1, .silent = "no answer in time"};
  feed_.on_snapshot(silent);
  const auto& actors = said().at("cluster").at("actors").as_array();
  ASSERT_EQ(actors.size(), 1U);
  EXPECT_EQ(actors[0].at("mood"), "stuck");
  EXPECT_EQ(actors[0].at("state"), "no answer in time");
}

TEST_F(Feed, OtherJobsAreNotShown) {
  feed_.follow(2);
  feed_.on_snapshot(of({actor("worker 0", "computes")})); // of job 1
  EXPECT_TRUE(said().at("cluster").at("actors").as_array().empty());
}

TEST_F(Feed, WhatComesAfterTheEndChangesNothing) {
  feed_.on_snapshot(of({actor("worker 0", "computes")}));
  actors::job_result result;
  result.failed = result.interrupted = true; // as coordinators have it
  result.steps = 5;
  feed_.on_finished(std::move(result));
  EXPECT_EQ(said().at("state"), "interrupted");
  EXPECT_EQ(said().at("result").at("steps").to_number<int>(), 5);
  EXPECT_EQ(said().at("cluster").at("actors").as_array().size(), 1U);
  const auto count = lines_.size();
  feed_.on_snapshot(of({}));
  feed_.on_silence("gone");
  EXPECT_EQ(lines_.size(), count);
}

TEST_F(Feed, KeepsNoMoreThanAPageCanShow) {
  for (int i = 0; i < 5000; ++i) {
    feed_.on_evaluation({.seconds = static_cast<double>(i)});
    feed_.on_event("again");
    feed_.on_progress(at(i, 1));
  }
  feed_.on_silence("");
  const auto& evaluations = said().at("curves").at("evaluations").as_array();
  EXPECT_LE(evaluations.size(), 1000U);
  EXPECT_EQ(evaluations.front().at("seconds").to_number<double>(), 0);
  EXPECT_EQ(evaluations.back().at("seconds").to_number<double>(), 4999);
  EXPECT_EQ(said().at("events").as_array().size(), 200U);
  EXPECT_LE(said().at("curves").at("losses").as_array().size(), 400U);
}

} // namespace
} // namespace troupe::apps::web
