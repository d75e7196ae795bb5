// SPDX-License-Identifier: BSD-3-Clause
// Gradient codes: small ones by hand, and every set of stragglers for all up to n = 32, s = 3, in float32 as pushes are.
#include "protocols/gradient_code.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "protocols/random_stream.hpp"

namespace troupe::protocols {
namespace {

using ranks = std::vector<std::uint32_t>;
using parts = std::vector<gradient_code::part>;
using weights = std::vector<double>;

gradient_code groups(std::uint32_t n, std::uint32_t s) {
  return gradient_code{{.scheme = code_scheme::groups, .workers = n, .stragglers = s}};
}
code_options cyclic_options(std::uint32_t n, std::uint32_t s, std::uint64_t seed = 1) {
  return {.scheme = code_scheme::cyclic, .workers = n, .stragglers = s, .seed = seed};
}
gradient_code cyclic(std::uint32_t n, std::uint32_t s, std::uint64_t seed = 1) {
  return gradient_code{cyclic_options(n, s, seed)};
}

/// The weights of the present; empty if they cannot be decoded.
weights decoded(const gradient_code& code, const ranks& present) {
  const auto out = code.decode(present);
  return out ? out->weights : weights{};
}

/// Calls f(present) for every way in which at most `most` of n are missing.
template <class F>
void for_each_present(std::uint32_t n, std::uint32_t most, const F& f, ranks present = {}, std::uint32_t next = 0) {
  if (next == n)
    return f(present);
  if (most > 0)
    for_each_present(n, most - 1, f, present, next + 1);
  present.push_back(next);
  for_each_present(n, most, f, present, next + 1);
}

/// A batch of samples with a random gradient each, and what a job makes of it in float32.
class job {
public:
  explicit job(const gradient_code& code, std::uint32_t n) : samples_(67, std::vector<float>(dimensions)) {
    random_stream random{n};
    for (auto& gradient : samples_)
      for (std::size_t d = 0; d < dimensions; ++d) {
        gradient[d] = static_cast<float>(2 * random.uniform() - 1);
        full_[d] += static_cast<double>(gradient[d]);
      }
    for (std::uint32_t worker = 0; worker < n; ++worker)
      pushes_.push_back(push(code, worker));
  }

  /// |decoded gradient - gradient| / |gradient|.
  double error(const ranks& present, const weights& a) const {
    std::vector<float> sum(dimensions);
    for (std::size_t i = 0; i < present.size(); ++i)
      for (std::size_t d = 0; d < dimensions; ++d)
        sum[d] += static_cast<float>(a[i]) * pushes_[present[i]][d];
    double wrong = 0, norm = 0;
    for (std::size_t d = 0; d < dimensions; ++d) {
      wrong += std::pow(static_cast<double>(sum[d]) - full_[d], 2);
      norm += std::pow(full_[d], 2);
    }
    return std::sqrt(wrong / norm);
  }

private:
  static constexpr std::size_t dimensions = 16;

  std::vector<float> push(const gradient_code& code, std::uint32_t worker) const {
    std::vector<float> out(dimensions);
    for (const auto& part : code.parts(worker)) {
      const std::size_t cuts = code.cuts(worker);
      std::vector<float> gradient(dimensions);
      for (std::size_t i = samples_.size() * part.index / cuts; i < samples_.size() * (part.index + 1) / cuts; ++i)
        for (std::size_t d = 0; d < dimensions; ++d)
          gradient[d] += samples_[i][d];
      for (std::size_t d = 0; d < dimensions; ++d)
        out[d] += static_cast<float>(part.weight) * gradient[d];
    }
    return out;
  }

