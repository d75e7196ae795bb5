// SPDX-License-Identifier: BSD-3-Clause
// Partitions become tensors: right whatever the order, without a copy where they lie side by side, refused where they cannot be.
#include "actors/roles/assembler.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

kernels::buffer floats(std::int64_t count) {
  auto block = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count));
  return {block, block->data(), block->size() * sizeof(float)};
}

/// The floats of `where` of the tensor 0, 1, 2, ... in a block of their own.
kernels::buffer part(flat_range where, float scale = 1) {
  auto made = floats(where.size());
  for (std::int64_t i = 0; i < where.size(); ++i)
    made.as<float>()[i] = scale * static_cast<float>(where.begin + i);
  return made;
}

/// A part of a block whose first float is float `origin` of the tensor.
kernels::buffer slice_of(const kernels::buffer& block, flat_range where, std::int64_t origin = 0) {
  return block.slice(static_cast<std::size_t>(where.begin - origin) * sizeof(float),
                     static_cast<std::size_t>(where.size()) * sizeof(float));
}

std::vector<float> values(const kernels::buffer& tensor) {
  auto all = tensor.span<const float>();
  return {all.begin(), all.end()};
}

std::vector<float> counting(flat_range whole, float scale = 1) {
  return values(part(whole, scale));
}

class Assembler : public testing::Test {
protected:
  static constexpr flat_range whole{32, 96}; // a shard's: it does not begin at 0
  static constexpr flat_range first{32, 48}, second{48, 80}, third{80, 96};
  int allocations = 0;
  assembler<int> parts{whole, [this](std::size_t bytes) {
                         ++allocations;
                         return floats(static_cast<std::int64_t>(bytes / sizeof(float)));
                       }};
};

TEST_F(Assembler, SlicesOfOneBlockAreJoinedWithoutACopyInAnyOrder) {
  std::vector<flat_range> order{first, second, third};
  do {
    auto block = part(whole);
    for (auto where : order)
      EXPECT_TRUE(parts.add(1, where, slice_of(block, where, whole.begin)));
    auto tensor = parts.take(1);
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->data(), block.data());
    EXPECT_EQ(tensor->bytes(), block.bytes());
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(allocations, 0);
}

TEST_F(Assembler, ABlockThatIsLargerThanTheTensorIsJoinedAtItsPlace) {
  auto model = part({0, 128}); // a worker's gradient, of which this shard takes a range
  for (auto where : {third, first, second})
    parts.add(1, where, slice_of(model, where));
  auto tensor = parts.take(1);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->as<float>(), model.as<float>() + whole.begin);
  EXPECT_EQ(values(*tensor), counting(whole));
}

TEST_F(Assembler, ScatteredPartsAreCopiedToTheirPlacesInAnyOrder) {
  std::vector<flat_range> order{first, second, third};
  do {
    for (auto where : order)
      EXPECT_TRUE(parts.add(1, where, part(where)));
    auto tensor = parts.take(1);
    ASSERT_TRUE(tensor);
    EXPECT_EQ(values(*tensor), counting(whole));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Assembler, SlicesOfOneBlockThatLieInAnotherOrderAreCopied) {
  auto block = floats(64); // third, second, first
  std::int64_t at = 0;
  for (auto where : {third, second, first}) {
    auto here = block.slice(static_cast<std::size_t>(at) * sizeof(float), static_cast<std::size_t>(where.size()) * sizeof(float));
    std::ranges::copy(part(where).span<float>(), here.as<float>());
    parts.add(1, where, here);
    at += where.size();
  }
  EXPECT_EQ(values(parts.take(1).value()), counting(whole));
}

TEST_F(Assembler, PlacedPartsAreJoinedWhereTheyLie) {
  const std::byte* base = nullptr;
  for (auto where : {second, third, first}) {
    auto here = parts.place(1, where);
    ASSERT_EQ(here.bytes(), static_cast<std::size_t>(where.size()) * sizeof(float));
    std::ranges::copy(part(where).span<float>(), here.as<float>());
    if (where == first)
      base = here.data();
    EXPECT_TRUE(parts.add(1, where, here));
  }
  auto tensor = parts.take(1);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->data(), base);
  EXPECT_EQ(values(*tensor), counting(whole));
  EXPECT_EQ(allocations, 1);
}

