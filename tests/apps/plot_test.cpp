// SPDX-License-Identifier: BSD-3-Clause
// Plots: what stands in the SVG, axes with round ticks, labels that do not cover each other.
#include "apps/plot/plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "apps/plot/plot_axis.hpp"
#include "apps/plot/plot_labels.hpp"
#include "apps/plot/plot_text.hpp"

namespace troupe::apps {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

/// A curve of `points` evaluations, a second each, that falls from `from` to `to`.
plot_curve falling(const std::string& label, std::size_t points, double from = 2.3, double to = 0.5) {
  plot_curve c{label, {}, {}};
  for (std::size_t i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(points - 1);
    c.points.push_back({static_cast<double>(i), from + (to - from) * share, 0.1 + 0.88 * share});
  }
  return c;
}

plot_data data_of(std::vector<plot_curve> curves, double target = 0) {
  return {.title = "job", .target_accuracy = target, .curves = std::move(curves)};
}

/// The y of every point of the `which`-th curve's path in an SVG.
std::vector<double> heights(const std::string& svg, int which) {
  const std::string mark = "<path class=\"line\" d=\"M";
  std::size_t at = svg.find("clip-path=");
  for (int i = 0; i <= which; ++i)
    at = svg.find(mark, at) + mark.size();
  std::string path = svg.substr(at, svg.find('"', at) - at);
  std::replace_if(
      path.begin(), path.end(), [](char c) { return c == 'L' || c == 'M'; }, ' ');
  std::istringstream in(path);
  std::vector<double> ys;
  for (double x = 0, y = 0; in >> x >> y;)
    ys.push_back(y);
  return ys;
}

TEST(Plot, NamesEveryCurveOnceInTheLegendAndOnceAtItsEndOfEachPanel) {
  const std::vector<plot_curve> curves{falling("sync", 5), falling("local:steps=5", 7), falling("async", 3)};
  for (const double target : {0.0, 0.9}) {
    const std::string svg = plot_svg(data_of(curves, target));
    for (const plot_curve& c : curves) {
      EXPECT_EQ(count(svg, ">" + c.label + "<tspan"), 1U) << c.label;
      EXPECT_EQ(count(svg, ">" + c.label + "</text>"), target > 0 ? 2U : 1U) << c.label;
    }
  }
}

TEST(Plot, DrawsTheTargetWhereItWasReached) {
  std::vector<plot_curve> curves{falling("fast", 5), falling("slow", 9)};
  curves[0].reached_s = 3.25;
  const std::string svg = plot_svg(data_of(curves, 0.9));
  EXPECT_EQ(count(svg, "<circle class=\"ring\""), 2U) << "one a panel";
  EXPECT_EQ(count(svg, "<path class=\"drop\""), 1U);
  EXPECT_EQ(count(svg, "<path class=\"target\""), 1U);
  EXPECT_NE(svg.find(": 0.9 after 3.25 s"), std::string::npos);
  EXPECT_NE(svg.find(": 0.9 not reached"), std::string::npos);
  const std::string without = plot_svg(data_of({falling("fast", 5)}));
  EXPECT_EQ(count(without, "<path class=\"target\"") + count(without, "test accuracy") + count(without, "reached"), 0U);
}

TEST(Plot, LossIsLogarithmicWhereItSpansMoreThanADecade) {
  EXPECT_EQ(count(plot_svg(data_of({falling("a", 5, 2.0, 0.1)})), "log scale"), 1U);
  EXPECT_EQ(count(plot_svg(data_of({falling("a", 5, 2.0, 0.3)})), "log scale"), 0U);
  EXPECT_EQ(count(plot_svg(data_of({falling("a", 5, 2.0, 0.0)})), "log scale"), 0U) << "zero has no logarithm";
}

TEST(Plot, SurvivesWhatIsNotFiniteEmptyOrAlone) {
  const std::vector<plot_curve> odd{
      {"empty", {}, {}},
      {"one", {{3, 1, 0.5}}, 3.0},
      {"gaps", {{0, nan, nan}, {1, 2, 0.3}, {2, nan, 0.4}, {3, inf, 0.5}, {nan, 1, 1}, {4, 0.5, 0.6}}, nan},
      {"diverged", {{0, 2.3, 0.1}, {1, 5, 0.1}, {2, 1e30, 0.1}, {3, 1e308, 0.1}}, inf},
      {"negative", {{-1e308, -1e308, -1}, {0, 1e-308, 0}, {5, 0, 0}}, -1.0}};
  for (std::size_t n = 0; n <= odd.size(); ++n)
    for (std::size_t first = 0; first + n <= odd.size(); ++first)
      for (const double target : {0.0, 0.9, 1.0}) {
        const auto from = odd.begin() + static_cast<std::ptrdiff_t>(first);
        const std::string svg = plot_svg(data_of({from, from + static_cast<std::ptrdiff_t>(n)}, target));
        const std::string drawing = svg.substr(svg.find("</style>"));
        for (const char* wrong : {"\"nan", "\"inf", " nan", " inf", "-nan", "-inf", "Mnan", "Vnan", "Lnan", "nan<", "inf<"})
          EXPECT_EQ(count(drawing, wrong), 0U) << wrong << " with " << n << " from " << first;
        EXPECT_TRUE(svg.ends_with("</svg>\n"));
      }
}

TEST(Plot, ADivergingRunDoesNotFlattenTheOthers) {
  plot_curve diverged = falling("diverged", 5);
  diverged.points.back().train_loss = 1e30;
  const auto ys = heights(plot_svg(data_of({falling("good", 5), diverged})), 0);
  EXPECT_GT(*std::max_element(ys.begin(), ys.end()) - *std::min_element(ys.begin(), ys.end()), 20);
}

TEST(Plot, IsSmallAndKeepsTheExtremesOfManyPoints) {
  std::vector<plot_curve> curves;
  for (int i = 0; i < 13; ++i)
    curves.push_back(falling("local:steps=" + std::to_string(i), 5000));
  curves[4].points[2501].train_loss = 2.2; // a spike between its neighbours' 1.4
  curves[4].points[2502].train_loss = 0.6; // and a dip
  const std::string svg = plot_svg(data_of(curves, 0.97));
  EXPECT_LT(svg.size(), 60'000U);
  const auto ys = heights(svg, 4);
  ASSERT_GT(ys.size(), 50U);
  const auto third = ys.begin() + static_cast<std::ptrdiff_t>(ys.size() / 3), two_thirds = ys.end() - (third - ys.begin());
  EXPECT_LT(*std::min_element(third, two_thirds), *third - 30) << "the spike is there";
  EXPECT_GT(*std::max_element(third, two_thirds), *two_thirds + 30) << "the dip, too";
  EXPECT_EQ(ys.front(), *std::min_element(ys.begin(), ys.end()));
  EXPECT_EQ(ys.back(), *std::max_element(ys.begin(), ys.end()));
}

TEST(Plot, IsSelfContainedAndFollowsLightAndDark) {
  const std::string svg = plot_svg(data_of({falling("sync", 5)}, 0.9));
  for (const char* outside : {"<script", "href", "url(http", "@import", "<image"})
    EXPECT_EQ(count(svg, outside), 0U) << outside;
  EXPECT_EQ(count(svg, "http"), 1U) << "the name space";
  EXPECT_EQ(count(svg, "prefers-color-scheme:dark"), 1U);
}

TEST(Plot, EscapesEveryText) {
  const std::string svg =
      plot_svg({.title = "a < b & \"c\"", .time_label = "t > 0", .curves = {falling("x<y>&\"", 3), falling("\x01\xff", 3)}});
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("t &gt; 0"), std::string::npos);
  EXPECT_NE(svg.find(">x&lt;y&gt;&amp;&quot;<tspan"), std::string::npos);
  EXPECT_NE(svg.find(">?\?<tspan"), std::string::npos);
}

TEST(PlotText, WhatIsNoUtf8IsAQuestionMark) {
  EXPECT_EQ(xml_text("h\u00e9 \u2192 \U0001f600\n"), "h\u00e9 \u2192 \U0001f600\n");
  EXPECT_EQ(xml_text(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(xml_text("\xc3"), "?") << "cut off";
  EXPECT_EQ(xml_text("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(xml_text("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(xml_text("\xef\xbf\xbf"), "???") << "no character";
}

TEST(PlotText, IsShortenedBetweenCharacters) {
  EXPECT_EQ(shortened("sync", 100), "sync");
  const std::string cut = shortened("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 45);
  EXPECT_TRUE(cut.ends_with("\u00e9...")) << cut;
  EXPECT_EQ(xml_text(cut), cut);
}

TEST(Axis, LinearTicksAreRoundAndInside) {
  EXPECT_EQ(linear_axis(0, 16.5, 8).ticks, (std::vector<double>{0, 5, 10, 15}));
  EXPECT_EQ(linear_axis(0, 16, 8).ticks, (std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(linear_axis(-3, 3, 6).ticks, (std::vector<double>{-3, -2, -1, 0, 1, 2, 3}));
  EXPECT_FALSE(std::signbit(linear_axis(0, 16, 8).ticks[0])) << "nobody reads -0";
  const axis a = linear_axis(2, 6, 4);
  EXPECT_EQ(a.share(2), 0);
  EXPECT_EQ(a.share(3), 0.25);
  EXPECT_EQ(a.share(6), 1);
}

TEST(Axis, LogarithmicTicksArePowersOfTenAndInShortRangesTwosAndFives) {
  const auto near = [](const std::vector<double>& ticks, const std::vector<double>& expected) {
    ASSERT_EQ(ticks.size(), expected.size());
    for (std::size_t i = 0; i < ticks.size(); ++i)
      EXPECT_NEAR(ticks[i] / expected[i], 1, 1e-12);
  };
  near(log_axis(0.03, 3).ticks, {0.05, 0.1, 0.2, 0.5, 1, 2});
  near(log_axis(1e-6, 1).ticks, {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1});
  EXPECT_LE(log_axis(1e-300, 1e300).ticks.size(), 10U);
  EXPECT_NEAR(log_axis(0.01, 100).share(1), 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(log_axis(0.01, 100).share(0)));
}

TEST(Axis, OneValueOrNearlyOneStillHasARange) {
  for (const double value : {0.0, 3.0, -2.0, 1e17, 1e-300}) {
    const axis a = linear_axis(value, std::nextafter(value, inf), 6);
    EXPECT_LT(a.low, a.high);
    EXPECT_LT(a.ticks.size(), 30U);
    EXPECT_TRUE(std::isfinite(a.share(value)));
  }
  const axis a = log_axis(2, 2);
  EXPECT_LT(a.low, a.high);
}

TEST(Labels, StandBesideTheirEndsWhereThereIsRoom) {
  const auto boxes = place_labels({{{100, 50}, 40}, {{100, 150}, 40}}, {}, {0, 0, 300, 300});
  EXPECT_GT(boxes[0].left, 100);
  EXPECT_EQ((boxes[0].top + boxes[0].bottom) / 2, 50);
  EXPECT_EQ((boxes[1].top + boxes[1].bottom) / 2, 150);
}

TEST(Labels, OfEndsInOnePlaceDoNotOverlapAndKeepTheirOrder) {
  const box area{0, 0, 300, 300};
  for (const double height : {5.0, 150.0, 290.0}) {
    std::vector<end_label> labels;
    for (int i = 0; i < 12; ++i)
      labels.push_back({{200, height + 0.1 * i}, 60});
    const auto boxes = place_labels(labels, {}, area);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_TRUE(boxes[i].left >= area.left && boxes[i].right <= area.right) << height;
      EXPECT_TRUE(boxes[i].top >= area.top && boxes[i].bottom <= area.bottom) << height;
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(boxes[i].overlaps(boxes[j])) << i << " and " << j << " at " << height;
        EXPECT_LT(boxes[j].top, boxes[i].top) << height;
      }
    }
  }
}

TEST(Labels, OfEndsFarApartInTimeDoNotOverlapEither) {
  const auto boxes = place_labels({{{100, 150}, 120}, {{180, 163}, 60}}, {}, {0, 0, 300, 300});
  EXPECT_FALSE(boxes[0].overlaps(boxes[1]));
}

TEST(Labels, AvoidALineThatPassesTheirEnd) {
  const auto free = place_labels({{{100, 150}, 60}}, {}, {0, 0, 300, 300})[0];
  const auto moved = place_labels({{{100, 150}, 60}}, {{{0, 150}, {300, 150}}}, {0, 0, 300, 300})[0];
  EXPECT_EQ(free.top, 142.5);
  EXPECT_TRUE(moved.bottom <= 150 || moved.top >= 150) << moved.top;
}

TEST(Labels, AreaTooSmallOrNoLabelsAreSurvived) {
  EXPECT_TRUE(place_labels({}, {}, {0, 0, 10, 10}).empty());
  EXPECT_EQ(place_labels({{{5, 5}, 400}, {{5, 5}, 400}}, {{}, {{1, 1}}}, {0, 0, 10, 10}).size(), 2U);
}

} // namespace
} // namespace troupe::apps
