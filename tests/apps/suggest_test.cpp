// SPDX-License-Identifier: BSD-3-Clause
// Likely names behind misspelt ones.
#include "apps/config/suggest.hpp"

#include <gtest/gtest.h>

namespace troupe::config {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("batch", "batch"), 0U);
  EXPECT_EQ(edit_distance("bath", "batch"), 1U);
  EXPECT_EQ(edit_distance("bbatch", "batch"), 1U);
  EXPECT_EQ(edit_distance("betch", "batch"), 1U);
  EXPECT_EQ(edit_distance("bacth", "batch"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistance, LetterCaseIsFree) {
  EXPECT_EQ(edit_distance("Batch", "bATCH"), 0U);
}

TEST(Nearest, TakesTheNearestAndTheFirstOfEquals) {
  EXPECT_EQ(nearest("momentun", {"nesterov", "momentum"}), "momentum");
  EXPECT_EQ(nearest("cat", {"car", "cap"}), "car");
}

TEST(Nearest, KeepsSilentWhereNothingIsNear) {
  EXPECT_EQ(nearest("zebra", {"batch", "path"}), "");
  EXPECT_EQ(nearest("ab", {"xy"}), "");
  EXPECT_EQ(nearest(std::string(1000, 'a'), {std::string(1000, 'a')}), "");
}

TEST(Nearest, AcceptsABeginning) {
  EXPECT_EQ(nearest("dec", {"rate", "decay_factor"}), "decay_factor");
  EXPECT_EQ(nearest("rates_of_learning", {"lr", "rates"}), "rates");
}

} // namespace
} // namespace troupe::config