TEST_F(Assembler, PlacedAndLocalPartsOfOneTensorMixInAnyOrder) {
  for (unsigned placed = 0; placed < 8; ++placed) { // bit i: part i comes over a lane
    std::vector<flat_range> order{first, second, third};
    const auto ranges = order;
    do {
      for (auto where : order) {
        auto i = static_cast<unsigned>(std::ranges::find(ranges, where) - ranges.begin());
        auto data = part(where);
        if ((placed >> i & 1U) != 0) {
          auto here = parts.place(1, where);
          std::ranges::copy(data.span<float>(), here.as<float>());
          data = here;
        }
        EXPECT_TRUE(parts.add(1, where, data));
      }
      auto tensor = parts.take(1);
      ASSERT_TRUE(tensor);
      EXPECT_EQ(values(*tensor), counting(whole));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_F(Assembler, TellsWhatLiesInPlaceSoFar) {
  EXPECT_FALSE(parts.so_far(1).flat);
  EXPECT_TRUE(parts.add(1, third, part(third)));
  EXPECT_FALSE(parts.so_far(1).flat) << "nothing was placed";
  auto here = parts.place(1, first);
  EXPECT_TRUE(parts.so_far(1).there.empty()) << "it is still being read, and the other lies elsewhere";
  std::ranges::copy(part(first).span<float>(), here.as<float>());
  EXPECT_TRUE(parts.add(1, first, here));
  auto [flat, there] = parts.so_far(1);
  EXPECT_EQ(there, (std::vector<flat_range>{first, third}));
  EXPECT_EQ(flat.as<float>()[0], 32);
  EXPECT_EQ(flat.as<float>()[third.end - whole.begin - 1], 95);
  EXPECT_TRUE(parts.add(1, {48, 64}, part({48, 64})));
  EXPECT_EQ(parts.so_far(1).there, (std::vector<flat_range>{{32, 64}, third}));
  EXPECT_FALSE(parts.so_far(2).flat);
  EXPECT_TRUE(parts.add(1, {64, 80}, part({64, 80})));
  EXPECT_EQ(parts.take(1)->data(), flat.data());
}

TEST_F(Assembler, WhatIsThereIsNotPlacedAgain) {
  auto here = parts.place(1, first);
  std::ranges::copy(part(first).span<float>(), here.as<float>());
  EXPECT_EQ(parts.place(1, first).data(), here.data()) << "its lane was lost, and another one brings it";
  EXPECT_TRUE(parts.add(1, first, here));
  for (flat_range overlapping : {first, flat_range{32, 40}, flat_range{40, 56}, whole})
    EXPECT_FALSE(parts.place(1, overlapping));
  EXPECT_TRUE(parts.place(1, second));
}

TEST_F(Assembler, WhatDoesNotFitIsRefused) {
  EXPECT_FALSE(parts.place(1, {0, 48})) << "begins before the tensor";
  EXPECT_FALSE(parts.place(1, {80, 128})) << "ends behind it";
  EXPECT_FALSE(parts.place(1, {48, 48})) << "nothing";
  EXPECT_FALSE(parts.place(1, {64, 48})) << "backwards";
  EXPECT_FALSE(parts.add(1, {0, 48}, part({0, 48})));
  EXPECT_FALSE(parts.add(1, {80, 128}, part({80, 128})));
  EXPECT_FALSE(parts.add(1, {48, 48}, {}));
  EXPECT_FALSE(parts.add(1, second, part(first))) << "a payload of another size";
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(parts.parts(1), 0U);
}

TEST_F(Assembler, WhatOverlapsIsRefusedAndChangesNothing) {
  EXPECT_TRUE(parts.add(1, second, part(second)));
  for (flat_range overlapping : {second, flat_range{32, 64}, flat_range{64, 96}, flat_range{56, 64}, whole})
    EXPECT_FALSE(parts.add(1, overlapping, part(overlapping, -1)));
  EXPECT_EQ(parts.parts(1), 1U);
  EXPECT_FALSE(parts.take(1));
  EXPECT_TRUE(parts.add(1, first, part(first)));
  EXPECT_TRUE(parts.add(1, third, part(third)));
  EXPECT_EQ(values(parts.take(1).value()), counting(whole));
}

TEST_F(Assembler, WhatIsRefusedDoesNotWriteIntoPlacedParts) {
  auto here = parts.place(1, second);
  std::ranges::copy(part(second).span<float>(), here.as<float>());
  EXPECT_TRUE(parts.add(1, second, here));
  EXPECT_FALSE(parts.add(1, whole, part(whole, -1)));
  EXPECT_EQ(values(here), counting(second));
}

TEST_F(Assembler, OnlyWhatIsCompleteCanBeTakenAndOnce) {
  EXPECT_FALSE(parts.take(1));
  parts.add(1, first, part(first));
  parts.add(1, third, part(third));
  EXPECT_FALSE(parts.take(1));
  parts.add(1, second, part(second));
  EXPECT_TRUE(parts.take(1));
  EXPECT_FALSE(parts.take(1));
  EXPECT_EQ(parts.parts(1), 0U);
}

TEST_F(Assembler, TensorsOfSeveralKeysComeTogether) {
  for (auto where : {first, third, second})
    for (int key : {3, 1, 2})
      EXPECT_TRUE(parts.add(key, where, part(where, static_cast<float>(key))));
  for (int key : {1, 2, 3})
    EXPECT_EQ(values(parts.take(key).value()), counting(whole, static_cast<float>(key)));
}

TEST_F(Assembler, WhatIsDroppedBeginsAnew) {
  for (int key : {1, 2, 3}) {
    parts.add(key, first, part(first));
    parts.add(key, second, part(second));
  }
  parts.drop_if([](int key) { return key < 3; });
  EXPECT_EQ(parts.parts(1), 0U);
  EXPECT_EQ(parts.parts(2), 0U);
  EXPECT_EQ(parts.parts(3), 2U);
  parts.add(2, third, part(third));
  EXPECT_FALSE(parts.take(2)) << "the dropped parts must come again";
}

TEST_F(Assembler, WhatALaneStillReadsIntoOutlivesADrop) {
  auto here = parts.place(1, first);
  parts.drop_if([](int) { return true; });
  std::ranges::copy(part(first).span<float>(), here.as<float>()); // AddressSanitizer would see
  EXPECT_TRUE(parts.add(1, first, here));
  parts.add(1, second, part(second));
  parts.add(1, third, part(third));
  EXPECT_EQ(values(parts.take(1).value()), counting(whole));
}

// A lane's thread places and reads what the owner's thread joins, beside what local senders cut: under ThreadSanitizer too.
TEST(AssemblerThreads, ALaneAndTheOwnerWorkOnOneTensorAtATime) {
  constexpr flat_range whole{0, 4096};
  constexpr std::int64_t step = 64;
  constexpr int tensors = 200;
  constexpr std::uint32_t seed = 11;
  assembler<int> parts{whole, [](std::size_t bytes) { return floats(static_cast<std::int64_t>(bytes / sizeof(float))); }};
  std::vector<flat_range> lane, local;
  for (std::int64_t at = 0; at < whole.end; at += step)
    (at / step % 3 == 0 ? local : lane).push_back({at, at + step});
  std::mutex mutex; // stands for the mailbox
  std::vector<std::pair<int, flat_range>> mailbox;
  std::vector<kernels::buffer> payloads;
  std::thread reader([&] {
    std::mt19937 random{seed};
    for (int key = 0; key < tensors; ++key) {
      std::ranges::shuffle(lane, random);
      for (auto where : lane) {
        auto here = parts.place(key, where);
        std::ranges::copy(part(where, static_cast<float>(key + 1)).span<float>(), here.as<float>());
        std::lock_guard guard{mutex};
        mailbox.emplace_back(key, where);
        payloads.push_back(here);
      }
    }
  });
  std::vector<int> wrong;
  int taken = 0, begun = -1;
  auto take = [&](int key) {
    if (auto tensor = parts.take(key)) {
      ++taken;
      if (values(*tensor) != counting(whole, static_cast<float>(key + 1)))
        wrong.push_back(key);
    }
  };
  while (taken < tensors) {
    std::vector<std::pair<int, flat_range>> heads;
    std::vector<kernels::buffer> data;
    {
      std::lock_guard guard{mutex};
      heads.swap(mailbox);
      data.swap(payloads);
    }
    for (std::size_t i = 0; i < heads.size(); ++i) {
      auto [key, where] = heads[i];
      for (; begun < key; ++begun)
        for (auto mine : local)
          EXPECT_TRUE(parts.add(begun + 1, mine, part(mine, static_cast<float>(begun + 2))));
      EXPECT_TRUE(parts.add(key, where, data[i]));
      take(key);
    }
  }
  reader.join();
  EXPECT_TRUE(wrong.empty()) << "seed " << seed << ", first wrong tensor " << wrong.front();
}

} // namespace
} // namespace troupe::actors
