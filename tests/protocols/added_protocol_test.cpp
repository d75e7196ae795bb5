// SPDX-License-Identifier: BSD-3-Clause
// A protocol that a program adds is a citizen like those of the catalog.
#include "tests/protocols/added_protocol.hpp"

#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/sim/simulate.hpp"
#include "protocols/sim/tally.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

const std::vector<protocol>& added() {
  static const std::vector<protocol> all{paced_protocol()};
  return all;
}

protocol_spec choosing_from(std::vector<std::string> candidates) {
  return {.name = "auto", .parameters = {{"candidates", std::move(candidates)}}};
}

TEST(AddedProtocol, IsListedAndFoundBehindTroupesOwn) {
  EXPECT_EQ(catalog(added()).back().name, "paced");
  EXPECT_TRUE(find_protocol("paced", added()));
  EXPECT_FALSE(find_protocol("paced"));
}

TEST(AddedProtocol, FirstPlanHasItsPeriod) {
  EXPECT_EQ(initial_period({.name = "paced"}, added()), 6u);
  EXPECT_EQ(initial_period({.name = "paced", .parameters = {{"pace", std::int64_t{3}}}}, added()), 3u);
}

TEST(AddedProtocol, MayBeACandidateOfAutoAndTheFirstOne) {
  const auto chooser = find_protocol("auto", added());
  const protocol_spec spec = choosing_from({"paced", "sync"});
  EXPECT_EQ(validate(*chooser, spec, 4), std::vector<std::string>{});
  EXPECT_EQ(validate(*find_protocol("auto"), spec, 4),
            std::vector<std::string>{"candidates \"paced\" is not one of sync, backup, coded, local"});
  EXPECT_EQ(validate(*chooser, choosing_from({"ssp"}), 4),
            std::vector<std::string>{"candidates \"ssp\" is not one of sync, backup, coded, local, paced"});
  EXPECT_EQ(initial_protocol(spec, added()).name, "paced");
  EXPECT_TRUE(chooser->keeps(spec).replica);
  EXPECT_FALSE(chooser->keeps(choosing_from({"sync", "backup"})).replica);
}

TEST(AddedProtocol, AutoGoesOverToItWithItsPeriodAndItsMachines) {
  const auto chooser = find_protocol("auto", added());
  const protocol_spec spec = choosing_from({"sync", "paced"});
  const auto decides = chooser->make_controller(spec);
  const plan first = plan_of(1, {0, 1});
  decides->on(first);
  report slow_link{.event = report::kind::round_closed, .contributions = 2};
  for (std::uint32_t i = 0; i < 2; ++i)
    slow_link.timings.push_back({w(i), 100, 1000, 10});
  decides->on(slow_link, 1);
  const auto decided = decides->on(slow_link, 1); // sync 1,000, paced 100 + 900 / 6 = 250
  ASSERT_TRUE(decided && decided->protocol);
  EXPECT_EQ(decided->protocol->name, "paced");
  EXPECT_EQ(decided->period, 6u);

  const auto worker = chooser->make_worker(spec, {w(0), {}}, 1);
  plan next = plan_of(2, {0, 1});
  next.protocol = *decided->protocol;
  worker->on(next);
  EXPECT_EQ(count<local_step>(worker->on(params{.epoch = e(2), .key = 1, .period = 6})), 1u);
}

TEST(AddedProtocol, RunsInTheSimulatorWithItsPeriodAloneAndUnderAuto) {
  for (const protocol_spec& spec : {protocol_spec{.name = "paced"}, choosing_from({"paced", "sync"})}) {
    sim::options job;
    job.protocol = spec;
    job.added = added();
    job.job.workers = 2;
    job.job.batch = 2;
    job.job.data_size = 1000;
    job.job.stop.steps = 1;
    job.inject.step_ms = 10;
    sim::tally_numerics maths;
    const sim::result found = sim::simulate(job, maths);
    EXPECT_EQ(found.steps, 1u);
    EXPECT_EQ(found.samples, 6u * 2 * 2) << "six steps of two workers with batches of two";
  }
}

} // namespace
} // namespace troupe::protocols