  std::vector<std::vector<float>> samples_;
  std::vector<double> full_ = std::vector<double>(dimensions);
  std::vector<std::vector<float>> pushes_{};
};

/// The largest error over every set of at most s missing workers; infinite if one cannot be decoded.
double worst_error(const gradient_code& code, std::uint32_t n, std::uint32_t s) {
  const job of{code, n};
  double worst = 0;
  for_each_present(n, s, [&](const ranks& present) {
    const auto a = code.decode(present);
    worst = std::max(worst, a ? of.error(present, a->weights) : HUGE_VAL);
    if (a) {
      EXPECT_LE(a->residual, 1e-11);
    }
  });
  return worst;
}

TEST(GradientCode, GroupsOfEqualSizeNeedOneSurvivorPerCut) {
  const gradient_code code = groups(4, 1); // groups {0, 2} and {1, 3}: ranks 0 and 1 hold cut 0, ranks 2 and 3 hold cut 1
  for (const std::uint32_t worker : {0, 1, 2, 3}) {
    EXPECT_EQ(code.cuts(worker), 2U);
    EXPECT_EQ(code.parts(worker), (parts{{worker / 2, 1.0}}));
  }
  EXPECT_EQ(decoded(code, {0, 1, 2, 3}), (weights{1, 0, 1, 0})); // the smallest rank per cut
  EXPECT_EQ(decoded(code, {1, 2, 3}), (weights{1, 1, 0}));
  EXPECT_EQ(decoded(code, {0, 3}), (weights{1, 1})); // two are missing, and s is 1
  EXPECT_EQ(code.decode({0, 1}), std::nullopt);      // nobody has cut 1
  EXPECT_EQ(code.decode({}), std::nullopt);
  EXPECT_EQ(code.amplification(), 1);
}

TEST(GradientCode, GroupsOfUnequalSizeNeedOneThatIsWhole) {
  const gradient_code code = groups(3, 1); // group {0, 2}, a half each, and group {1}, which has all
  EXPECT_EQ(code.cuts(0), 2U);
  EXPECT_EQ(code.cuts(1), 1U);
  EXPECT_EQ(code.cuts(2), 2U);
  EXPECT_EQ(code.parts(1), (parts{{0, 1.0}}));
  EXPECT_EQ(code.parts(2), (parts{{1, 1.0}}));
  EXPECT_EQ(decoded(code, {0, 1, 2}), (weights{1, 0, 1}));
  EXPECT_EQ(decoded(code, {0, 2}), (weights{1, 1}));
  EXPECT_EQ(decoded(code, {0, 1}), (weights{0, 1}));
  EXPECT_EQ(decoded(code, {1}), (weights{1}));
  EXPECT_EQ(code.decode({0}), std::nullopt);
  EXPECT_EQ(code.decode({2}), std::nullopt);
}

TEST(GradientCode, GroupsOfOneSizeStandInForEachOtherAmongOthers) {
  const gradient_code code = groups(5, 2); // {0, 3}, {1, 4} of two cuts; {2} of one
  EXPECT_EQ(decoded(code, {0, 4}), (weights{1, 1}));
  EXPECT_EQ(decoded(code, {1, 3}), (weights{1, 1}));
  EXPECT_EQ(decoded(code, {0, 1, 2}), (weights{0, 0, 1}));
  EXPECT_EQ(code.decode({0, 1}), std::nullopt);
  EXPECT_EQ(code.decode({3, 4}), std::nullopt);
}

TEST(GradientCode, NoStragglersIsThePlainSum) {
  for (const auto scheme : {code_scheme::automatic, code_scheme::groups, code_scheme::cyclic}) {
    const gradient_code code{{.scheme = scheme, .workers = 3}};
    EXPECT_EQ(code.cuts(2), 3U);
    EXPECT_EQ(code.parts(2), (parts{{2, 1.0}}));
    EXPECT_EQ(decoded(code, {0, 1, 2}), (weights{1, 1, 1}));
    EXPECT_EQ(code.decode({0, 2}), std::nullopt);
  }
}

TEST(GradientCode, AutomaticIsGroups) {
  const gradient_code code{{.workers = 5, .stragglers = 1}}; // {0, 2, 4}, {1, 3}
  EXPECT_EQ(code.cuts(4), 3U);
  EXPECT_EQ(code.parts(3), (parts{{1, 1.0}}));
}

TEST(GradientCode, CyclicOfThreeSolvedByHand) {
  const gradient_code code = cyclic(3, 1);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t j = (i + 1) % 3, k = (i + 2) % 3; // of i and j, i alone has cut i, j alone has cut k, and both have j
    const parts of_i = code.parts(i), of_j = code.parts(j);
    EXPECT_EQ(code.cuts(i), 3U);
    ASSERT_EQ(of_i.size(), 2U);
    EXPECT_EQ((std::tuple{of_i[0].index, of_i[1].index, of_j[0].index, of_j[1].index}), (std::tuple{i, j, j, k}));
    EXPECT_EQ(std::max(std::abs(of_i[0].weight), std::abs(of_i[1].weight)), 1.0);
    const double a_i = 1 / of_i[0].weight, a_j = 1 / of_j[1].weight;
    EXPECT_NEAR(a_i * of_i[1].weight + a_j * of_j[0].weight, 1, 1e-13);
    const weights a = decoded(code, {std::min(i, j), std::max(i, j)});
    ASSERT_EQ(a.size(), 2U);
    EXPECT_NEAR(a[i < j ? 0 : 1], a_i, 1e-13);
    EXPECT_NEAR(a[i < j ? 1 : 0], a_j, 1e-13);
    EXPECT_EQ(code.decode({i}), std::nullopt);
  }
}

TEST(GradientCode, CyclicOfNearlyAllStragglersCopiesEverything) {
  const gradient_code code = cyclic(3, 2); // rows orthogonal to all that is orthogonal to 1
  for (const auto& part : code.parts(1))
    EXPECT_NEAR(part.weight, 1, 1e-13);
  EXPECT_NEAR(decoded(code, {2}).at(0), 1, 1e-13);
  const weights all = decoded(code, {0, 1, 2});
  for (const double a : all)
    EXPECT_NEAR(a, 1.0 / 3, 1e-13);
}

TEST(GradientCode, CyclicWeightsAreTheSmallestThatDecode) {
  const gradient_code code = cyclic(8, 3);
  const weights all = decoded(code, {0, 1, 2, 3, 4, 5, 6, 7}), without_0 = decoded(code, {1, 2, 3, 4, 5, 6, 7});
  for_each_present(8, 3, [&](const ranks& present) {
    // The smallest is orthogonal to its difference from any other.
    weights other(8);
    const weights a = decoded(code, present);
    for (std::size_t i = 0; i < present.size(); ++i)
      other[present[i]] = a[i];
    double product = 0, product_without_0 = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      product += all[i] * (other[i] - all[i]);
      if (i > 0)
        product_without_0 += without_0[i - 1] * (other[i] - without_0[i - 1]);
    }
    EXPECT_NEAR(product, 0, 1e-11);
    if (other[0] == 0) {
      EXPECT_NEAR(product_without_0, 0, 1e-11);
    }
  });
}

