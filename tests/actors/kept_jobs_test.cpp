// SPDX-License-Identifier: BSD-3-Clause
// What a coordinator that begins again makes of its journal.
#include "actors/cluster/decisions/job_decisions.hpp"

#include <filesystem>
#include <stdexcept>
#include <string>

#include <caf/binary_serializer.hpp>
#include <caf/byte_buffer.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "actors/messages/dialect.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
namespace ledger = protocols::ledger;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

template <class... Parts>
ledger::bytes written(const Parts&... parts) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  EXPECT_TRUE((sink.apply(parts) && ...));
  const auto whole = std::as_bytes(std::span(out));
  return {whole.begin(), whole.end()};
}
submit_job named(const std::string& name) {
  submit_job out;
  out.job.name = name;
  return out;
}
ledger::bytes submission_of(const std::string& name, const std::string& by = message_dialect()) {
  return written(by, named(name));
}

class KeptJobs : public testing::Test {
protected:
  KeptJobs() { fs::remove_all(folder); }
  ~KeptJobs() override { fs::remove_all(folder); }

  void decide(const std::vector<ledger::entry>& all) const {
    durable_ledger made(folder);
    for (const auto& each : all)
      ASSERT_EQ(made.decide(each), "");
  }
  std::string refusal() const {
    try {
      static_cast<void>(open_kept_jobs(folder, 30s));
    } catch (const std::runtime_error& wrong) {
      return wrong.what();
    }
    return "";
  }

  const std::string folder = testing::TempDir() + fmt::format("kept-jobs-of-{}", ::getpid());
};

TEST_F(KeptJobs, AreAsTheyWere) {
  job_result result;
  result.reason = "made 60 steps";
  result.steps = 60;
  decide({ledger::submitted{1, true, submission_of("ended")}, ledger::submitted{2, false, submission_of("ran")},
          ledger::submitted{4, true, submission_of("waited")}, ledger::started{1, 1, {"a", "b"}},
          ledger::ended{1, ledger::ending::done, result.reason, written(message_dialect(), result)},
          ledger::started{2, 1, {"a", "c"}}, ledger::started{2, 2, {"a", "d"}}});
  const auto kept = open_kept_jobs(folder, 30s);
  ASSERT_EQ(kept->jobs.size(), 3U);
  EXPECT_EQ(kept->last_number, 4U);
  EXPECT_THAT(kept->nodes, ElementsAre("a", "d"));
  const auto &ended = kept->jobs[0], &ran = kept->jobs[1], &waited = kept->jobs[2];
  EXPECT_TRUE(ended.ended && ended.ending && !ended.waits() && !ended.orphan);
  EXPECT_EQ(ended.result.steps, 60U);
  EXPECT_FALSE(ended.result.weights_step.has_value());
  EXPECT_EQ(ran.submission.job.name, "ran");
  EXPECT_TRUE(ran.waits() && ran.orphan);
  EXPECT_EQ(ran.life, 2U);
  EXPECT_EQ(ran.what_now,
            "ran when the coordinator was lost, and begins again at step 0: it keeps no checkpoints ([checkpoint] dir)");
  EXPECT_EQ(waited.number, 4U);
  EXPECT_TRUE(waited.waits() && !waited.orphan);
  EXPECT_EQ(waited.life, 0U);
}

TEST_F(KeptJobs, OneThatHasAPlanIsTakenOverIfItsNodesComeBack) {
  decide({ledger::submitted{.number = 1, .submission = submission_of("runs"), .roles = 4}, ledger::started{1, 1, {"b", "c"}, 77},
          ledger::planned{1, 1, {.epoch = {1}, .workers = {{{0}, {}}}}}});
  const auto kept = open_kept_jobs(folder, 30s);
  ASSERT_EQ(kept->jobs.size(), 1U);
  const auto& runs = kept->jobs[0];
  EXPECT_EQ(runs.what_now, "") << "nobody knows yet";
  ASSERT_TRUE(runs.returning);
  EXPECT_THAT(runs.returning->awaited(), ElementsAre("b", "c"));
  EXPECT_EQ(runs.returning->decided().key, 77U);
  EXPECT_EQ(runs.returning->decided().plan.workers.size(), 1U);
  EXPECT_GT(kept->term, 0U);
}

TEST_F(KeptJobs, OfAnotherVersionAreNotTakenOver) {
  decide({ledger::submitted{1, true, submission_of("old", "0.0.1")}});
  EXPECT_THAT(refusal(), HasSubstr(fmt::format("job 1 was submitted to Troupe 0.0.1, and this is {}; have that one end",
                                               message_dialect())));
}

TEST_F(KeptJobs, OfAnotherVersionThatHaveEndedAreNotMissed) {
  decide({ledger::submitted{1, true, submission_of("old", "0.0.1")}, ledger::ended{1, ledger::ending::done, {}, {}}});
  EXPECT_TRUE(open_kept_jobs(folder, 30s)->jobs.empty());
}

TEST_F(KeptJobs, ThatCannotBeReadAreNamed) {
  auto bytes = submission_of("cut");
  bytes.pop_back();
  decide({ledger::submitted{1, true, bytes}});
  EXPECT_THAT(refusal(), HasSubstr("job 1 cannot be read; remove the folder"));
}

TEST_F(KeptJobs, AnEndWithoutAResultHasItsReason) {
  decide(
      {ledger::submitted{1, true, submission_of("short")}, ledger::ended{1, ledger::ending::failed, "no workers are left", {}}});
  const auto kept = open_kept_jobs(folder, 30s);
  EXPECT_TRUE(kept->jobs.at(0).result.failed);
  EXPECT_EQ(kept->jobs.at(0).result.reason, "no workers are left");
}

} // namespace
} // namespace troupe::actors
