// SPDX-License-Identifier: BSD-3-Clause
// How often a child may be started anew.
#include "apps/start_limit.hpp"

#include <gtest/gtest.h>

namespace troupe::apps {
namespace {

using namespace std::chrono_literals;

TEST(StartLimit, SoManyStartsAreAllowedWithinAnyWindow) {
  const start_limit::clock::time_point begin{1000s};
  start_limit limit{2, 60s};
  EXPECT_TRUE(limit.take(begin));
  EXPECT_TRUE(limit.take(begin + 50s));
  EXPECT_FALSE(limit.take(begin + 59s));
  EXPECT_TRUE(limit.take(begin + 60s)) << "the first is a minute ago";
  EXPECT_FALSE(limit.take(begin + 109s)) << "it slides: two are of the last minute";
  EXPECT_TRUE(limit.take(begin + 110s));
}

TEST(StartLimit, AStartThatIsRefusedDoesNotCount) {
  const start_limit::clock::time_point begin{1000s};
  start_limit limit{1, 60s};
  EXPECT_TRUE(limit.take(begin));
  for (auto second = 1s; second < 60s; ++second)
    EXPECT_FALSE(limit.take(begin + second));
  EXPECT_TRUE(limit.take(begin + 60s));
}

} // namespace
} // namespace troupe::apps
