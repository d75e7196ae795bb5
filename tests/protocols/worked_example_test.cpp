// SPDX-License-Identifier: BSD-3-Clause
// The worked example of protocols/README.md compiles, runs, and is what the page quotes; the pages' tables are the catalog's.
#include "tests/protocols/worked_example.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

TEST(Majority, RoundClosesOnceMoreThanHalfHavePushed) {
  const auto rule = majority_protocol().make_rule({}, 1);
  rule->on(plan_of(1, {0, 1, 2, 3}));
  const auto push_of = [&](std::uint32_t worker, std::uint64_t base) {
    return rule->on(
        push{.epoch = e(1), .id = {w(worker), {}, {base + 1}}, .base = v(base), .gradient = t(worker + 1), .samples = 10});
  };
  push_of(2, 0);
  EXPECT_EQ(count<apply>(push_of(0, 0)), 0u) << "half of four";
  EXPECT_EQ(only<apply>(push_of(3, 0)).sum, (std::vector<term>{{t(1), 1.0 / 3}, {t(3), 1.0 / 3}, {t(4), 1.0 / 3}}));
  EXPECT_EQ(only<send_params>(push_of(1, 0)).ver, v(1)) << "late: told where the job is";
}

TEST(Majority, RunsWithItsWorkers) {
  // Of five workers three take 10 a step, two 35: a version every 10, and whatever the slow ones push is late.
  const protocol entry = majority_protocol();
  plan with = plan_of(1, {0, 1, 2, 3, 4});
  with.protocol.name = entry.name;
  const auto rule = entry.make_rule(with.protocol, 1);
  std::vector<std::unique_ptr<worker>> workers;
  for (const member& self : with.workers)
    workers.push_back(entry.make_worker(with.protocol, self, 1));
  std::multimap<nanoseconds, push> arrivals; // in the order of time
  std::uint64_t keys = 0, discarded = 0;
  const auto perform = [&](const rule_effects& effects, nanoseconds now) {
    discarded += count<discard>(effects);
    for (const send_params& sent : all<send_params>(effects))
      for (const worker_id to : sent.to) {
        worker& that = *workers.at(to.value);
        const auto asked =
            only<compute>(that.on(params{.epoch = sent.epoch, .ver = sent.ver, .key = ++keys, .position = sent.position}));
        const auto done = only<send_push>(that.on(computed{.step = asked.step, .gradient = t(1), .samples = 10}));
        arrivals.emplace(now + (to.value < 3 ? 10 : 35), done.push);
      }
  };
  for (const auto& each : workers)
    each->on(with);
  perform(rule->on(with), 0);
  while (arrivals.begin()->first <= 100) {
    const auto first = arrivals.extract(arrivals.begin());
    perform(rule->on(first.mapped()), first.key());
  }
  EXPECT_EQ(rule->current(), v(10));
  EXPECT_EQ(discarded, 4u) << "two at 35, two at 70";
}

std::string text_of_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(fmt::format("{}/{}", TROUPE_SOURCE_DIR, path)).rdbuf();
  return out.str();
}

TEST(ProtocolsPage, QuotesTheWorkedExampleAsItIs) {
  const std::string page = text_of_file("protocols/README.md");
  const std::string sources =
      text_of_file("tests/protocols/worked_example.hpp") + text_of_file("tests/protocols/worked_example_test.cpp");
  int blocks = 0;
  for (auto at = page.find("```cpp\n"); at != std::string::npos; at = page.find("```cpp\n", at + 1)) {
    const auto begin = at + 7;
    const std::string quoted = page.substr(begin, page.find("```", begin) - begin);
    EXPECT_NE(sources.find(quoted), std::string::npos) << "not in tests/protocols/worked_example*:\n" << quoted;
    ++blocks;
  }
  EXPECT_EQ(blocks, 2);
}

/// The table under `heading` has a row for each protocol, in the catalog's words; TROUPE_REWRITE_GOLDEN=1 rewrites it.
void expect_table(const std::string& path, const std::string& heading, std::string (*row_of)(const protocol&)) {
  const std::string page = text_of_file(path);
  const auto found = page.find(heading);
  ASSERT_NE(found, std::string::npos) << path;
  const auto begin = found + heading.size();
  const auto end = page.find("\n\n", begin) + 1;
  std::string rows;
  for (const protocol& each : catalog())
    rows += row_of(each);
  if (std::getenv("TROUPE_REWRITE_GOLDEN") != nullptr)
    std::ofstream(fmt::format("{}/{}", TROUPE_SOURCE_DIR, path)) << page.substr(0, begin) + rows + page.substr(end);
  EXPECT_EQ(page.substr(begin, end - begin), rows) << "the table of " << path << "; TROUPE_REWRITE_GOLDEN=1 rewrites it";
}

TEST(ProtocolsPage, TableOfWhoWaitsForWhomIsTheCatalogs) {
  expect_table("protocols/README.md", "| protocol | a round is full | who gets parameters |\n| --- | --- | --- |\n",
               [](const protocol& of) { return fmt::format("| `{}` | {} | {} |\n", of.name, of.round_is_full, of.recipients); });
}

TEST(FirstPage, TableOfProtocolsIsTheCatalogs) {
  expect_table("README.md", "| protocol | what it is | pays when |\n| --- | --- | --- |\n",
               [](const protocol& of) { // the name alone of what has one: "gradient coding: ..."
                 return fmt::format("| `{}` | {} | {} |\n", of.name, of.summary.substr(0, of.summary.find(':')), of.pays_when);
               });
}

} // namespace
} // namespace troupe::protocols
