// SPDX-License-Identifier: BSD-3-Clause
// Traces: what is recorded of roles, and the file that becomes of it.
#include "actors/monitoring/trace_file.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <boost/json.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "actors/messages/cluster.hpp"

namespace troupe::actors {
namespace {

namespace json = boost::json;
using protocols::version;
using protocols::worker_id;
using testing::ElementsAre;
using testing::HasSubstr;

trace_event span(span_kind kind, std::uint32_t role, std::int64_t begin_ns, std::int64_t end_ns) {
  return {kind, role, begin_ns, end_ns, {}};
}

std::vector<std::string> kinds_of(const std::vector<trace_event>& events) {
  std::vector<std::string> names;
  for (const auto& event : events)
    names.emplace_back(name_of(event.kind));
  return names;
}

TEST(Tracer, ASpanBeginsWhereTheLastOfItsTrackEnded) {
  tracer recorded;
  recorded.add(span(span_kind::apply, 0, 100, 200));
  recorded.add(span(span_kind::apply, 0, 150, 300));   // waited in the device's queue
  recorded.add(span(span_kind::apply, 1, 150, 300));   // another track
  recorded.add(span(span_kind::compute, 0, 150, 300)); // and another
  recorded.add(span(span_kind::wait, 0, 250, 260));    // the track of the one before, and over before it
  EXPECT_THAT(recorded.take_all(), ElementsAre(span(span_kind::apply, 0, 100, 200), span(span_kind::apply, 0, 200, 300),
                                               span(span_kind::apply, 1, 150, 300), span(span_kind::compute, 0, 150, 300),
                                               span(span_kind::wait, 0, 300, 300)));
}

TEST(Tracer, WhatDoesNotFitIsCounted) {
  tracer recorded{true, 2};
  for (std::int64_t i = 0; i < 5; ++i)
    recorded.add(span(span_kind::apply, 0, i, i + 1));
  const auto chunk = recorded.take();
  EXPECT_EQ(chunk.events.size(), 2U);
  EXPECT_EQ(chunk.events.back().begin_ns, 1) << "the first ones stay";
  EXPECT_EQ(chunk.dropped, 3U);
}

TEST(Tracer, RecordsFromItsBeginOnAndAnewFromTheNext) {
  tracer recorded{false};
  EXPECT_FALSE(recorded.records());
  recorded.add(span(span_kind::apply, 0, 1, 2));
  recorded.begin();
  recorded.add(span(span_kind::apply, 0, 3, 4));
  recorded.begin();
  recorded.add(span(span_kind::apply, 0, 1, 2)); // no track is taken until 4 any more
  EXPECT_THAT(recorded.take_all(), ElementsAre(span(span_kind::apply, 0, 1, 2)));
  EXPECT_FALSE(recorded.records());
}

TEST(WorkerTrack, WhatBeganBeforeARecordingIsNoPartOfIt) {
  auto recorded = std::make_shared<tracer>(true);
  worker_track track{recorded, protocols::worker_id{0}};
  track.pushes(protocols::clock_tick{6}); // open when the first recording ends
  recorded->take();
  track.computes(0);
  recorded->begin();
  track.pushed(1); // of a push that nobody saw begin
  track.computes(0);
  track.computed(2, 3, 0);
  const auto events = recorded->take_all();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, span_kind::compute);
}

TEST(Tracer, ChunksHandEverythingOverOnceAndNothingIsAddedMeanwhile) {
  tracer recorded;
  for (std::int64_t i = 0; i < 5; ++i) {
    auto large = span(span_kind::apply, 0, i, i + 1);
    large.pushes.resize(40'000); // two of them fit a message
    recorded.add(large);
  }
  std::vector<std::int64_t> begins;
  for (bool last = false; !last;) {
    const auto chunk = recorded.take();
    EXPECT_LE(chunk.events.size(), 2U);
    for (const auto& event : chunk.events)
      begins.push_back(event.begin_ns);
    last = chunk.last;
    recorded.add(span(span_kind::apply, 0, 9, 10));
  }
  EXPECT_THAT(begins, ElementsAre(0, 1, 2, 3, 4));
}

void travels(const trace_chunk& sent) {
  caf::byte_buffer bytes;
  caf::binary_serializer out{nullptr, bytes};
  ASSERT_TRUE(out.apply(sent));
  EXPECT_LT(bytes.size(), 1U << 20U);
  EXPECT_GT(bytes.size(), 1U << 18U) << "much of it is used";
  trace_chunk arrived;
  caf::binary_deserializer in{nullptr, bytes};
  ASSERT_TRUE(in.apply(arrived));
  EXPECT_EQ(arrived.events, sent.events);
  EXPECT_EQ(arrived.dropped, 7U);
  EXPECT_FALSE(arrived.last);
}

TEST(Tracer, AFullChunkFitsAMessageOfTheControlPlane) {
  constexpr std::int64_t most = 0x7fff'ffff'ffff'ffff;
  for (const std::size_t pushes : {0U, 2U, 2048U}) {
    std::vector<trace_event> events(20'000, {span_kind::hold,
                                             0xffff'ffff,
                                             most,
                                             most,
                                             {most, most, most, most, most, most},
                                             {},
                                             std::vector<std::int64_t>(pushes, most)});
    events.resize(static_cast<std::size_t>(fitting(events.begin(), events.end())));
    EXPECT_LT(events.size(), 20'000U);
    travels({std::move(events), 7, false});
  }
}

/// A worker that has computed one step against version 3 and pushed it.
void one_step(worker_track& track) {
  track.adopts(version{3});
  track.computes(1000);
  track.took(20, 30);
  track.computed(5, 64, 1031);
  track.pushes(protocols::clock_tick{6});
  track.pushed(4096);
}

TEST(WorkerTrack, AStepIsComputedPushedAndWaitedFor) {
  auto recorded = std::make_shared<tracer>();
  worker_track track{recorded, worker_id{2}};
  one_step(track);
  track.adopts(version{4});
  const auto events = recorded->take_all();
  ASSERT_THAT(kinds_of(events), ElementsAre("compute", "push", "wait"));
  for (const auto& event : events)
    EXPECT_EQ(event.role, 2U);
  EXPECT_EQ(events[0].args, (std::array<std::int64_t, 6>{5, 3, 64, 31, 20, 30})) << "31 ns of training time";
  EXPECT_EQ(events[1].args[0], 4096);
  EXPECT_EQ(events[2].args[0], 4) << "the version that it waited for";
}

TEST(WorkerTrack, APushThatIsStillSummedGivesWayToTheNextStep) {
  auto recorded = std::make_shared<tracer>();
  worker_track track{recorded, worker_id{0}};
  track.pushes(protocols::clock_tick{6});
  track.adopts(version{4});
  track.computes(0);
  track.pushed(4096); // its sum is there now
  track.computed(6, 64, 10);
  EXPECT_THAT(kinds_of(recorded->take_all()), ElementsAre("push", "compute"));
}

TEST(WorkerTrack, LocalStepsFollowEachOtherWithoutAWait) {
  auto recorded = std::make_shared<tracer>();
  worker_track track{recorded, worker_id{0}};
  track.adopts(version{0});
  for (std::uint64_t step = 1; step < 3; ++step) {
    track.computes(0);
    track.computed(step, 64, 10);
  }
  EXPECT_THAT(kinds_of(recorded->take_all()), ElementsAre("compute", "compute"));
}

TEST(WorkerTrack, WithoutATracerNothingHappens) {
  worker_track track{nullptr, worker_id{0}};
  one_step(track);
  open_span{nullptr, span_kind::apply, 0, {}}.end();
  open_span{}.end();
}

class TraceFile : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string text(const std::string& name) const {
    std::ifstream in{path(name)};
    return (std::stringstream{} << in.rdbuf()).str();
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator all_files{folder_};
    return static_cast<std::size_t>(std::distance(begin(all_files), end(all_files)));
  }

  /// Two nodes; the second has worker 1 and worker 0. Times are large, as those of a host that has been up for long.
  static std::vector<node_trace> small_trace() {
    constexpr std::int64_t up = 9'000'000'000'000;
    return {{"node-0", {span(span_kind::hold, 0, up + 5'000, up + 6'500), span(span_kind::apply, 0, up + 3'000, up + 4'007)}, 0},
            {"node-1",
             {{span_kind::compute, 1, up, up + 2'000, {7, 3, 64, 1999, 1500, 1800}},
              span(span_kind::compute, 0, up + 1'000, up + 3'000)},
             12}};
  }

  static job some_job() {
    actors::job job;
    job.name = "a \"quoted\" name";
    job.protocol.name = "ssp";
    job.cluster.workers = 2;
    job.data.batch = 64;
    return job;
  }

private:
  // Tests run side by side, each in a process of its own.
  std::string folder_ = fmt::format("{}trace_test_{}", testing::TempDir(), getpid());
};

TEST_F(TraceFile, ViewersFindAProcessForEachNodeAndAThreadForEachRole) {
  ASSERT_TRUE(write_trace(path("t.json"), some_job(), small_trace()));
  const auto events = json::parse(text("t.json")).at("traceEvents").as_array();
  std::map<std::int64_t, std::string> processes, threads;
  std::map<std::string, std::vector<std::string>> spans; // by process and thread
  std::vector<std::string> arrow;
  for (const auto& event : events) {
    const auto pid = event.at("pid").as_int64(), tid = event.at("tid").as_int64();
    if (event.at("name") == "process_name")
      processes[pid] = event.at("args").at("name").as_string();
    else if (event.at("name") == "thread_name")
      EXPECT_TRUE(threads.emplace(tid, event.at("args").at("name").as_string()).second)
          << "thread numbers are unique in the file";
    else if (event.at("ph") != "X")
      arrow.push_back(fmt::format("{} {}", std::string_view{event.at("ph").as_string()}, threads.at(tid)));
    else
      spans[processes.at(pid) + ", " + threads.at(tid)].emplace_back(event.at("name").as_string());
  }
  using names = std::vector<std::string>;
  EXPECT_EQ(spans, (std::map<std::string, names>{{"node-0, coordinator", {"hold"}},
                                                 {"node-0, shard 0", {"apply"}},
                                                 {"node-1, worker 0", {"compute"}},
                                                 {"node-1, worker 1", {"compute"}}}));
  EXPECT_THAT(arrow, ElementsAre("s shard 0", "f worker 0")) << "of the one version that was made and used";
  EXPECT_LT(threads.begin()->second, threads.rbegin()->second) << "coordinator, shards, workers";
}

TEST_F(TraceFile, TimesAreMicrosecondsSinceTheFirstEvent) {
  ASSERT_TRUE(write_trace(path("t.json"), some_job(), small_trace()));
  const auto trace = json::parse(text("t.json"));
  std::vector<std::pair<double, double>> times;
  for (const auto& event : trace.at("traceEvents").as_array())
    if (event.at("ph") == "X")
      times.emplace_back(event.at("ts").to_number<double>(), event.at("dur").to_number<double>());
  EXPECT_THAT(times, ElementsAre(std::pair{5.0, 1.5}, std::pair{3.0, 1.007}, std::pair{0.0, 2.0}, std::pair{1.0, 2.0}));
}

TEST_F(TraceFile, ArgumentsHaveNames) {
  ASSERT_TRUE(write_trace(path("t.json"), some_job(), small_trace()));
  const auto trace = json::parse(text("t.json"));
  const auto& about = trace.at("otherData");
  EXPECT_EQ(about.at("format").as_string(), std::string{trace_format});
  EXPECT_EQ(about.at("job"), "a \"quoted\" name");
  EXPECT_EQ(about.at("workers"), 2);
  EXPECT_EQ(about.at("batch"), 64);
  EXPECT_EQ(about.at("dropped"), 12);
  EXPECT_THAT(text("t.json"), HasSubstr(R"("name":"compute","cat":"worker")"));
  EXPECT_THAT(
      text("t.json"),
      HasSubstr(
          R"("args":{"worker":1,"step":7,"version":3,"samples":64,"training_ns":1999,"real_ns":1500,"emulated_ns":1800}})"));
  EXPECT_THAT(text("t.json"), HasSubstr(R"("args":{"shard":0,"version":0,"contributions":0}})"));
}

TEST_F(TraceFile, ARunThatDidNothingIsATraceToo) {
  ASSERT_TRUE(write_trace(path("t.json"), some_job(), {{.name = "node-0"}}));
  EXPECT_EQ(json::parse(text("t.json")).at("traceEvents").as_array().size(), 1U);
}

TEST_F(TraceFile, AFullDiskIsAnErrorThatNamesTheFileAndLeavesTheOldOne) {
  std::ofstream{path("t.json")} << "old";
  auto trace = small_trace();
  trace[0].events.resize(1000);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{300, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = write_trace(path("t.json"), some_job(), trace);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, errc::io);
  EXPECT_THAT(written.error().message, HasSubstr(path("t.json") + ": cannot write the trace: File too large"));
  EXPECT_EQ(text("t.json"), "old");
  EXPECT_EQ(files(), 1U) << "nothing temporary is left";
}

TEST_F(TraceFile, WhatIsNoFileIsNotReplaced) {
  const auto written = write_trace(path(""), some_job(), small_trace());
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("not a regular file"));
}

} // namespace
} // namespace troupe::actors
