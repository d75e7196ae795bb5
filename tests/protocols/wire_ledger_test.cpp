// SPDX-License-Identifier: BSD-3-Clause
// Decisions about jobs as bytes: every field travels, the bytes stay what they were, and no byte is trusted.
#include "protocols/wire/ledger.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocols/random_stream.hpp"
#include "tests/protocols/allocations.hpp"

namespace troupe::protocols::wire {
namespace {

using words = std::vector<std::uint64_t>;
constexpr std::uint64_t most_number = std::numeric_limits<std::uint64_t>::max();
const std::string golden_ledger = std::string(TROUPE_SOURCE_DIR) + "/tests/protocols/wire_ledger_golden.txt";
const ledger::bytes some{std::byte{0}, std::byte{255}, std::byte{7}};

const plan plan_of_three{.epoch = {7},
                         .workers = {{{0}, {2}}, {{3}, {}}, {{4}, {5}}},
                         .protocol = {.name = "easgd", .fan_in = 2, .parameters = {{"a", true}, {"d", std::string{"nesterov"}}}},
                         .period = 4,
                         .batch = 64,
                         .data_size = 60'000,
                         .lr_scale = 0.5};

/// Each kind of entry, in which every field differs from its default.
std::vector<std::pair<std::string, ledger::entry>> entries() {
  return {{"submitted", ledger::submitted{most_number, true, some, 17}},
          {"started", ledger::started{2, 0xffff'ffff, {"a", "", "node-12"}, most_number}},
          {"ended", ledger::ended{3, ledger::ending::interrupted, "its client is gone", some}},
          {"forgotten", ledger::forgotten{4}},
          {"planned", ledger::planned{5, 2, plan_of_three}},
          {"incarnated", ledger::incarnated{6, 3, true, 7, 8}},
          {"promoted", ledger::promoted{7, 4, {1}, {5}, 6}},
          {"holder_lost", ledger::holder_lost{8, 5, {9}}},
          {"checkpointed", ledger::checkpointed{9, 6, {40}}},
          {"placed", ledger::placed{10, 7, {11}, {1}, 2}},
          {"copied", ledger::copied{11, 8, {12}}}};
}
const ledger::course course{.key = 77,
                            .plan = plan_of_three,
                            .nodes = {{1, {2}}, {3, {1}}},
                            .workers = {{{4}, {5}}},
                            .acting = {{{1}, {3}}},
                            .gone = {{3}, {6}},
                            .view = 2,
                            .checkpoints = {{10}, {20}},
                            .copies = {{{8}, {{1}, 2, true}}},
                            .first_copy = {7},
                            .newest_copy = {9}};
const ledger::state whole{
    9,
    {{1, {true, some, 3, {"a", "b"}, ledger::job_end{ledger::ending::failed, "no workers are left", some}, 12, course}},
     {9, {false, {}, 0, {}, {}}}}};

std::string in_hex(const words& all) {
  std::string out;
  for (const std::uint64_t each : all)
    out += fmt::format("{}{:016x}", out.empty() ? "" : " ", each);
  return out;
}
std::string golden_text() {
  std::string out =
      "# SPDX-License-Identifier: BSD-3-Clause\n"
      "# Words of each kind of decision about a job, and of a ledger, as tests/protocols/wire_ledger_test.cpp names them.\n"
      "# A change here breaks journals of another build. Rewritten by TROUPE_REWRITE_GOLDEN=1 protocols_test.\n";
  for (const auto& [name, each] : entries())
    out += fmt::format("{}: {}\n", name, in_hex(encode(each)));
  return out + fmt::format("state: {}\n", in_hex(encode(whole)));
}

TEST(WireLedger, CarriesEveryField) {
  for (const auto& [name, each] : entries())
    EXPECT_EQ(decode_ledger_entry(encode(each)).value(), each) << name;
  EXPECT_EQ(decode_ledger(encode(whole)).value(), whole);
  EXPECT_EQ(decode_ledger(encode(ledger::state{})).value(), ledger::state{});
}

TEST(WireLedger, BytesAreWhatTheyAlwaysWere) {
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    std::ofstream(golden_ledger) << golden_text();
  std::ifstream file(golden_ledger);
  EXPECT_EQ(golden_text(), std::string(std::istreambuf_iterator<char>(file), {})) << golden_ledger;
}

TEST(WireLedger, AFullOneFitsAMessage) {
  ledger::state full;
  constexpr std::uint32_t roles = 12;
  for (ledger::job_number number = 1; ledger::no_room_for(full, ledger::submitted{number, true, {}, roles}).empty(); ++number) {
    ASSERT_TRUE(ledger::apply(full, ledger::submitted{number, true, {}, roles}));
    ASSERT_TRUE(ledger::apply(full, ledger::started{number, 1, std::vector<std::string>(60, "x"), most_number}));
    ledger::planned plan{number, 1, {.epoch = {1}}};
    plan.plan.protocol.parameters["texts"] = std::vector<std::string>(24, "text");
    for (std::uint32_t i = 0; i < roles; ++i) {
      plan.plan.workers.push_back({{i}, {9}});
      ASSERT_TRUE(ledger::apply(full, ledger::incarnated{number, 1, true, i, 9}));
      ASSERT_TRUE(ledger::apply(full, ledger::incarnated{number, 1, false, i, 9}));
      ASSERT_TRUE(ledger::apply(full, ledger::promoted{number, 1, {i + 1}, {i + roles}, 0}));
      ASSERT_TRUE(ledger::apply(full, ledger::placed{number, 1, {i + 3 * roles}, {i}, i}));
    }
    ASSERT_TRUE(ledger::apply(full, plan));
    for (std::uint64_t i = 1; i <= ledger::most_checkpoints; ++i)
      ASSERT_TRUE(ledger::apply(full, ledger::checkpointed{number, 1, {i}}));
    ASSERT_TRUE(ledger::apply(
        full, ledger::ended{number, ledger::ending::done, std::string(500, 'x'), ledger::bytes(ledger::most_of_end - 500)}));
  }
  EXPECT_LT(encode(full).size() * sizeof(std::uint64_t), 1U << 20U);
  EXPECT_EQ(decode_ledger(encode(full)).value(), full);
}

TEST(WireLedger, CutShortIsRefused) {
  const auto all = encode(whole);
  for (std::size_t size = 0; size < all.size(); ++size)
    EXPECT_FALSE(decode_ledger({all.data(), size})) << size;
  for (const auto& [name, each] : entries()) {
    const auto one = encode(each);
    for (std::size_t size = 0; size < one.size(); ++size) {
      const auto cut = decode_ledger_entry({one.data(), size});
      ASSERT_FALSE(cut) << name << ", " << size;
      EXPECT_TRUE(cut.error().text.starts_with("a decision about a job cannot be read: "));
    }
  }
}

// Flips bits: what comes out is an error with a reason, or something that a ledger takes or ignores.
TEST(WireLedger, FlippedBitsNeverDoHarm) {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
  std::cout << "seed " << seed << " (TROUPE_TEST_SEED)\n";
  const auto all = entries();
  random_stream draw{seed};
  std::size_t refused = 0, most_allocated = 0;
  for (int round = 0; round < 10'000; ++round) {
    const bool entry = draw.below(2) == 0;
    auto bad = entry ? encode(all[draw.below(all.size())].second) : encode(whole);
    for (std::uint64_t flips = 1 + draw.below(4); flips > 0; --flips)
      bad[draw.below(bad.size())] ^= std::uint64_t{1} << draw.below(64);
    const std::size_t before = troupe::test::allocated_bytes();
    const auto one = decode_ledger_entry(bad);
    const auto many = decode_ledger(bad);
    most_allocated = std::max(most_allocated, troupe::test::allocated_bytes() - before);
    refused += !one && !many ? 1 : 0;
    ledger::state now = many && ledger::sound(*many) ? *many : whole;
    if (one && ledger::sound(now)) {
      ledger::apply(now, *one);
      EXPECT_TRUE(ledger::sound(now));
    }
    if (many) {
      EXPECT_EQ(encode(decode_ledger(encode(*many)).value()), encode(*many)); // a number may be NaN, which is unlike itself
    }
  }
  EXPECT_GT(refused, 500U);
  EXPECT_LT(most_allocated, 1U << 20U);
}

} // namespace
} // namespace troupe::protocols::wire
