// SPDX-License-Identifier: BSD-3-Clause
// What a board says in Prometheus' text format: any name, any number, no more jobs than it keeps.
#include "actors/monitoring/metrics.hpp"

#include <limits>

#include <caf/telemetry/metric_registry.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using testing::HasSubstr;
using testing::Not;

class Metrics : public testing::Test {
protected:
  std::string text() const { return board_->text(of_caf_); }

  std::shared_ptr<metrics_registry> board_ = std::make_shared<metrics_registry>();
  caf::telemetry::metric_registry of_caf_;
};

TEST_F(Metrics, AJobHasSeriesOfWhatItHasSaid) {
  const job_metrics job{board_, 3, "digits"};
  EXPECT_THAT(text(), Not(HasSubstr("troupe_job")));
  job.on_progress({.step = 7, .samples = 448, .epoch = 0.25, .train_loss = 0.000001, .seconds = 1.5, .slowest_worker = {}});
  EXPECT_THAT(text(), HasSubstr("# HELP troupe_job_steps_total Versions of the parameters.\n"
                                "# TYPE troupe_job_steps_total counter\n"
                                "troupe_job_steps_total{number=\"3\",name=\"digits\"} 7\n"));
  EXPECT_THAT(text(), HasSubstr("\ntroupe_job_training_seconds_total{number=\"3\",name=\"digits\"} 1.5\n"));
  EXPECT_THAT(text(), HasSubstr("\ntroupe_job_round_loss{number=\"3\",name=\"digits\"} 1e-06\n"));
  EXPECT_THAT(text(), Not(HasSubstr("troupe_job_test_loss"))); // no number is no zero
  job.on_evaluation({.test_loss = 0.5, .test_accuracy = 0.75});
  EXPECT_THAT(text(), HasSubstr("\ntroupe_job_test_accuracy_ratio{number=\"3\",name=\"digits\"} 0.75\n"));
}

TEST_F(Metrics, ALossThatIsNoNumberIsWrittenAsPrometheusReadsIt) {
  const job_metrics job{board_, 1, "j"};
  job.on_progress({.train_loss = std::numeric_limits<double>::quiet_NaN(), .slowest_worker = {}});
  job.on_evaluation(
      {.train_loss = std::numeric_limits<double>::infinity(), .test_loss = -std::numeric_limits<double>::infinity()});
  EXPECT_THAT(text(), HasSubstr("troupe_job_round_loss{number=\"1\",name=\"j\"} NaN\n"));
  EXPECT_THAT(text(), HasSubstr("troupe_job_train_loss{number=\"1\",name=\"j\"} +Inf\n"));
  EXPECT_THAT(text(), HasSubstr("troupe_job_test_loss{number=\"1\",name=\"j\"} -Inf\n"));
}

TEST_F(Metrics, TheJobsThatSpokeLastAreKept) {
  const job_metrics first{board_, 1, "j"};
  first.on_progress({});
  for (std::uint64_t number = 2; number <= metrics_registry::most_jobs; ++number)
    job_metrics{board_, number, "j"}.on_progress({});
  first.on_progress({.step = 9, .slowest_worker = {}}); // so the second is the one that has been silent for longest
  job_metrics{board_, metrics_registry::most_jobs + 1, "j"}.on_evaluation({});
  EXPECT_THAT(text(), HasSubstr("troupe_job_steps_total{number=\"1\",name=\"j\"} 9\n"));
  EXPECT_THAT(text(), Not(HasSubstr("{number=\"2\",")));
  EXPECT_THAT(text(), HasSubstr("{number=\"3\","));
  EXPECT_THAT(text(), HasSubstr(fmt::format("troupe_job_test_loss{{number=\"{}\",", metrics_registry::most_jobs + 1)));
}

TEST_F(Metrics, WithoutABoardNothingIsKept) {
  const job_metrics nowhere{nullptr, 1, "j"};
  nowhere.on_progress({});
  nowhere.on_evaluation({});
  EXPECT_THAT(text(), Not(HasSubstr("troupe_job")));
}

