// SPDX-License-Identifier: BSD-3-Clause
// The bytes of one frame of each kind never change: a lane of another build or language must understand them.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/protocols/wire_samples.hpp"

namespace troupe::protocols::wire {
namespace {

const std::string golden_file = std::string(TROUPE_SOURCE_DIR) + "/tests/protocols/wire_golden.txt";

/// The frame without its payload: words in the order of the wire.
std::string hex(const frame& f) {
  std::string words;
  for (std::size_t i = 0; i < f.head_bytes().size(); ++i)
    words += fmt::format("{}{:02x}", i != 0 && i % 8 == 0 ? " " : "", static_cast<unsigned>(f.head_bytes()[i]));
  return words;
}

std::map<std::string, std::string> read_golden() {
  std::ifstream file(golden_file);
  std::map<std::string, std::string> known;
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); !line.starts_with('#') && colon != std::string::npos)
      known[line.substr(0, colon)] = line.substr(colon + 2);
  return known;
}

void write_golden() {
  std::ofstream file(golden_file);
  file << "# SPDX-License-Identifier: BSD-3-Clause\n"
          "# Segment table and head of one lane frame of each kind, version 1, as tests/protocols/wire_samples.hpp names them.\n"
          "# A change here breaks every node of another build. Rewritten by TROUPE_REWRITE_GOLDEN=1 protocols_test.\n";
  for (const test::sample& each : test::ordinary()) {
    const auto payload = test::payload_for(each.body);
    file << each.name << ": " << hex(*encode(each.body, std::as_bytes(std::span(payload)))) << '\n';
  }
}

TEST(WireGolden, FramesHaveTheBytesTheyAlwaysHad) {
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    write_golden();
  const auto known = read_golden();
  EXPECT_EQ(known.size(), test::ordinary().size());
  for (const test::sample& each : test::ordinary()) {
    const auto payload = test::payload_for(each.body);
    ASSERT_TRUE(known.contains(each.name)) << each.name << " is not in " << golden_file;
    EXPECT_EQ(hex(*encode(each.body, std::as_bytes(std::span(payload)))), known.at(each.name)) << each.name;
  }
}

} // namespace
} // namespace troupe::protocols::wire
