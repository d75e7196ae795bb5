// SPDX-License-Identifier: BSD-3-Clause
// A job arrives at another node as it was sent.
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gtest/gtest.h>

#include "actors/type_ids.hpp"

namespace troupe::actors {
namespace {

template <class What>
What arrival_of(What sent) {
  caf::byte_buffer bytes;
  caf::binary_serializer out{nullptr, bytes};
  EXPECT_TRUE(out.apply(sent));
  What arrived;
  caf::binary_deserializer in{nullptr, bytes};
  EXPECT_TRUE(in.apply(arrived));
  return arrived;
}

TEST(JobTravel, DataArrives) {
  job sent;
  sent.data = {"csv", "rows.csv", "test.csv", 7, "unit", "by-worker", 0.5, 0.25, 30, 40};
  EXPECT_EQ(arrival_of(sent).data, sent.data);
}

TEST(JobTravel, WhatAProgramHasAddedArrivesByName) {
  job sent;
  sent.own_data = {"spirals", {{"arms", std::int64_t{3}}, {"noise", 0.5}}};
  sent.own_model = {"tapered", {{"steep", true}, {"shape", std::string{"cone"}}, {"parts", std::vector<std::string>{"a", "b"}}}};
  const auto arrived = arrival_of(sent);
  EXPECT_EQ(arrived.own_data, sent.own_data);
  EXPECT_EQ(arrived.own_model, sent.own_model);
  EXPECT_EQ(arrival_of(node_hello{"b", "1", 7, {"model \"tapered\""}}).added, std::vector<std::string>{"model \"tapered\""});
}

TEST(JobTravel, WhatIsInjectedArrives) {
  job sent;
  protocols::inject_spec& inject = sent.inject;
  inject.step_ms = 30;
  inject.link = {.latency_ms = 10, .mbit = 100};
  inject.stragglers = {{.worker = protocols::worker_id{1}, .factor = 5, .prob = 0.5},
                       {.distribution = protocols::straggler_spec::law::pareto, .alpha = 2, .spread = 3},
                       {.distribution = protocols::straggler_spec::law::trace, .factors = {1, 2.5}}};
  inject.faults = {{.worker = protocols::worker_id{2}, .at_s = 30, .back_after_s = 5},
                   {.what = protocols::fault_spec::kind::loss, .for_s = 1, .prob = 0.25}};
  EXPECT_EQ(arrival_of(sent).inject, sent.inject);
}

TEST(JobTravel, WhatTheCoordinatorOrdersArrives) {
  const protocols::plan plan{.epoch = {3},
                             .workers = {{{1}, {2}}},
                             .protocol = {.name = "ssp", .parameters = {{"bound", std::int64_t{2}}}},
                             .period = 4,
                             .batch = 5,
                             .data_size = 6};
  EXPECT_EQ(arrival_of(plan), plan);
  const protocols::worker_down worker{{1}, {2}};
  EXPECT_EQ(arrival_of(worker), worker);
  const protocols::holder_down holder{{1}, "why"};
  EXPECT_EQ(arrival_of(holder), holder);
  const protocols::hold_order hold{10, 20, true};
  EXPECT_EQ(arrival_of(hold), hold);
  const protocols::fetch_order fetch{{7}};
  EXPECT_EQ(arrival_of(fetch), fetch);
}

TEST(JobTravel, ANumberThatNamesNoEnumeratorIsRefused) {
  caf::byte_buffer bytes(1, caf::byte{200});
  caf::binary_deserializer in{nullptr, bytes};
  protocols::fault_spec::kind kind{};
  EXPECT_FALSE(in.apply(kind));
}

} // namespace
} // namespace troupe::actors
