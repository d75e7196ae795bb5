// SPDX-License-Identifier: BSD-3-Clause
// What the console says of change and of the past, and how it draws.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/console/commands.hpp"
#include "apps/console/drawing.hpp"
#include "apps/console/past.hpp"
#include "apps/console/rates.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/views.hpp"

namespace troupe::apps::console {
namespace {

using testing::HasSubstr;
using testing::Not;

boost::json::object parsed(const std::string& text) {
  return boost::json::parse(text).as_object();
}

snapshot at(double seconds, std::uint64_t steps, std::uint64_t sent, std::uint64_t mailbox) {
  snapshot out;
  out.at_s = seconds;
  out.cluster.jobs.push_back(
      {.number = 1, .name = "small", .protocol = "sync", .state = "runs", .steps = steps, .samples = 64 * steps});
  out.reports.nodes.push_back({.node = "b", .job = 1});
  out.reports.nodes[0].actors.push_back({.id = "worker 0",
                                         .role = "worker",
                                         .node = "b",
                                         .job = 1,
                                         .state = "computes",
                                         .since_s = 0.25,
                                         .mailbox = mailbox,
                                         .messages = 10 * steps,
                                         .busy = 0.5});
  out.reports.nodes[0].links.push_back({.peer = "a", .bytes_sent = sent, .bytes_received = 10, .queued_bytes = 5});
  return out;
}

TEST(Rates, AreDifferencesBySeconds) {
  const auto out = rates(at(10, 100, 1'000'000, 0), at(12, 150, 4'000'000, 0));
  EXPECT_EQ(out.text, "job  name   steps/s  samples/s\n"
                      "1    small  25.0     1600\n"
                      "\n"
                      "actor     node  messages/s\n"
                      "worker 0  b     250\n"
                      "\n"
                      "from  to  sent/s  received/s  queued\n"
                      "b     a   1.5 MB  0 B         5 B\n");
  EXPECT_EQ(
      out.json,
      parsed(
          R"({"seconds": 2.0, "actors": [{"id": "worker 0", "node": "b", "messages_per_s": 250.0}], "jobs": [{"number": 1, "name": "small", "steps_per_s": 25.0, "samples_per_s": 1600.0}],
    "lanes": [{"from": "b", "to": "a", "sent_per_s": 1500000.0, "received_per_s": 0.0, "bytes_queued": 5}]})"));
}

TEST(Rates, OfWhatIsNewOrBeganAnewAreUnknown) {
  auto before = at(10, 100, 1'000, 0);
  before.cluster.jobs.clear();
  const auto out = rates(before, at(11, 150, 500, 0));
  EXPECT_TRUE(out.json.at("jobs").at(0).at("steps_per_s").is_null());
  EXPECT_TRUE(out.json.at("lanes").at(0).at("sent_per_s").is_null());
  EXPECT_THAT(out.text, HasSubstr("small  -        -\n"));
}

TEST(Mailbox, SaysWhenItWillBeEmpty) {
  const auto out = mailbox(at(10, 0, 0, 30), at(12, 8, 0, 20), "worker 0");
  EXPECT_EQ(out.text, "worker 0 on node b: computes for 0.2 s\n"
                      "  20 messages in its mailbox; 2.0 s before, it had 30\n"
                      "  it handles 40.0 messages a second, busy for 50 % of the time\n"
                      "  it becomes less, by 5.0 a second: empty in 4.0 s\n");
  EXPECT_EQ(out.json, parsed(R"({"id": "worker 0", "node": "b", "seconds": 2.0, "before": 30, "mailbox": 20, "change_per_s": -5.0,
    "handled_per_s": 40.0, "empty_in_s": 4.0, "state": "computes", "since_s": 0.25, "busy": 0.5, "handler_s": 0.0})"));
}

TEST(Mailbox, ThatGrowsOrStaysIsNeverEmptyAndOneThatIsEmptyIs) {
  EXPECT_TRUE(mailbox(at(10, 0, 0, 10), at(12, 0, 0, 20), "worker 0").json.at("empty_in_s").is_null());
  EXPECT_THAT(mailbox(at(10, 0, 0, 10), at(12, 0, 0, 20), "worker 0").text, HasSubstr("becomes more, by 5.0 a second"));
  EXPECT_TRUE(mailbox(at(10, 0, 0, 10), at(12, 0, 0, 10), "worker 0").json.at("empty_in_s").is_null());
  EXPECT_EQ(mailbox(at(10, 0, 0, 10), at(12, 0, 0, 0), "worker 0").json.at("empty_in_s").as_double(), 0);
  EXPECT_TRUE(mailbox(at(10, 0, 0, 10), at(12, 0, 0, 0), "worker 7").wrong);
}

actors::actor_report busy(const std::string& id, double share, double messages_per_s, std::uint64_t mailbox, double since_s) {
  return {.id = id,
          .role = id.substr(0, id.find(' ')),
          .parent = "node b",
          .watched_by = "node b",
          .node = "b",
          .job = 1,
          .state = "computes",
          .since_s = since_s,
          .mailbox = mailbox,
          .messages_per_s = messages_per_s,
          .busy = share};
}

snapshot crowd() {
  auto out = at(12, 150, 0, 0);
  out.cluster.name = "lab";
  out.reports.nodes[0].actors = {busy("worker 0", 0.25, 4, 7, 0.5), busy("worker 1", 0.75, 2, 1, 2),
                                 busy("shard 0", 0.5, 8, 0, 1)};
  return out;
}

using names = std::vector<std::string>;

names order_of(const answer& out) {
  names ids;
  for (const auto& each : out.json.at("actors").as_array())
    ids.emplace_back(each.at("id").as_string());
  return ids;
}

TEST(Top, HasTheLargestFirstInEveryOrder) {
  const auto now = crowd();
  EXPECT_EQ(order_of(top(now, nullptr, "")), (names{"worker 1", "shard 0", "worker 0"}));
  EXPECT_EQ(order_of(top(now, nullptr, "busy")), order_of(top(now, nullptr, "")));
  EXPECT_EQ(order_of(top(now, nullptr, "mailbox")), (names{"worker 0", "worker 1", "shard 0"}));
  EXPECT_EQ(order_of(top(now, nullptr, "messages")), (names{"shard 0", "worker 0", "worker 1"}));
  EXPECT_EQ(order_of(top(now, nullptr, "since")), (names{"worker 1", "shard 0", "worker 0"}));
  EXPECT_THAT(top(now, nullptr, "size").text, HasSubstr("there are busy, mailbox, messages, since"));
}

TEST(Top, ShowsHowFastTheJobsAreWhereThereWasALookBefore) {
  const auto now = crowd(), before = at(10, 100, 0, 0);
  EXPECT_EQ(top(now, &before, "").text, "job 1 (small), sync, runs: step 150, epoch 0.00; 25 steps/s, 1600 samples/s\n"
                                        "\n"
                                        "actor     node  state         for  mailbox  messages/s  busy  waits for\n"
                                        "worker 1  b     computes    2.0 s        1         2.0   75%\n"
                                        "shard 0   b     computes    1.0 s        0         8.0   50%\n"
                                        "worker 0  b     computes    0.5 s        7         4.0   25%\n");
  EXPECT_TRUE(top(now, nullptr, "").json.at("jobs").at(0).at("steps_per_s").is_null());
  EXPECT_EQ(top(now, &before, "").json.at("jobs").at(0).at("steps_per_s").as_double(), 25);
}

TEST(Tree, HasEveryActorBelowWhoeverSpawnedIt) {
  auto at = crowd();
  auto& all = at.reports.nodes[0].actors;
  auto compute = busy("compute 0", 0, 0, 0, 0);
  compute.parent = compute.watched_by = "worker 0";
  auto node = busy("node b", 0, 0, 0, 0);
  node.parent = "cluster";
  node.watched_by = "coordinator 0";
  all.insert(all.end(), {compute, node});
  const auto out = tree(at, true);
  EXPECT_EQ(out.text, "actor               node  state     for    watched by\n"
                      "cluster lab\n"
                      "└─ node b           b     computes  0.0 s  coordinator 0\n"
                      "   ├─ shard 0       b     computes  1.0 s  node b\n"
                      "   ├─ worker 0      b     computes  0.5 s  node b\n"
                      "   │  └─ compute 0  b     computes  0.0 s  worker 0\n"
                      "   └─ worker 1      b     computes  2.0 s  node b\n");
  const auto& children = out.json.at("tree").at(0).at("children").as_array();
  ASSERT_EQ(children.size(), 3U);
  EXPECT_EQ(children[1].at("children").at(0).at("id").as_string(), "compute 0");
  EXPECT_THAT(tree(at, false).text, HasSubstr("   |  `- compute 0"));
}

TEST(Tree, ShowsThoseWhoseSpawnerIsGoneOrThemselvesToo) {
  auto at = crowd();
  at.reports.nodes[0].actors[0].parent = "worker 1";
  at.reports.nodes[0].actors[1].parent = "worker 0";
  const auto out = tree(at, true).text;
  for (const auto* name : {"shard 0", "worker 0", "worker 1"})
    EXPECT_THAT(out, HasSubstr(name));
}

actors::history past() {
  actors::history out;
  out.jobs = {{.number = 3, .name = "small", .protocol = "sync", .state = "has ended"},
              {.number = 4, .name = "other", .protocol = "sync", .state = "runs"},
              {.number = 5, .name = "other", .protocol = "sync", .state = "waits: job 4 is before it"}};
  return out;
}

TEST(FindJob, TakesNumbersNamesOrTheNewestThatRuns) {
  const auto jobs = past().jobs;
  EXPECT_EQ(find_job(jobs, ""), 4U);
  EXPECT_EQ(find_job({jobs[0]}, ""), 3U);
  EXPECT_EQ(find_job({}, ""), 0U);
  EXPECT_EQ(find_job(jobs, "3"), 3U);
  EXPECT_EQ(find_job(jobs, "other"), 5U);
  EXPECT_EQ(find_job(jobs, "othe"), 0U);
}

class Events : public testing::Test {
protected:
  void SetUp() override {
    if (const char* zone = std::getenv("TZ"))
      zone_ = zone;
    setenv("TZ", "UTC", 1);
    tzset();
  }
  void TearDown() override {
    zone_.empty() ? unsetenv("TZ") : setenv("TZ", zone_.c_str(), 1);
    tzset();
  }
  std::string zone_;
};

TEST_F(Events, HaveATimeOfTheDayAndOneForMachines) {
  auto told = past();
  told.events = {{.number = 8, .at_ms = 1'600'000'000'007, .text = "node b has joined"},
                 {.number = 9, .at_ms = 1'600'000'001'250, .job = 3, .text = "has ended"}};
  EXPECT_EQ(events(told, {}).text, "time                 of       what\n"
                                   "2020-09-13 12:26:40  cluster  node b has joined\n"
                                   "2020-09-13 12:26:41  job 3    has ended\n");
  EXPECT_EQ(events(told, {}).json, parsed(R"({"events": [
    {"number": 8, "at": "2020-09-13T12:26:40.007Z", "job": 0, "text": "node b has joined"},
    {"number": 9, "at": "2020-09-13T12:26:41.250Z", "job": 3, "text": "has ended"}]})"));
  told.events[0].at_ms = 1000 * std::time(nullptr);
  EXPECT_THAT(events(told, {}).text, testing::MatchesRegex("time.*what\n[0-9]*:[0-9]*:[0-9]*  *cluster.*"));
}

TEST_F(Events, OnATerminalAreTheLastThatFit) {
  auto told = past();
  for (std::uint64_t i = 0; i < 50; ++i)
    told.events.push_back({.number = i, .text = std::to_string(100 + i)});
  const auto out = events(told, {.height = 13, .terminal = true});
  EXPECT_THAT(out.text, HasSubstr("140"));
  EXPECT_THAT(out.text, HasSubstr("149"));
  EXPECT_THAT(out.text, Not(HasSubstr("139")));
  EXPECT_EQ(out.json.at("events").as_array().size(), 50U);
}

TEST(Loss, SaysHowFarTheJobIsAndGivesEveryPoint) {
  auto told = past();
  told.steps = {{2, 128, 0.5, 2.5, 1.5, {}, 0}, {4, 256, 1, std::numeric_limits<double>::quiet_NaN(), 3, {}, 0}};
  told.evaluations = {{.step = 4, .samples = 256, .seconds = 3, .train_loss = 2, .test_loss = 2.25, .test_accuracy = 0.25}};
  const auto out = loss(told, 4, {.width = 40, .height = 20});
  EXPECT_THAT(out.text, HasSubstr("job 4 (other), sync, runs; step 4, epoch 1.00, loss nan, accuracy 0.2500\n"));
  EXPECT_EQ(out.json, parsed(R"({"job": 4, "name": "other", "protocol": "sync", "state": "runs",
    "rounds": [{"step": 2, "samples": 128, "seconds": 1.5, "train_loss": 2.5}, {"step": 4, "samples": 256, "seconds": 3.0, "train_loss": null}],
    "evaluations": [{"step": 4, "samples": 256, "seconds": 3.0, "train_loss": 2.0, "test_loss": 2.25, "test_accuracy": 0.25}]})"));
}

std::vector<drawing> falling() {
  drawing loss{.title = "loss", .line = {}, .marks = {{0, 10}, {100, 0}}}, accuracy{.title = "accuracy", .line = {}, .marks = {}};
  for (int i = 0; i <= 100; ++i)
    loss.line.push_back({static_cast<double>(i), 10 - 0.1 * i});
  return {loss, accuracy};
}

TEST(Drawing, IsAsLargeAsItShallBe) {
  EXPECT_EQ(draw(falling(), 30, 8, false), "loss\n"
                                           "     10 +o..\n"
                                           "        |   .....\n"
                                           "      5 +        .....\n"
                                           "        |             .....\n"
                                           "      0 +                  ..o\n"
                                           "        ++---------+---------+\n"
                                           "         0        50         s\n");
  EXPECT_EQ(std::ranges::count(draw(falling(), 80, 24, true), '\n'), 24);
}

TEST(Drawing, HasEightDotsALetterWhereTheTerminalHas) {
  EXPECT_EQ(draw({{.title = "up", .line = {{0, 0}, {4, 1}}, .marks = {}}}, 24, 6, true), "up\n"
                                                                                         "      1 ┤          ⣀⡠⠤⠒⠉\n"
                                                                                         "    0.5 ┤     ⣀⠤⠔⠒⠉\n"
                                                                                         "      0 ┤⣀⠤⠒⠊⠉\n"
                                                                                         "        └┬──────────────\n"
                                                                                         "         0             s\n");
}

TEST(Drawing, IsLogarithmicBeyondADecadeAndCountsMinutes) {
  EXPECT_EQ(draw({{.title = "loss", .line = {}, .marks = {{0, 100}, {600, 1}}}}, 24, 6, false), "loss (logarithmic)\n"
                                                                                                "    100 +o\n"
                                                                                                "     10 +\n"
                                                                                                "      1 +              o\n"
                                                                                                "        ++-------------+\n"
                                                                                                "         0           min\n");
}

TEST(Drawing, LeavesOutWhatIsNotFiniteAndPanelsWithoutPoints) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      draw({{.title = "loss", .line = {{0, nan}}, .marks = {}}, {.title = "accuracy", .line = {}, .marks = {}}}, 80, 24, true),
      "there is nothing to draw yet\n");
  EXPECT_THAT(
      draw({{.title = "loss", .line = {{0, 1}, {1, nan}, {2, 2}}, .marks = {}}, {.title = "accuracy", .line = {}, .marks = {}}},
           80, 24, true),
      Not(HasSubstr("accuracy")));
}

TEST(Frame, OverwritesLineByLineAndErasesOnlyBehindWhatItWrote) {
  EXPECT_EQ(frame("top", "ab\nabcdef\n", {.width = 5, .height = 4}), "\x1b[H\x1b[7mtop  \x1b[0m\r\n"
                                                                     "ab\x1b[K\r\n"
                                                                     "abcde\r\n\x1b[J");
  EXPECT_THAT(frame("top", "ab\n", {.width = 5, .height = 4}), Not(HasSubstr("\x1b[2J")));
}

TEST(Frame, CountsWhatDoesNotFit) {
  EXPECT_EQ(frame("t", "1\n2\n3\n4\n5\n", {.width = 14, .height = 4}), "\x1b[H\x1b[7mt             \x1b[0m\r\n"
                                                                       "1\x1b[K\r\n"
                                                                       "2\x1b[K\r\n"
                                                                       "(3 more lines)");
}

TEST(Frame, CutsLettersNotBytesAndMovesNoCursorForAStranger) {
  EXPECT_EQ(frame("", "┤●●●\na\x1b[2J\n", {.width = 3, .height = 3}), "\x1b[H\x1b[7m   \x1b[0m\r\n┤●●\r\na?[");
}

} // namespace
} // namespace troupe::apps::console
