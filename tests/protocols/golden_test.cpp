// SPDX-License-Identifier: BSD-3-Clause
// A short job of every protocol as everybody hears it, to be read: tests/protocols/golden/. TROUPE_REWRITE_GOLDEN=1
// rewrites them.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/sim/text_trace.hpp"
#include "tests/protocols/schedule.hpp"

namespace troupe::protocols::sim {
namespace {

void expect_golden(const std::string& name, const std::string& heading, const options& job) {
  text_trace trace;
  const verdict found = run_checked(job, &trace);
  EXPECT_TRUE(found.problems.empty()) << fmt::format("{}", fmt::join(found.problems, "\n"));
  const std::string path = fmt::format("{}/tests/protocols/golden/{}.txt", TROUPE_SOURCE_DIR, name);
  const std::string text = fmt::format("# {}\n{}\n", heading, fmt::join(trace.lines(), "\n"));
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    std::ofstream(path) << text;
  std::ostringstream known;
  known << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, known.str()) << "what differs from " << path << " was meant? TROUPE_REWRITE_GOLDEN=1 rewrites it";
}

/// Worker 1 takes twice as long as the others: 20 ms a step; 1 ms one way.
options short_job(const std::string& protocol) {
  options job;
  job.protocol.name = protocol;
  job.job.workers = 3;
  job.job.batch = 2;
  job.job.data_size = 100;
  job.job.stop.steps = 3;
  job.inject.step_ms = 10;
  job.inject.link.latency_ms = 1;
  job.inject.stragglers = {{.worker = worker_id{1}, .factor = 2}};
  return job;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, ShortJob) {
  options job = short_job(GetParam());
  std::string heading =
      fmt::format("{}: 3 workers, batches of 2, 10 ms a step, worker 1 takes twice as long; 1 ms one way", GetParam());
  const auto with = [&](const std::string& name, spec_value value, const std::string& text) {
    job.protocol.parameters[name] = std::move(value);
    heading += fmt::format("; {}", text);
  };
  if (GetParam() == "ssp") {
    with("bound", std::int64_t{1}, "bound 1");
    job.job.stop.steps = 6;
  }
  if (GetParam() == "local" || GetParam() == "easgd" || GetParam() == "admm")
    with("steps", std::int64_t{2}, "2 local steps");
  if (GetParam() == "adacomm") {
    with("initial_steps", std::int64_t{4}, "4 local steps at first");
    with("interval_s", 0.06, "adapted every 60 ms");
  }
  if (GetParam() == "deadline" || GetParam() == "auto") {
    job.job.stop.steps = 6;
    job.inject.stragglers.front().factor = 4;
    heading += "; worker 1 four times as long";
  }
  expect_golden(GetParam(), heading, job);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const protocol& entry : catalog())
    out.push_back(entry.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

TEST(GoldenSync, DeathAndHold) {
  options job = short_job("sync");
  job.job.shards = 2;
  job.job.data_size = 14;
  job.job.evaluate_every_samples = 12;
  job.job.stop.steps = 4;
  job.inject.faults = {{.type = fault_spec::kind::crash, .worker = {2}, .at_s = 0.03, .back_after_s = 0.05}};
  expect_golden(
      "death_and_hold",
      "sync on 2 shards, 14 samples an epoch; worker 2 dies in the second round and comes back; held from 12 samples on", job);
}

TEST(GoldenSync, Tree) {
  options job = short_job("sync");
  job.protocol.fan_in = 2;
  job.job.stop.steps = 2;
  expect_golden("tree",
                "sync with fan-in 2: holder 0 is the shard, holder 1 takes pushes of workers 0 and 1, holder 2 of worker 2", job);
}

} // namespace
} // namespace troupe::protocols::sim
