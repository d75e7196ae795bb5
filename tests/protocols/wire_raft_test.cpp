// SPDX-License-Identifier: BSD-3-Clause
// Raft's messages and what it has on a disk: every field travels, the bytes stay what they were, and no byte is trusted.
#include "protocols/wire/raft.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocols/random_stream.hpp"
#include "tests/protocols/allocations.hpp"
#include "tests/protocols/raft_simulation.hpp"

namespace troupe::protocols::wire {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
const std::string golden_votes = std::string(TROUPE_SOURCE_DIR) + "/tests/protocols/wire_raft_golden.txt";

const raft::entry first{{1}, {2}, {}}, second{{most}, {most}, {3, most}};
const raft::snapshot ledger{{7}, {6}, {5, 4}};

/// Each kind of message, in which every field differs from its default.
std::vector<std::pair<std::string, raft::message>> messages() {
  const auto with = [](auto body) { return raft::message{{1}, {0xffff'ffff}, {9}, body}; };
  return {{"vote_request", with(raft::vote_request{true, {3}, {2}})},
          {"vote_reply", with(raft::vote_reply{true, true})},
          {"append_request", with(raft::append_request{{4}, {3}, {first, second}, {2}})},
          {"append_reply", with(raft::append_reply{true, {5}, {4}})},
          {"install_request", with(raft::install_request{ledger})}};
}
const raft::persist all_of_it{{9}, {{2}}, ledger, {first, second}};

std::string hex(const std::vector<std::uint64_t>& words) {
  std::string out;
  for (const std::uint64_t each : words)
    out += fmt::format("{}{:016x}", out.empty() ? "" : " ", each);
  return out;
}
std::string golden() {
  std::string out =
      "# SPDX-License-Identifier: BSD-3-Clause\n"
      "# Words of each kind of message of Raft, and of a journal's entry, as tests/protocols/wire_raft_test.cpp names them.\n"
      "# A change here breaks journals and members of another build. Rewritten by TROUPE_REWRITE_GOLDEN=1 protocols_test.\n";
  for (const auto& [name, each] : messages())
    out += fmt::format("{}: {}\n", name, hex(encode(each)));
  return out + fmt::format("persist: {}\n", hex(encode(all_of_it)));
}

TEST(WireRaft, CarriesEveryField) {
  for (const auto& [name, each] : messages())
    EXPECT_EQ(decode_raft_message(encode(each)).value(), each) << name;
  EXPECT_EQ(decode_persist(encode(all_of_it)).value(), all_of_it);
  EXPECT_EQ(decode_persist(encode(raft::persist{})).value(), raft::persist{});
  EXPECT_EQ(decode_raft_message(encode(raft::message{})).value(), raft::message{});
}

TEST(WireRaft, BytesAreWhatTheyAlwaysWere) {
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    std::ofstream(golden_votes) << golden();
  std::ifstream file(golden_votes);
  EXPECT_EQ(golden(), std::string(std::istreambuf_iterator<char>(file), {})) << golden_votes;
}

TEST(WireRaft, CutShortIsRefused) {
  const auto entry = encode(all_of_it);
  for (std::size_t words = 0; words < entry.size(); ++words)
    EXPECT_FALSE(decode_persist({entry.data(), words})) << words;
  for (const auto& [name, each] : messages()) {
    const auto whole = encode(each);
    for (std::size_t words = 0; words < whole.size(); ++words) {
      const auto cut = decode_raft_message({whole.data(), words});
      ASSERT_FALSE(cut) << name << ", " << words;
      EXPECT_TRUE(cut.error().text.starts_with("a message of Raft cannot be read: "));
    }
  }
}

// Flips bits: what comes out is an error with a reason, or a message that might have been sent. A member does not fall over it.
TEST(WireRaft, FlippedBitsNeverDoHarm) {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
  std::cout << "seed " << seed << " (TROUPE_TEST_SEED)\n";
  const auto all = messages();
  random_stream draw{seed};
  std::size_t refused = 0, most_bytes = 0;
  for (int round = 0; round < 10'000; ++round) {
    auto bad = encode(all[draw.below(all.size())].second);
    for (std::uint64_t flips = 1 + draw.below(4); flips > 0; --flips)
      bad[draw.below(bad.size())] ^= std::uint64_t{1} << draw.below(64);
    const std::size_t before = troupe::test::allocated_bytes();
    const auto decoded = decode_raft_message(bad);
    most_bytes = std::max(most_bytes, troupe::test::allocated_bytes() - before);
    static_cast<void>(decode_persist(bad));
    if (!decoded) {
      ++refused;
      continue;
    }
    EXPECT_EQ(decode_raft_message(encode(*decoded)).value(), *decoded);
    raft::stored disk;
    disk.term = {8};
    disk.log.push_back(first);
    raft::member hears({.self = {0xffff'ffff}, .members = {{1}, {0xffff'ffff}}}, disk, 0);
    static_cast<void>(hears.on(*decoded, 1));
    hears.check();
  }
  EXPECT_GT(refused, 1'000U);
  EXPECT_LT(most_bytes, 1U << 20U);
}

TEST(WireRaft, MembersThatSpeakInBytesDecideTheSame) {
  raft::test::carrier bytes;
  bytes.wire = [](const raft::message& msg) { return decode_raft_message(encode(msg)).value(); };
  bytes.disk = [](const raft::persist& what) { return decode_persist(encode(what)).value(); };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto as_is = raft::test::run(raft::test::schedule_of(seed)),
               carried = raft::test::run(raft::test::schedule_of(seed), bytes);
    EXPECT_EQ(carried.lines, as_is.lines) << "seed " << seed;
    EXPECT_EQ(carried.decided, as_is.decided);
  }
}

} // namespace
} // namespace troupe::protocols::wire
