// SPDX-License-Identifier: BSD-3-Clause
// Who may build on what, where parameters travel encoded.
#include "protocols/binding/image_course.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

send_order order_of(std::uint64_t ver, std::vector<worker_id> to, std::uint32_t epoch = 1) {
  return {.epoch = e(epoch), .ver = v(ver), .to = std::move(to)};
}
/// Coded to these, whole to those.
void expect(const image_course::step& step, bool exact, std::optional<version> base, const std::vector<worker_id>& coded,
            const std::vector<worker_id>& whole) {
  EXPECT_TRUE(step.moves);
  EXPECT_EQ(step.exact, exact);
  std::vector<worker_id> builds, starts;
  for (const auto& each : step.sendings) {
    EXPECT_FALSE(each.to.empty());
    (each.base ? builds : starts).insert((each.base ? builds : starts).end(), each.to.begin(), each.to.end());
    if (each.base) {
      EXPECT_EQ(each.base, base);
    }
  }
  EXPECT_EQ(builds, coded);
  EXPECT_EQ(starts, whole);
}

TEST(ImageCourse, TheFirstIsWholeAndWhoHasItBuildsOnIt) {
  image_course course;
  expect(course.on(order_of(0, {w(0), w(1)})), true, {}, {}, {w(0), w(1)});
  expect(course.on(order_of(1, {w(0), w(1)})), false, v(0), {w(0), w(1)}, {});
}

TEST(ImageCourse, VersionsThatWereSentToNobodyAreLeftOut) {
  image_course course;
  course.on(order_of(0, {w(0)}));
  expect(course.on(order_of(5, {w(0)})), false, v(0), {w(0)}, {});
}

TEST(ImageCourse, WhoWasLeftOutIsGivenAllOfIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  course.on(order_of(1, {w(0)}));
  expect(course.on(order_of(2, {w(0), w(1)})), false, v(1), {w(0)}, {w(1)});
  expect(course.on(order_of(3, {w(0), w(1)})), false, v(2), {w(0), w(1)}, {});
}

TEST(ImageCourse, AVersionThatIsSentAgainDoesNotMove) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  course.on(order_of(1, {w(0)}));
  const auto later = course.on(order_of(1, {w(1)}));
  EXPECT_FALSE(later.moves);
  ASSERT_EQ(later.sendings.size(), 1U);
  EXPECT_EQ(later.sendings[0].base, v(0)) << "it has what the code builds on";
  const auto again = course.on(order_of(1, {w(1)}));
  ASSERT_EQ(again.sendings.size(), 1U);
  EXPECT_FALSE(again.sendings[0].base) << "it has been moved already";
}

// Another life of a worker has nothing, and comes with a plan.
TEST(ImageCourse, AfterANewPlanItIsTheVersionItself) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  expect(course.on(order_of(1, {w(0), w(1)}, 2)), true, {}, {}, {w(0), w(1)});
  expect(course.on(order_of(2, {w(0), w(1)}, 2)), false, v(1), {w(0), w(1)}, {});
}

// Who could have built on the image before has no code to do it by.
TEST(ImageCourse, WhereItHasBecomeTheVersionItselfNobodyBuildsOnIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  expect(course.on(order_of(1, {w(2)})), true, {}, {}, {w(2)});
  const auto later = course.on(order_of(1, {w(0)}));
  ASSERT_EQ(later.sendings.size(), 1U);
  EXPECT_FALSE(later.sendings[0].base);

  auto step = course.on(order_of(2, {w(0)}));
  EXPECT_EQ(step.sendings.at(0).base, v(1));
  course.cannot_build(step);
  EXPECT_FALSE(course.on(order_of(2, {w(2)})).sendings.at(0).base);
}

TEST(ImageCourse, WithoutACodeEveryoneIsGivenAllOfIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  course.on(order_of(1, {w(0)}));
  auto step = course.on(order_of(2, {w(0), w(1)}));
  course.cannot_build(step);
  for (const auto& each : step.sendings)
    EXPECT_FALSE(each.base);
  EXPECT_FALSE(course.on(order_of(2, {w(0)})).sendings[0].base);
  expect(course.on(order_of(3, {w(0), w(1)})), false, v(2), {w(0), w(1)}, {});
}

// A run that goes on from a checkpoint: its workers are new, and the image moves as in the unbroken one.
TEST(ImageCourse, WhereItGoesOnItMovesByACodeThatNobodyBuildsOn) {
  image_course course;
  EXPECT_FALSE(course.image());
  course.resume(v(3));
  EXPECT_EQ(course.image(), v(3));
  course.on(order_of(4, {evaluator}));
  expect(course.on(order_of(4, {w(0), w(1)})), false, {}, {}, {w(0), w(1)});
  expect(course.on(order_of(5, {w(0), w(1)})), false, v(4), {w(0), w(1)}, {});
  expect(course.on(order_of(6, {w(0), w(1)}, 2)), true, {}, {}, {w(0), w(1)});
  EXPECT_EQ(course.image(), v(6));
}

TEST(ImageCourse, TheEvaluatorIsNoWorker) {
  image_course course;
  course.on(order_of(0, {w(0)}));
  const auto evaluated = course.on(order_of(1, {evaluator}));
  EXPECT_FALSE(evaluated.moves);
  EXPECT_THAT(evaluated.sendings, IsEmpty());
  expect(course.on(order_of(1, {w(0)})), false, v(0), {w(0)}, {});
}

TEST(ImageCourse, AnOrderToBothIsAsToTheWorkers) {
  image_course course;
  expect(course.on(order_of(1, {w(0), evaluator})), true, {}, {}, {w(0)});
}

} // namespace
} // namespace troupe::protocols