TEST(GradientCode, CyclicNeedsAllButSOfThem) {
  const gradient_code code = cyclic(7, 2);
  EXPECT_EQ(decoded(code, {0, 2, 3, 4, 6}).size(), 5U);
  EXPECT_EQ(code.decode({0, 2, 3, 4}), std::nullopt);
  EXPECT_EQ(code.decode({}), std::nullopt);
}

TEST(GradientCode, AmplificationIsTheLargestWeight) {
  for (const auto& [n, s] : {std::pair{3U, 1U}, {9U, 2U}, {8U, 3U}, {24U, 3U}}) { // (24, 3): more sets than the search looks at
    const gradient_code code = cyclic(n, s);
    double largest = 0;
    for_each_present(n, s, [&, fewest = n - s](const ranks& present) {
      if (present.size() == fewest)
        for (const double a : decoded(code, present))
          largest = std::max(largest, std::abs(a));
    });
    EXPECT_EQ(code.amplification(), largest) << n << ' ' << s;
  }
}

TEST(GradientCode, ResidualIsWhatTheWeightsLeave) {
  const gradient_code code = cyclic(9, 2);
  for_each_present(9, 2, [&](const ranks& present) {
    const auto out = code.decode(present);
    ASSERT_TRUE(out);
    weights left(9, -1.0);
    for (std::size_t i = 0; i < present.size(); ++i)
      for (const auto& part : code.parts(present[i]))
        left[part.index] += out->weights[i] * part.weight;
    double largest = 0;
    for (const double element : left)
      largest = std::max(largest, std::abs(element));
    EXPECT_DOUBLE_EQ(out->residual, largest);
  });
}

TEST(GradientCode, NoCoefficientIsBeyondOne) {
  const gradient_code code = cyclic(10, 3);
  for (std::uint32_t worker = 0; worker < 10; ++worker) {
    double largest = 0;
    for (const auto& part : code.parts(worker))
      largest = std::max(largest, std::abs(part.weight));
    EXPECT_EQ(largest, 1);
  }
}

