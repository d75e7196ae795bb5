// SPDX-License-Identifier: BSD-3-Clause
// What workers have of parameters that travel encoded: the shard's image and theirs are the same bits, whoever misses what.
#include "actors/roles/codec/parameters_image.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/job.hpp"
#include "kernels/codec.hpp"

namespace troupe::actors {
namespace {

using protocols::evaluator;
using protocols::send_order;
using protocols::version;
using protocols::worker_id;
using testing::HasSubstr;

constexpr std::int64_t floats = 2048;
constexpr const char* forms[] = {"fp16", "bf16", "int8", "int4", "onebit"};

kernels::buffer bytes_of(std::size_t bytes) {
  auto block = std::make_shared<std::vector<float>>((bytes + 3) / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  return {block, block->data(), bytes};
}
kernels::buffer block_of(const std::vector<float>& values) {
  auto out = bytes_of(values.size() * sizeof(float));
  std::ranges::copy(values, out.span<float>().begin());
  return out;
}
std::vector<float> values_of(const kernels::buffer& block) {
  const auto all = block.span<const float>();
  return {all.begin(), all.end()};
}
std::vector<float> drawn(std::mt19937& dice, float most) {
  std::vector<float> out(floats);
  for (float& each : out)
    each = most * (static_cast<float>(dice() >> 8U) * 0x1p-23F - 1);
  return out;
}
kernels::form form_of(const std::string& name) {
  return codec_spec{.params = name}.params_form();
}
encoded_parameters shard_of(const std::string& form) {
  return {form_of(form), 7, {0, floats}, cut_into_partitions({0, floats}, 512 * sizeof(float)), bytes_of};
}
bool is_code(const encoded_parameters::sending& what) {
  return what.parts.front().as != kernels::form::fp32;
}
send_order order_of(std::uint64_t ver, std::vector<worker_id> to, std::uint32_t epoch = 1) {
  return {.epoch = {epoch}, .ver = {ver}, .to = std::move(to)};
}

/// A worker, and all that it was sent.
struct worker {
  explicit worker(const std::string& form) : image(form_of(form), floats) {}

  void take(version ver, const encoded_parameters::sending& what) {
    for (const auto& each : what.parts) {
      const auto wrong = image.take(
          each.where, ver, each.as, each.base, each.data.span<const std::byte>(),
          std::span{now}.subspan(static_cast<std::size_t>(each.where.begin), static_cast<std::size_t>(each.where.size())));
      ASSERT_FALSE(wrong) << *wrong;
    }
  }
  decoded_parameters image;
  std::vector<float> now = std::vector<float>(floats);
};

// Whoever is left out, dies and comes back, all who were sent a version have its bits, and they are not far from it.
TEST(ParametersImage, AllWhoAreSentAVersionHaveTheSameBitsWhateverTheyMissed) {
  for (const char* form : forms)
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      std::mt19937 dice(seed);
      auto shard = shard_of(form);
      std::vector<worker> workers(4, worker(form));
      auto newest = drawn(dice, 1);
      std::uint32_t epoch = 1;
      for (std::uint64_t ver = 1; ver <= 60; ++ver) {
        const auto step = drawn(dice, 0.01F);
        std::ranges::transform(newest, step, newest.begin(), std::plus{});
        if (dice() % 12 == 0) { // a new plan, and another life
          ++epoch;
          workers[dice() % 4] = worker(form);
        }
        std::vector<worker_id> to;
        for (std::uint32_t i = 0; i < 4; ++i)
          if (dice() % 4 != 0)
            to.push_back({i});
        if (to.empty())
          continue;
        for (const auto& sending : shard.on(order_of(ver, to, epoch), block_of(newest)))
          for (const worker_id who : sending.to)
            workers[who.value].take({ver}, sending);
        for (const worker_id who : to)
          ASSERT_EQ(workers[who.value].now, values_of(shard.image())) << form << ", version " << ver << ", worker " << who.value;
        for (std::size_t i = 0; i < newest.size(); ++i)
          ASSERT_NEAR(workers[to.front().value].now[i], newest[i], 0.3) << form;
      }
    }
}

// The differences go along until they are sent: once the parameters rest, the image comes to them.
TEST(ParametersImage, WhatACodeLosesIsInTheNextDifference) {
  for (const char* form : forms) {
    std::mt19937 dice(3);
    auto shard = shard_of(form);
    shard.on(order_of(1, {{0}}), block_of(drawn(dice, 1)));
    const auto rests = drawn(dice, 1);
    double first = 0, last = 0;
    for (std::uint64_t ver = 2; ver <= 40; ++ver) {
      shard.on(order_of(ver, {{0}}), block_of(rests));
      last = 0;
      const auto image = values_of(shard.image());
      for (std::size_t i = 0; i < rests.size(); ++i)
        last += std::abs(static_cast<double>(image[i]) - static_cast<double>(rests[i]));
      first = ver == 2 ? last : first;
    }
    EXPECT_LE(last, 0.2 * first) << form;
  }
}

// Some elements move at each version, sometimes nearly all: then they travel as they are.
TEST(ParametersImage, OfWhatHasChangedAllWhoAreSentItHaveTheVersionItself) {
  std::mt19937 dice(9);
  auto shard = shard_of("changed");
  std::vector<worker> workers(3, worker("changed"));
  auto newest = drawn(dice, 1);
  std::size_t codes = 0, wholes = 0;
  for (std::uint64_t ver = 1; ver <= 80; ++ver) {
    const std::uint32_t of = ver % 7 == 0 ? 1 : 1 + dice() % 400;
    for (float& each : newest)
      if (dice() % of == 0)
        each = static_cast<float>(dice() >> 8U) * 0x1p-23F - 1;
    if (ver == 40)
      newest[3] = std::numeric_limits<float>::infinity();
    std::vector<worker_id> to{{0}};
    for (const std::uint32_t i : {1U, 2U})
      if (dice() % 3 != 0)
        to.push_back({i});
    for (const auto& sending : shard.on(order_of(ver, to), block_of(newest))) {
      for (const auto& part : sending.parts)
        ++(part.as == kernels::form::sparse_fp32 ? codes : wholes);
      for (const worker_id who : sending.to)
        workers[who.value].take({ver}, sending);
    }
    for (const worker_id who : to)
      ASSERT_EQ(workers[who.value].now, newest) << "version " << ver << ", worker " << who.value;
  }
  EXPECT_GT(codes, 100U);
  EXPECT_GT(wholes, 50U);
}

// A lane behind which much waits cuts what is not encoded.
TEST(ParametersImage, WhatIsWholeMayComeInPieces) {
  for (const char* form : {"int8", "changed"}) {
    std::mt19937 dice(4);
    auto shard = shard_of(form);
    worker whole(form), pieces(form);
    auto newest = drawn(dice, 1);
    for (std::uint64_t ver = 1; ver <= 4; ++ver) {
      newest[600] += 0.125F;
      for (const auto& sending : shard.on(order_of(ver, {{0}, {1}}, ver < 3 ? 1 : 2), block_of(newest))) {
        whole.take({ver}, sending);
        auto cut = sending;
        cut.parts.clear();
        for (const auto& each : sending.parts) {
          if (each.as != kernels::form::fp32) {
            cut.parts.push_back(each);
            continue;
          }
          const std::int64_t middle = each.where.begin + 16 * static_cast<std::int64_t>(1 + dice() % 31);
          const auto bytes = static_cast<std::size_t>(middle - each.where.begin) * sizeof(float);
          for (const auto& [part, data] :
               {std::pair{flat_range{middle, each.where.end}, each.data.slice(bytes, each.data.bytes() - bytes)},
                {flat_range{each.where.begin, middle}, each.data.slice(0, bytes)}}) {
            cut.parts.push_back(each);
            cut.parts.back().where = part;
            cut.parts.back().data = data;
          }
        }
        pieces.take({ver}, cut);
      }
      ASSERT_EQ(pieces.now, whole.now) << form << ", version " << ver;
    }
  }
}

// Half of them at another version are not the version.
TEST(ParametersImage, ACodeBuildsOnAllOfItsRange) {
  std::mt19937 dice(6);
  auto shard = shard_of("changed");
  worker own("changed");
  const auto first = drawn(dice, 1);
  auto second = first;
  second[10] = 5;
  shard.on(order_of(1, {{0}}), block_of(first));
  const auto code = shard.on(order_of(2, {{0}}), block_of(second)).front().parts.front();
  ASSERT_TRUE(kernels::is_sparse(code.as));
  std::vector<float> out(512);
  const auto give = [&](flat_range where, std::uint64_t ver) {
    const auto begin = static_cast<std::size_t>(where.begin) * sizeof(float),
               bytes = static_cast<std::size_t>(where.size()) * sizeof(float);
    return own.image.take(where, {ver}, kernels::form::fp32, {}, block_of(first).slice(begin, bytes).span<const std::byte>(),
                          std::span{out}.first(static_cast<std::size_t>(where.size())));
  };
  const auto take = [&] {
    return own.image.take(code.where, {2}, code.as, code.base, code.data.span<const std::byte>(), out).value_or("taken");
  };
  give({0, 256}, 1);
  EXPECT_THAT(take(), HasSubstr("which is not here")) << "the other half never came";
  give({256, 512}, 7);
  EXPECT_THAT(take(), HasSubstr("which is not here")) << "it is of another version";
  give({256, 512}, 1);
  EXPECT_EQ(take(), "taken");
  EXPECT_EQ(out[10], 5);
}

TEST(ParametersImage, TheFirstUnderAPlanAreWhole) {
  std::mt19937 dice(1);
  auto shard = shard_of("onebit");
  for (const auto& [ver, epoch] : {std::pair{1U, 1U}, {2, 1}, {3, 2}, {4, 2}}) {
    const auto version = block_of(drawn(dice, 1));
    const auto sent = shard.on(order_of(ver, {{0}, {1}}, epoch), version);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(is_code(sent.front()), ver == 2 || ver == 4);
    EXPECT_EQ(values_of(shard.image()) == values_of(version), ver == 1) << ver;
  }
}

TEST(ParametersImage, AVersionThatIsHandedOutIsNotWrittenTo) {
  std::mt19937 dice(1);
  auto shard = shard_of("int8");
  const auto first = block_of(drawn(dice, 1));
  const auto before = values_of(first);
  const auto sent = shard.on(order_of(1, {{0}}), first);
  shard.on(order_of(2, {{0}}), block_of(drawn(dice, 1)));
  EXPECT_EQ(values_of(first), before);
  const auto whole = shard.on(order_of(3, {{0}, {1}}), block_of(drawn(dice, 1))).back();
  ASSERT_FALSE(is_code(whole));
  const auto handed_out = values_of(whole.parts.front().data);
  shard.on(order_of(4, {{0}, {1}}), block_of(drawn(dice, 1)));
  EXPECT_EQ(values_of(whole.parts.front().data), handed_out);
}

TEST(ParametersImage, WhatIsNotFiniteGoesAsItIs) {
  auto shard = shard_of("int4");
  shard.on(order_of(1, {{0}}), block_of(std::vector<float>(floats, 1)));
  auto diverged = std::vector<float>(floats, 2);
  diverged[700] = std::numeric_limits<float>::infinity();
  const auto sent = shard.on(order_of(2, {{0}}), block_of(diverged));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_FALSE(is_code(sent.front()));
  EXPECT_EQ(values_of(shard.image()), diverged);
  const auto again = shard.on(order_of(2, {{1}}), block_of(diverged));
  EXPECT_FALSE(is_code(again.front()));
}

/// A run that goes on from a checkpoint sends its new workers what the unbroken one's have by then.
TEST(ParametersImage, OneThatGoesOnMovesAsTheUnbrokenOne) {
  for (const std::string form : forms) {
    std::mt19937 dice(3);
    auto unbroken = shard_of(form), resumed = shard_of(form);
    for (std::uint64_t ver = 0; ver < 5; ++ver)
      unbroken.on(order_of(ver, {{0}, {1}}), block_of(drawn(dice, 1)));
    resumed.resume(saved_state{.image = unbroken.image(), .image_ver = {4}});
    worker fresh(form);
    for (std::uint64_t ver = 5; ver < 8; ++ver) {
      const auto now = block_of(drawn(dice, 1));
      unbroken.on(order_of(ver, {{0}, {1}}), now);
      const auto sendings = resumed.on(order_of(ver, {{0}, {1}}), now);
      ASSERT_EQ(sendings.size(), 1U);
      EXPECT_EQ(is_code(sendings[0]), ver > 5);
      fresh.take({ver}, sendings[0]);
      EXPECT_EQ(values_of(resumed.image()), values_of(unbroken.image())) << form << ", version " << ver;
      EXPECT_EQ(fresh.now, values_of(unbroken.image())) << form << ", version " << ver;
    }
  }
}

/// In its shard's place it goes on with the bits that workers have, and sends them whole first.
TEST(ParametersImage, ABackupHasTheImageOfItsShard) {
  for (const std::string form : forms) {
    std::mt19937 dice(8);
    auto undisturbed = shard_of(form), backup = shard_of(form);
    worker own(form);
    for (std::uint64_t ver = 0; ver < 8; ++ver) {
      const auto now =
          ver == 3 ? block_of(std::vector<float>(floats, std::numeric_limits<float>::infinity())) : block_of(drawn(dice, 1));
      const auto order = order_of(ver, {{0}, {1}}, ver < 5 ? 1 : 2);
      const auto sent = undisturbed.on(order, now);
      if (ver < 5) {
        backup.follow(order, now);
        own.take({ver}, sent.at(0));
      } else {
        const auto instead = backup.on(order, now);
        ASSERT_EQ(instead.size(), 1U);
        EXPECT_EQ(is_code(instead[0]), ver > 5);
        own.take({ver}, instead[0]);
        EXPECT_EQ(own.now, values_of(undisturbed.image())) << form << ", version " << ver;
      }
      EXPECT_EQ(values_of(backup.image()), values_of(undisturbed.image())) << form << ", version " << ver;
    }
  }
}

/// What has changed is the version itself: a backup needs to know of none before.
TEST(ParametersImage, WhoseImageIsTheVersionFollowsNobody) {
  std::mt19937 dice(8);
  auto backup = shard_of("changed");
  backup.follow(order_of(1, {{0}}), block_of(drawn(dice, 1)));
  EXPECT_FALSE(backup.image());
  EXPECT_FALSE(is_code(backup.on(order_of(2, {{0}}), block_of(drawn(dice, 1))).at(0)));
}

/// What has changed is the version itself, of which a checkpoint has every bit.
TEST(ParametersImage, WhoseImageIsTheVersionGoesOnFromThat) {
  std::mt19937 dice(4);
  auto shard = shard_of("changed");
  shard.resume(saved_state{.image = block_of(drawn(dice, 1)), .image_ver = {1}}); // of a run with another codec
  const auto now = block_of(drawn(dice, 1));
  auto sendings = shard.on(order_of(2, {{1}}), now);
  ASSERT_EQ(sendings.size(), 1U);
  EXPECT_FALSE(is_code(sendings[0]));
  EXPECT_EQ(values_of(shard.image()), values_of(now));
}

TEST(ParametersImage, TheEvaluatorIsNoWorker) {
  auto shard = shard_of("int4");
  EXPECT_TRUE(shard.on(order_of(1, {evaluator}), block_of(std::vector<float>(floats, 1))).empty());
}

// The number of shards changes no bit.
TEST(ParametersImage, CodesGoByTheirPlaceAlone) {
  std::mt19937 dice(5);
  const auto first = drawn(dice, 1), second = drawn(dice, 1);
  for (const char* form : forms) {
    auto whole = shard_of(form);
    whole.on(order_of(1, {{0}}), block_of(first));
    whole.on(order_of(2, {{0}}), block_of(second));
    const std::size_t at = 1024;
    encoded_parameters half{form_of(form), 7, {at, floats}, {{at, floats}}, bytes_of};
    half.on(order_of(1, {{0}}), block_of({first.begin() + at, first.end()}));
    half.on(order_of(2, {{0}}), block_of({second.begin() + at, second.end()}));
    const auto all = values_of(whole.image());
    EXPECT_EQ(values_of(half.image()), std::vector(all.begin() + at, all.end())) << form;
  }
}

/// Of worker 0, at version 2 of int8 codes: what comes next, of one partition.
struct Refused : testing::Test {
  Refused() {
    std::mt19937 dice(2);
    for (std::uint64_t ver = 1; ver <= 3; ++ver) {
      sent = shard.on(order_of(ver, {{0}}), block_of(drawn(dice, 1))).front();
      if (ver < 3)
        own.take({ver}, sent);
    }
  }
  std::string why(flat_range where, kernels::form as, std::uint64_t base, const kernels::buffer& bytes) {
    std::vector<float> out(static_cast<std::size_t>(where.size()));
    return own.image.take(where, {3}, as, {base}, bytes.span<const std::byte>(), out).value_or("taken");
  }
  encoded_parameters shard = shard_of("int8");
  worker own{"int8"};
  encoded_parameters::sending sent;
  flat_range where{512, 1024};
};

TEST_F(Refused, WhatBuildsOnAnotherVersionIsOfAnotherFormOrSizeOrNotFinite) {
  const auto& code = sent.parts[1].data;
  ASSERT_EQ(sent.parts[1].where, where);
  EXPECT_THAT(why(where, kernels::form::int8, 1, code), HasSubstr("build on version 1, which is not here"));
  EXPECT_THAT(why({512, 768}, kernels::form::int8, 2, bytes_of(kernels::encoded_bytes(kernels::form::int8, {512, 256}))),
              testing::AnyOf(HasSubstr("not as this job encodes them"), HasSubstr("which is not here")));
  EXPECT_THAT(why(where, kernels::form::int4, 2, bytes_of(kernels::encoded_bytes(kernels::form::int4, {512, 512}))),
              HasSubstr("not as this job encodes them"));
  EXPECT_THAT(why(where, kernels::form::int8, 2, code.slice(0, code.bytes() - 8)), HasSubstr("not of this model"));
  EXPECT_THAT(why({2048, 2560}, kernels::form::int8, 2, code), HasSubstr("not of this model"));
  auto broken = block_of(std::vector<float>(code.bytes() / sizeof(float)));
  std::memcpy(broken.data(), code.data(), code.bytes());
  broken.span<float>()[0] = std::numeric_limits<float>::quiet_NaN(); // a scale
  EXPECT_THAT(why(where, kernels::form::int8, 2, broken), HasSubstr("not as this job encodes them"));
  EXPECT_EQ(why(where, kernels::form::int8, 2, code), "taken");
  EXPECT_THAT(why(where, kernels::form::int8, 2, code), HasSubstr("build on version 2")) << "it is at 3 now";
}

} // namespace
} // namespace troupe::actors
