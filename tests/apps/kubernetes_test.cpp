// SPDX-License-Identifier: BSD-3-Clause
// A cluster from the variables of a pod of an indexed Job.
#include "apps/config/kubernetes.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::config {
namespace {

using ::testing::HasSubstr;

class Kubernetes : public ::testing::Test {
protected:
  std::map<std::string, std::string> environment{
      {"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "train-mlp-2"}, {"TROUPE_SERVICE", "pods"}, {"TROUPE_NODES", "3"}};
  std::string certs = "certs";
  bool insecure = false;

  checked<kubernetes_pod> pod() {
    return cluster_of_kubernetes([this](const char* name) { return environment[name]; }, certs, insecure);
  }
  std::string refused() {
    const auto got = pod();
    return got ? "" : got.error().text();
  }
};

TEST_F(Kubernetes, EveryPodIsANodeThatComputesAndTheFirstCoordinates) {
  const auto got = pod();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->self, "train-mlp-2");
  EXPECT_EQ(got->nodes.name, "kubernetes-train-mlp");
  ASSERT_EQ(got->nodes.nodes.size(), 3U);
  EXPECT_EQ(got->nodes.coordinator().name, "train-mlp-0");
  EXPECT_EQ(got->nodes.coordinator().host, "train-mlp-0.pods");
  EXPECT_EQ(got->nodes.coordinator().port, 7400);
  EXPECT_TRUE(got->nodes.coordinator().worker);
  EXPECT_EQ(got->nodes.security.certificate, "certs/train-mlp-2.pem");
  EXPECT_FALSE(got->nodes.security.insecure);
}

TEST_F(Kubernetes, WithoutCertificatesAnyoneMayJoinOnlyIfThatIsSaid) {
  certs = "";
  EXPECT_THAT(refused(), HasSubstr("give them certificates"));
  insecure = true;
  EXPECT_TRUE(pod()->nodes.security.insecure);
}

TEST_F(Kubernetes, WhatIsMissingOrDisagreesIsNamed) {
  const auto with = [this](const char* name, const char* value) {
    const auto before = environment;
    environment[name] = value;
    const auto text = refused();
    environment = before;
    return text;
  };
  EXPECT_THAT(with("TROUPE_NODES", ""), HasSubstr("TROUPE_NODES is not set"));
  EXPECT_THAT(with("TROUPE_NODES", "two"), HasSubstr("TROUPE_NODES=\"two\" is no number of pods"));
  EXPECT_THAT(with("TROUPE_NODES", "2"), HasSubstr("JOB_COMPLETION_INDEX=2 and TROUPE_NODES=2 do not go together"));
  EXPECT_THAT(with("JOB_COMPLETION_INDEX", "1"), HasSubstr("HOSTNAME=train-mlp-2 does not end in -1"));
  EXPECT_THAT(with("TROUPE_SERVICE", "a b"), HasSubstr("is no host's name"));
  EXPECT_THAT(with("TROUPE_PORT", "70000"), HasSubstr("is no port"));
}

} // namespace
} // namespace troupe::config