TEST_F(Metrics, LanesAreSummedOverJobsAndWhatBeganAnewCountsOn) {
  lane_metrics one{board_};
  one.on_lanes({{"b", {.peer = {}, .bytes_sent = 10, .bytes_received = 100, .queued_bytes = 7}}});
  {
    lane_metrics other{board_};
    other.on_lanes(
        {{"b", {.peer = {}, .bytes_sent = 1, .bytes_received = 2, .queued_bytes = 3}}, {"c", {.peer = {}, .bytes_sent = 5}}});
    EXPECT_THAT(text(), HasSubstr("troupe_lane_sent_bytes_total{peer=\"b\"} 11\n"));
    EXPECT_THAT(text(), HasSubstr("troupe_lane_sent_bytes_total{peer=\"c\"} 5\n"));
    EXPECT_THAT(text(), HasSubstr("troupe_lane_received_bytes_total{peer=\"b\"} 102\n"));
    EXPECT_THAT(text(), HasSubstr("troupe_lane_queued_bytes{peer=\"b\"} 10\n"));
  }
  EXPECT_THAT(text(), HasSubstr("troupe_lane_queued_bytes{peer=\"b\"} 7\n")); // that job has ended
  one.on_lanes(
      {{"b", {.peer = {}, .bytes_sent = 12, .bytes_received = 3}}}); // another lane to the same peer: it has received less
  EXPECT_THAT(text(), HasSubstr("troupe_lane_sent_bytes_total{peer=\"b\"} 23\n"));
  EXPECT_THAT(text(), HasSubstr("troupe_lane_received_bytes_total{peer=\"b\"} 105\n"));
  one.on_lanes({});
  one.on_lanes({{"b", {.peer = {}, .bytes_sent = 20, .bytes_received = 20}}});
  EXPECT_THAT(text(), HasSubstr("troupe_lane_sent_bytes_total{peer=\"b\"} 43\n"));
}

TEST_F(Metrics, OfCafAllIsServedButWhatItMisnames) {
  of_caf_.counter_family<std::int64_t>("caf.system", "processed-messages", {"name"}, "Number.", "1", true)
      ->get_or_add({{"name", "a"}})
      ->inc(5);
  of_caf_.gauge_singleton<std::int64_t>("caf.system", "queued-messages", "Number.", "1", true)->inc(6);
  EXPECT_THAT(
      text(),
      HasSubstr("# TYPE caf_system_processed_messages_total counter\ncaf_system_processed_messages_total{name=\"a\"} 5\n"));
  EXPECT_THAT(text(), Not(HasSubstr("queued_messages")));
}

TEST(LabelText, IsEscapedAsPrometheusReadsIt) {
  EXPECT_EQ(label_text("a \"b\" \\ c\nd"), R"(a \"b\" \\ c\nd)");
  EXPECT_EQ(label_text("\xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80"), "\xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(LabelText, IsUtf8WhateverItWas) {
  const std::string none = "\xEF\xBF\xBD";
  for (const char* wrong :
       {"\x80", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5", "\xFF", "\xC3", "\xE2\x82"}) {
    std::string expected;
    for (std::size_t i = 0; i < std::string_view{wrong}.size(); ++i)
      expected += none;
    EXPECT_EQ(label_text(wrong), expected);
  }
}

TEST(LabelText, IsCutBetweenCharacters) {
  EXPECT_EQ(label_text(std::string(1000, 'x')), std::string(128, 'x'));
  std::string long_name = "x";
  for (int i = 0; i < 1000; ++i)
    long_name += "\xC3\xBC";
  EXPECT_EQ(label_text(long_name).size(), 129);
  EXPECT_TRUE(label_text(long_name).ends_with("\xC3\xBC"));
}

} // namespace
} // namespace troupe::actors
