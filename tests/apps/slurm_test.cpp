// SPDX-License-Identifier: BSD-3-Clause
// A cluster from Slurm's variables.
#include "apps/config/slurm.hpp"

#include <cstdio>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Hostlist, IsExpandedInItsOrder) {
  EXPECT_THAT(expand_hostlist("a"), ElementsAre("a"));
  EXPECT_THAT(expand_hostlist("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(expand_hostlist("b,n[08-10,2],c-d"), ElementsAre("b", "n08", "n09", "n10", "n2", "c-d"));
  EXPECT_THAT(expand_hostlist("r[1-2]n[3,5]x"), ElementsAre("r1n3x", "r1n5x", "r2n3x", "r2n5x"));
}

TEST(Hostlist, WhatIsNoneIsRefused) {
  for (const auto* list : {"", "a,", "n[1-3", "n[3-1]", "n[x]", "n]1", "n[]", "n[0-9999999999]", "n[1-60000][1-60000]"})
    EXPECT_THAT(expand_hostlist(list), IsEmpty()) << list;
}

TEST(TaskCounts, AreExpanded) {
  EXPECT_THAT(expand_counts("1"), ElementsAre(1U));
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2U, 2U, 2U, 1U));
  for (const auto* list : {"", "x", "1,", "2(x)", "2(x0)", "2(x3", "-1", "1(x999999999)"})
    EXPECT_THAT(expand_counts(list), IsEmpty()) << list;
}

class Slurm : public ::testing::Test {
protected:
  std::map<std::string, std::string> environment{{"SLURM_JOB_ID", "7"},
                                                 {"SLURM_STEP_ID", "0"},
                                                 {"SLURM_PROCID", "2"},
                                                 {"SLURM_STEP_NODELIST", "n[1-2]"},
                                                 {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};
  std::string address = "127.0.0.1";
  cluster_security security;

  checked<slurm_step> step() {
    return cluster_of_slurm([this](const char* name) { return environment[name]; },
                            [this](const std::string&) { return address; }, security);
  }
  std::string refused() {
    const auto got = step();
    return got ? "" : got.error().text();
  }
};

TEST_F(Slurm, EveryTaskIsANodeAndTheFirstCoordinates) {
  const auto got = step();
  ASSERT_TRUE(got);
  ASSERT_EQ(got->nodes.nodes.size(), 3U);
  EXPECT_EQ(got->nodes.coordinator().name, "n1-0");
  EXPECT_EQ(got->nodes.coordinator().port, 20'112);
  EXPECT_FALSE(got->nodes.coordinator().worker);
  EXPECT_EQ(got->self, "n2");
  environment["SLURM_PROCID"] = "0";
  EXPECT_EQ(step()->self, "n1-0");
}

TEST_F(Slurm, TheSameClusterAsAFile) {
  security.insecure = true;
  address = "10.1.2.3";
  const auto made = step()->nodes;
  const auto path = ::testing::TempDir() + "slurm_test.toml";
  std::ofstream{path} << to_toml(made);
  const auto read = load_cluster(path);
  std::remove(path.c_str());
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->name, made.name);
  ASSERT_EQ(read->nodes.size(), made.nodes.size());
  for (std::size_t i = 0; i < made.nodes.size(); ++i) {
    EXPECT_EQ(read->nodes[i].name, made.nodes[i].name);
    EXPECT_EQ(read->nodes[i].host, made.nodes[i].host);
    EXPECT_EQ(read->nodes[i].port, made.nodes[i].port);
    EXPECT_EQ(read->nodes[i].worker, made.nodes[i].worker);
  }
  EXPECT_TRUE(read->security.insecure);
}

TEST_F(Slurm, OtherHostsNeedCertificatesOrAWord) {
  address = "10.1.2.3";
  EXPECT_THAT(refused(), HasSubstr("--insecure"));
  security.insecure = true;
  EXPECT_TRUE(step());
}

TEST_F(Slurm, WhatDoesNotFitIsSaid) {
  environment["SLURM_STEP_TASKS_PER_NODE"] = "1";
  EXPECT_THAT(refused(), HasSubstr("do not go together"));
  environment["SLURM_STEP_TASKS_PER_NODE"] = "1(x2)";
  EXPECT_THAT(refused(), HasSubstr("SLURM_PROCID=2"));
  environment["SLURM_STEP_NODELIST"] = "a;reboot,b";
  EXPECT_THAT(refused(), HasSubstr("not a host's name"));
  environment.erase("SLURM_JOB_ID");
  EXPECT_THAT(refused(), HasSubstr("start it with srun"));
}

} // namespace
} // namespace troupe::config
