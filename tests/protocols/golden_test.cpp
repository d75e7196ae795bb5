// SPDX-License-Identifier: BSD-3-Clause
// Two small jobs as everybody hears them, to be read: tests/protocols/golden/. TROUPE_REWRITE_GOLDEN=1 writes them anew.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/protocols/cluster.hpp"

namespace troupe::protocols {
namespace {

void expect_golden(const std::string& name, const std::string& heading, const cluster& job) {
  const std::string path = fmt::format("{}/tests/protocols/golden/{}.txt", TROUPE_SOURCE_DIR, name);
  const std::string text = fmt::format("# {}\n{}\n# {}: {}\n", heading, fmt::join(job.trace(), "\n"),
                                       job.end().failed ? "failed" : "done", job.end().reason);
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    std::ofstream(path) << text;
  std::ostringstream known;
  known << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, known.str()) << "what differs from " << path << " was meant? TROUPE_REWRITE_GOLDEN=1 writes it anew";
}

TEST(Golden, DeathAndHold) {
  cluster job{{.job = {.workers = 3, .batch = 2, .data_size = 14, .evaluate_every_samples = 12, .stop_steps = 4, .shards = 2}}};
  job.start();
  while (job.made() < version{1})
    job.step();
  job.kill({2});
  job.run();
  EXPECT_TRUE(job.broken().empty()) << fmt::format("{}", fmt::join(job.broken(), "\n"));
  expect_golden(
      "death_and_hold",
      "3 workers, batches of 2, 14 samples an epoch, 2 shards; worker 2 dies in the second round; held from 12 samples on, "
      "ends at version 4",
      job);
}

TEST(Golden, Tree) {
  cluster job{{.job = {.workers = 3, .protocol = {.fan_in = 2}, .batch = 2, .data_size = 100, .stop_steps = 2}}};
  job.start();
  job.run();
  EXPECT_TRUE(job.broken().empty()) << fmt::format("{}", fmt::join(job.broken(), "\n"));
  expect_golden(
      "tree", "3 workers, fan-in 2: holder 0 is the shard, holder 1 takes pushes of workers 0 and 1, holder 2 of worker 2", job);
}

} // namespace
} // namespace troupe::protocols
