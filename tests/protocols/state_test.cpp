// SPDX-License-Identifier: BSD-3-Clause
// Machines that are carried as bytes go on as if nothing had been; bytes that are none are refused.
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/memory.hpp"
#include "protocols/random_stream.hpp"
#include "protocols/sim/text_trace.hpp"
#include "protocols/wire/state.hpp"
#include "tests/protocols/schedule.hpp"

namespace troupe::protocols {
namespace {

// -- in the simulator

class Hops : public testing::TestWithParam<std::string> {
protected:
  /// The same job twice; in the second, machines are replaced by their copies all the time.
  void expect_no_difference(sim::options job) {
    sim::text_trace before, after;
    job.tests.hop = 0;
    const sim::verdict stays = run_checked(job, &before);
    job.tests.hop = 0.1;
    const sim::verdict hops = run_checked(job, &after);
    EXPECT_EQ(hops.outcome.digest, stays.outcome.digest);
    EXPECT_EQ(hops.outcome.steps, stays.outcome.steps);
    EXPECT_EQ(hops.used, stays.used);
    EXPECT_EQ(after.lines(), before.lines());
  }
};

TEST_P(Hops, ChangeNothing) {
  using sim::trouble;
  const auto protocol = find_protocol(GetParam());
  for (const trouble how_much : {trouble::none, trouble::orderly, trouble::deaths})
    for (std::uint64_t seed = 1; seed <= 5 && !HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("seed {}, trouble {}", seed, static_cast<int>(how_much)));
      expect_no_difference(schedule_of(*protocol, seed, how_much));
    }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const protocol& entry : catalog())
    out.push_back(entry.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Hops, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

// -- as bytes

plan some_plan() {
  return {.epoch = {7},
          .workers = {{{0}, {2}}, {{3}, {}}},
          .protocol = {.name = "easgd",
                       .fan_in = 2,
                       .parameters = {{"a", true},
                                      {"b", std::int64_t{-5}},
                                      {"c", 0.1},
                                      {"d", std::string{"nesterov"}},
                                      {"e", std::vector<std::string>{"sync", ""}}}},
          .period = 4,
          .batch = 64,
          .data_size = 60'000,
          .lr_scale = 0.5,
          .gone = {{2}},
          .rooted = {6},
          .partition_kib = 512};
}

push some_push() {
  return {.epoch = {7},
          .id = {{3}, {1}, {99}},
          .base = {41},
          .gradient = {17},
          .samples = 64,
          .loss = 2.5,
          .compute = 1'000'000,
          .finite = false,
          .weight = 0.25,
          .at = std::numeric_limits<nanoseconds>::max()};
}

/// A lead in which every field differs from its default.
lead_state full_lead() {
  const push_id id{{3}, {1}, {99}};
  report text{.event = report::kind::held, .ver = {4}, .samples = 5, .loss = -0.0, .text = "held"};
  text.timings = {{{1}, 2, 3, 4}};
  text.made = round_record{{4}, {7}, 5, 6, 0.5, {{id, 0.25}}};
  return {.plan = some_plan(),
          .open = {{id, {{{0}, {2}}, {5}}}, {{{4}, {}, {1}}, {{{1}}, {}}}},
          .newest = {{{3}, id}},
          .last_ticket = {std::numeric_limits<std::uint64_t>::max()},
          .samples_applied = 1'000,
          .sends = 12,
          .limit = {100, 200, true},
          .held = true,
          .held_back = {{.to = {{1}, evaluator}, .ver = {8}, .epoch = {7}, .position = 9, .period = 3, .answers = {6}}},
          .parked = {{{2}, some_push()}},
          .deferred = {{apply{.sum = {{{5}, 0.5}},
                              .ver = {9},
                              .epoch = {7},
                              .workers = 2,
                              .step = {step_rule::kind::linear, 0.1, 0.2, 0.3, true, 0.4, 0.5},
                              .samples = 128,
                              .keep = true,
                              .compensate = {0.04, true, {3}},
                              .position = 11},
                        retain{{1}}, release{{2}}, discard{{3}}, send_params{.to = {{1}}}, arm_timer{{1}, -1}, text},
                       {}},
          .made = {8},
          .rule = round_rule_state{.newest = some_plan(),
                                   .dead = {{{3}, {}}},
                                   .round = {.plan = some_plan(),
                                             .base = {8},
                                             .position = 640,
                                             .live = {{{0}, {2}}},
                                             .pushed = {{{{0}, {2}}, some_push()}},
                                             .began = 55,
                                             .out_of_patience = true},
                                   .busy = {{{{3}, {}}, {44, {6}, {7}}}},
                                   .timings = {{{0}, 1, 2, 3}},
                                   .armed = true,
                                   .now = 66,
                                   .memory = {1, 0.5, -2}}};
}

holder_state full_holder() {
  const push_id id{{3}, {1}, {99}};
  return {.plan = some_plan(),
          .newest = {{{3}, id}},
          .kept = {{id, {5}}, {{{4}, {}, {1}}, {}}},
          .partials = {{{9}, {{{2}, {1, {7}}}, {{3}, {}}}}, {{10}, {}}},
          .orders = {close{.epoch = {7},
                           .ver = {9},
                           .contributions = {{id, 0.5}},
                           .keep = true,
                           .samples_before = 6,
                           .workers = 3,
                           .send_to = {{1}},
                           .send_epoch = {7},
                           .key = 8,
                           .position = 9,
                           .period = 2,
                           .compensate = {.backup = {4}}},
                     send_order{.epoch = {7}, .ver = {9}, .key = 1, .to = {{1}}, .position = 2, .period = 3}, drop_order{id},
                     retain{{1}}, release{{2}}, report{.event = report::kind::held}},
          .current = {8},
          .ordered = {9}};
}

coordinator_state full_coordinator() {
  return {.protocol = {.name = "local"},
          .period = 4,
          .lr_scale = 0.5,
          .members = {{{0}, {2}}},
          .last_down = {{{0}, {1}}, {{5}, {}}},
          .losses = {"worker 5 (its node was lost)", ""},
          .gone = {{6}},
          .plan = some_plan(),
          .evaluating = true,
          .stopped = true,
          .target_reached = true,
          .time_is_up = true,
          .held = {3},
          .samples = 192,
          .counted = {{{0}, {5, 320}}},
          .rounds_without_update = 1,
          .pushes_without_update = 2,
          .memory = {0.1, std::numeric_limits<double>::infinity()},
          .partition_kib = 512,
          .tuning = {1024, -1, true, false, true, 2, 3, 4, {5, 6}}};
}

template <class State>
State round_trip(const State& state) {
  return wire::decode_state<State>(wire::encode_state(state)).value();
}

TEST(StateBytes, CarryEveryField) {
  EXPECT_EQ(round_trip(full_lead()), full_lead());
  EXPECT_EQ(round_trip(full_holder()), full_holder());
  EXPECT_EQ(round_trip(full_coordinator()), full_coordinator());
  EXPECT_EQ(round_trip(lead_state{}), lead_state{});
}

TEST(StateBytes, CarryEveryKindOfRule) {
  const plan in_force = some_plan();
  const std::vector<rule_state> kinds{
      push_rule_state{.plan = in_force,
                      .dead = {{{3}, {}}},
                      .workers = {{{{0}, {2}}, {5, {4}, false, {9}, 77}}},
                      .asked_at = 4,
                      .made = {11},
                      .position = 12,
                      .now = 13,
                      .memory = {14}},
      gossip_rule_state{.plan = in_force, .live = {{{{0}, {2}}, 9}}, .made = {10}, .samples = 11},
      allreduce_rule_state{.plan = in_force,
                           .live = {{{{0}, {2}}, {{9}, 8, true}}},
                           .open = {{some_push().id, some_push()}},
                           .made = {10},
                           .samples = 11,
                           .position = 12},
      admm_state{.plan = in_force,
                 .members = {{{{0}, {2}}, {some_push(), false, true, true, true, 3, 4, 5}}, {{{3}, {}}, {}}},
                 .z = {5}},
      added_rule_state{.memory = {1, 2}}};
  for (const rule_state& kind : kinds) {
    lead_state state;
    state.rule = kind;
    EXPECT_EQ(round_trip(state), state) << kind.index();
  }
}

TEST(StateBytes, CutShortAreRefusedOrRead) {
  const std::vector<std::uint64_t> whole = wire::encode_state(full_lead());
  for (std::size_t words = 0; words < whole.size(); ++words) {
    const auto cut = wire::decode_state<lead_state>({whole.data(), words});
    EXPECT_FALSE(cut) << words << " of " << whole.size() << " words";
    if (!cut) {
      EXPECT_NE(cut.error().text.find("the state of a machine cannot be read"), std::string::npos);
    }
  }
}

TEST(StateBytes, DamagedOnesAreRefusedOrReadButNeverBelieved) {
  const std::vector<std::uint64_t> whole = wire::encode_state(full_lead());
  random_stream draw{5};
  std::size_t refused = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::uint64_t> bad = whole;
    for (std::uint64_t flips = 1 + draw.below(3); flips > 0; --flips)
      bad[draw.below(bad.size())] ^= std::uint64_t{1} << draw.below(64);
    refused += wire::decode_state<lead_state>(bad) ? 0 : 1;
  }
  EXPECT_GT(refused, 500u) << "most pointers of the message are in its first words";
}

TEST(Memory, WhatIsCutShortOrNoNumberIsForgotten) {
  memory_writer out;
  out.put(worker_id{3}).put(member{{4}, {5}}).put(std::int64_t{-6}, 0.5);
  const std::vector<double> kept = std::move(out).take();
  memory_reader in{kept};
  EXPECT_EQ(in.worker(), worker_id{3});
  EXPECT_EQ(in.member(), (member{{4}, {5}}));
  EXPECT_EQ(in.integer<std::int64_t>(), -6);
  EXPECT_EQ(in.real(), 0.5);
  EXPECT_TRUE(in.done());
  EXPECT_EQ(in.real(), 0) << "behind the end";

  const std::vector<double> wrong{-1, 0x1p60, std::numeric_limits<double>::quiet_NaN(), 1e9, 7};
  memory_reader strange{wrong};
  EXPECT_EQ(strange.integer<std::uint32_t>(), 0u);
  EXPECT_EQ(strange.integer<std::uint64_t>(), 0u);
  EXPECT_EQ(strange.integer<std::int64_t>(), 0);
  EXPECT_EQ(strange.count(), 1u) << "no more than are left";
}

} // namespace
} // namespace troupe::protocols
