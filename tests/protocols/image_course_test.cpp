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
void expect(const image_course::step& step, std::optional<version> base, const std::vector<worker_id>& coded,
            const std::vector<worker_id>& whole) {
  EXPECT_TRUE(step.moves);
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
  expect(course.on(order_of(0, {w(0), w(1)})), {}, {}, {w(0), w(1)});
  expect(course.on(order_of(1, {w(0), w(1)})), v(0), {w(0), w(1)}, {});
}

TEST(ImageCourse, VersionsThatWereSentToNobodyAreLeftOut) {
  image_course course;
  course.on(order_of(0, {w(0)}));
  expect(course.on(order_of(5, {w(0)})), v(0), {w(0)}, {});
}

TEST(ImageCourse, WhoWasLeftOutIsGivenAllOfIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  course.on(order_of(1, {w(0)}));
  expect(course.on(order_of(2, {w(0), w(1)})), v(1), {w(0)}, {w(1)});
  expect(course.on(order_of(3, {w(0), w(1)})), v(2), {w(0), w(1)}, {});
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

// Another life of a worker has nothing, and comes with a plan. The image moves as without one.
TEST(ImageCourse, AfterANewPlanEveryoneIsGivenAllOfIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  expect(course.on(order_of(1, {w(0), w(1)}, 2)), {}, {}, {w(0), w(1)});
  expect(course.on(order_of(2, {w(0), w(1)}, 2)), v(1), {w(0), w(1)}, {});
}

TEST(ImageCourse, WhoComesLaterBuildsOnWhatItHas) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  expect(course.on(order_of(1, {w(2)})), {}, {}, {w(2)});
  const auto later = course.on(order_of(1, {w(0)}));
  EXPECT_FALSE(later.moves);
  EXPECT_EQ(later.sendings.at(0).base, v(0));

  auto step = course.on(order_of(2, {w(0)}));
  EXPECT_EQ(step.sendings.at(0).base, v(1));
  course.cannot_build(step);
  EXPECT_FALSE(course.on(order_of(2, {w(2)})).sendings.at(0).base) << "it has become the version itself";
}

// A lead that has taken over may repeat one from before the newest version.
TEST(ImageCourse, AnOlderOrderDoesNotMoveIt) {
  image_course course;
  course.on(order_of(0, {w(0), w(1)}));
  course.on(order_of(1, {w(0), w(1)}));
  const auto again = course.on(order_of(0, {w(0)}));
  EXPECT_FALSE(again.moves);
  EXPECT_EQ(course.image(), v(1));
  expect(course.on(order_of(2, {w(0), w(1)})), v(1), {w(1)}, {w(0)});
}

// A backup's image is its shard's; whoever was sent something was sent it by another one.
TEST(ImageCourse, ABackupsMovesAsItsShardsAndSendsNothing) {
  image_course shard, backup;
  for (const auto& order : {order_of(0, {w(0), w(1)}), order_of(1, {evaluator}), order_of(1, {w(1)}), order_of(1, {w(0)}),
                            order_of(2, {w(0), w(1)}, 2)}) {
    const auto sent = shard.on(order), followed = backup.follow(order);
    EXPECT_EQ(followed.moves, sent.moves);
    EXPECT_THAT(followed.sendings, IsEmpty());
    EXPECT_EQ(backup.image(), shard.image());
  }
  const auto again = backup.on(order_of(2, {w(0), w(1)}, 2)); // in its shard's place
  EXPECT_FALSE(again.moves);
  ASSERT_EQ(again.sendings.size(), 1U);
  EXPECT_FALSE(again.sendings[0].base);
  expect(backup.on(order_of(3, {w(0), w(1)}, 2)), v(2), {w(0), w(1)}, {});
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
  expect(course.on(order_of(3, {w(0), w(1)})), v(2), {w(0), w(1)}, {});
}

// A run that goes on from a checkpoint: its workers are new, and the image moves as in the unbroken one.
TEST(ImageCourse, WhereItGoesOnItMovesByACodeThatNobodyBuildsOn) {
  image_course course;
  EXPECT_FALSE(course.image());
  course.resume(v(3));
  EXPECT_EQ(course.image(), v(3));
  course.on(order_of(4, {evaluator}));
  expect(course.on(order_of(4, {w(0), w(1)})), {}, {}, {w(0), w(1)});
  expect(course.on(order_of(5, {w(0), w(1)})), v(4), {w(0), w(1)}, {});
  EXPECT_EQ(course.image(), v(5));
}

TEST(ImageCourse, TheEvaluatorIsNoWorker) {
  image_course course;
  course.on(order_of(0, {w(0)}));
  const auto evaluated = course.on(order_of(1, {evaluator}));
  EXPECT_FALSE(evaluated.moves);
  EXPECT_THAT(evaluated.sendings, IsEmpty());
  expect(course.on(order_of(1, {w(0)})), v(0), {w(0)}, {});
}

TEST(ImageCourse, AnOrderToBothIsAsToTheWorkers) {
  image_course course;
  expect(course.on(order_of(1, {w(0), evaluator})), {}, {}, {w(0)});
}

} // namespace
} // namespace troupe::protocols