TEST(GradientCode, EveryStragglerSetOfGroupsDecodesTheGradient) {
  for (std::uint32_t n = 1; n <= 32; ++n)
    for (std::uint32_t s = 0; s <= std::min(3U, n - 1); ++s)
      EXPECT_LE(worst_error(groups(n, s), n, s), 1e-6) << "n = " << n << ", s = " << s;
}

TEST(GradientCode, EveryStragglerSetOfACyclicCodeDecodesTheGradient) {
  // What validate() accepts whichever seed was tried; from about n = 19 on (s = 2), n = 12 (s = 3), it refuses some or all.
  const auto most = [](std::uint32_t s) { return s == 1 ? 32U : s == 2 ? 16U : 10U; };
  for (std::uint32_t s = 1; s <= 3; ++s)
    for (std::uint32_t n = s + 1; n <= most(s); ++n) {
      const gradient_code code = cyclic(n, s);
      EXPECT_LE(code.amplification(), gradient_code::amplification_limit) << "n = " << n << ", s = " << s;
      EXPECT_LE(worst_error(code, n, s), 1e-5) << "n = " << n << ", s = " << s;
    }
}

TEST(GradientCode, ACodeAtTheLimitKeepsFiveDigits) {
  const gradient_code code = cyclic(17, 2, 4);
  EXPECT_GT(code.amplification(), 0.95 * gradient_code::amplification_limit);
  EXPECT_EQ(gradient_code::validate(cyclic_options(17, 2, 4)), "");
  EXPECT_LE(worst_error(code, 17, 2), 1e-5);
}

TEST(GradientCode, AnotherNumberOfWorkersMakesAnotherCode) {
  for (const std::uint32_t n : {8, 7, 8, 9})
    for (const gradient_code& code : {groups(n, 2), cyclic(n, 2)})
      EXPECT_LE(worst_error(code, n, 2), 1e-5) << n;
}

TEST(GradientCode, OneSeedOneCode) {
  const auto all_parts = [](const gradient_code& code) {
    parts out;
    for (std::uint32_t worker = 0; worker < 9; ++worker)
      std::ranges::copy(code.parts(worker), std::back_inserter(out));
    return out;
  };
  const gradient_code one = cyclic(9, 2, 5), same = cyclic(9, 2, 5), other = cyclic(9, 2, 6);
  EXPECT_EQ(all_parts(one), all_parts(same));
  EXPECT_EQ(decoded(one, {0, 1, 2, 4, 5, 6, 8}), decoded(same, {0, 1, 2, 4, 5, 6, 8}));
  EXPECT_NE(all_parts(one), all_parts(other));
}

TEST(GradientCode, EveryBuildMakesTheSameBits) {
  const gradient_code code = cyclic(5, 2, 7);
  EXPECT_EQ(code.parts(3), (parts{{3, 1.0}, {4, 0x1.470ac8c96c9d4p-1}, {0, 0x1.74355d7851fcap-1}}));
  EXPECT_EQ(decoded(code, {0, 2, 3}), (weights{0x1.1694075e5d66ap+1, -0x1.28617779bd4b5p+1, -0x1.50c2eef37a965p+0}));
}

TEST(GradientCode, CheckSaysWhatIsWrongAndWhatWouldDo) {
  EXPECT_EQ(gradient_code::validate({.workers = 3, .stragglers = 3}),
            "stragglers must be below workers (here 3 of 3); take more workers or fewer stragglers");
  EXPECT_EQ(gradient_code::validate({.workers = 0}),
            "stragglers must be below workers (here 0 of 0); take more workers or fewer stragglers");
  EXPECT_EQ(gradient_code::validate({.workers = 1000, .stragglers = 999}), "");
  EXPECT_EQ(gradient_code::validate(cyclic_options(65, 1)),
            "a cyclic code takes at most 64 workers (here 65): use scheme = \"groups\"");
  EXPECT_EQ(gradient_code::validate(cyclic_options(12, 2)), "");
  EXPECT_EQ(gradient_code::validate(cyclic_options(16, 3)),
            "the cyclic code of 16 workers, 3 stragglers multiplies rounding errors by 196, where 64 is the limit: "
            "use scheme = \"groups\", which multiplies them by 1");
}

} // namespace
} // namespace troupe::protocols
