// SPDX-License-Identifier: BSD-3-Clause
// Decentralized gossip: mixing weights by hand, what is conserved, who is chosen; the count at the lead.
#include "protocols/gossip.hpp"
#include "protocols/gossip_rule.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/lead.hpp"
#include "protocols/random_stream.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const ticket first_parameters = t(50);

/// Worker 0 of incarnation 0, with the first parameters and `with`, so in its first step.
gossip_worker begun(const plan& with, std::uint32_t peers = 1, std::uint32_t self = 0) {
  gossip_worker out{{w(self), {}}, peers, 7};
  out.on(with);
  out.on(params{.epoch = with.epoch, .parameters = first_parameters});
  return out;
}

computed done(std::uint64_t step, std::int64_t samples = 10) {
  return {.step = step, .samples = samples, .loss = 0.5, .compute = 3};
}

peer_message from(std::uint32_t worker, std::uint64_t round, double weight, std::uint64_t data) {
  return {.from = {w(worker), {}}, .round = round, .weight = weight, .data = t(data)};
}

local_step step_at(std::uint64_t step, std::uint64_t position, std::uint32_t cut = 0, std::uint32_t n = 2) {
  return {{.step = step, .position = position, .batches = n, .cuts = n, .parts = {{cut, 1}}}};
}

// -- the worker

TEST(Gossip, ItBeginsAtTheFirstParametersWithItsOwnCut) {
  gossip_worker worker{{w(1), {}}, 1, 7};
  EXPECT_EQ(worker.on(params{.epoch = e(1), .parameters = first_parameters}), worker_effects{}) << "the plan is not here yet";
  EXPECT_EQ(worker.on(plan_of(1, {0, 1})),
            (worker_effects{adopt{v(0), first_parameters}, mix{{{first_parameters, 1}}}, step_at(1, 0, 1)}));
  EXPECT_EQ(worker.weight(), 1);
  EXPECT_EQ(worker.on(params{.epoch = e(1), .key = 9, .parameters = t(51)}), worker_effects{}) << "there are no others";
}

TEST(Gossip, AfterAStepItTellsTheLeadGivesHalfOfItsWeightAwayAndGoesOn) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(done(1)),
            (worker_effects{send_push{{.epoch = e(1), .id = {w(0), {}, {1}}, .samples = 10, .loss = 0.5, .compute = 3}},
                            send_peer{w(1), {.from = {w(0), {}}, .round = 1, .weight = 0.5}}, step_at(2, 20)}));
  EXPECT_EQ(worker.weight(), 0.5);
}

TEST(Gossip, WhatComesDuringAStepIsMixedAtItsEndInWorkerOrder) {
  gossip_worker worker = begun(plan_of(1, {0, 1, 2}));
  EXPECT_EQ(worker.on(from(2, 4, 0.75, 102)), worker_effects{});
  EXPECT_EQ(worker.on(from(1, 9, 0.25, 101)), worker_effects{});
  const worker_effects out = worker.on(done(1));
  // 1 of 2 is its own: x = (1 x + 0.25 x_1 + 0.75 x_2) / 2; then half of the 2 goes.
  ASSERT_EQ(out.size(), 6U);
  EXPECT_EQ(out[1], worker_effect(mix{{{own_parameters, 0.5}, {t(101), 0.125}, {t(102), 0.375}}}));
  EXPECT_EQ(out[2], worker_effect(discard{t(101)}));
  EXPECT_EQ(out[3], worker_effect(discard{t(102)}));
  EXPECT_EQ(std::get<send_peer>(out[4]).message.weight, 1);
  EXPECT_EQ(worker.weight(), 1);
  EXPECT_EQ(count<mix>(worker.on(done(2))), 0U) << "it is mixed once";
}

TEST(Gossip, OfOneSenderTheNewestStandsForAllThatWasNotMixed) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(from(1, 1, 0.5, 101)), worker_effects{});
  EXPECT_EQ(worker.on(from(1, 2, 0.25, 102)), (worker_effects{discard{t(101)}}));
  EXPECT_EQ(worker.on(from(1, 3, 0.25, 103)), (worker_effects{discard{t(102)}}));
  EXPECT_EQ(only<mix>(worker.on(done(1))), (mix{{{own_parameters, 0.5}, {t(103), 0.5}}}));
}

TEST(Gossip, ARepeatedOrOlderMessageIsNotMixed) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(from(1, 2, 0.5, 101));
  EXPECT_EQ(worker.on(from(1, 2, 0.5, 102)), (worker_effects{discard{t(102)}}));
  worker.on(done(1));
  EXPECT_EQ(worker.on(from(1, 2, 0.5, 103)), (worker_effects{discard{t(103)}})) << "remembered after it was mixed";
  EXPECT_EQ(worker.on(from(1, 1, 0.5, 104)), (worker_effects{discard{t(104)}}));
  EXPECT_EQ(count<mix>(worker.on(done(2))), 0U);
}

TEST(Gossip, AWeightThatIsNoShareIsRefused) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  for (const double weight : {0.0, -1.0, nan})
    EXPECT_EQ(worker.on(from(1, 1, weight, 101)), (worker_effects{discard{t(101)}})) << weight;
  EXPECT_EQ(worker.on(from(5, 1, 0.5, 102)), (worker_effects{discard{t(102)}})) << "a stranger";
  EXPECT_EQ(count<mix>(worker.on(done(1))), 0U);
}

TEST(Gossip, WhatCouldNotBeSentComesBack) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  const send_peer sent = only<send_peer>(worker.on(done(1)));
  EXPECT_EQ(worker.on(sent.message), worker_effects{});
  EXPECT_EQ(worker.weight(), 1);
}

TEST(Gossip, SeveralPeersAreDistinctAndGetEqualShares) {
  gossip_worker worker = begun(plan_of(1, {0, 1, 2, 3}), 3);
  std::set<worker_id> to;
  for (const send_peer& each : all<send_peer>(worker.on(done(1)))) {
    to.insert(each.to);
    EXPECT_EQ(each.message.weight, 0.25);
  }
  EXPECT_EQ(to, (std::set{w(1), w(2), w(3)}));
  EXPECT_EQ(worker.weight(), 0.25);
}

TEST(Gossip, PeersAreDrawnEvenlyAndTheSameEveryTime) {
  const auto draws = [](std::uint64_t seed) {
    gossip_worker worker{{w(1), {}}, 1, seed};
    worker.on(plan_of(1, {0, 1, 2, 3}));
    worker.on(params{.epoch = e(1), .parameters = first_parameters});
    std::vector<worker_id> out;
    for (std::uint64_t step = 1; step <= 3000; ++step)
      out.push_back(only<send_peer>(worker.on(done(step))).to);
    return out;
  };
  const auto drawn = draws(7);
  EXPECT_EQ(drawn, draws(7));
  EXPECT_NE(drawn, draws(8));
  for (const std::uint32_t other : {0U, 2U, 3U}) // 1,000 each, standard deviation 26
    EXPECT_NEAR(static_cast<double>(std::ranges::count(drawn, w(other))), 1000, 130) << other;
  EXPECT_EQ(std::ranges::count(drawn, w(1)), 0);
}

TEST(Gossip, PeersAreDrawnByThePlaceInTheDataWhateverTheLife) {
  const plan four = plan_of(1, {0, 1, 2, 3});
  const plan returned{.epoch = e(1),
                      .workers = {{w(0), {3}}, {w(1), {}}, {w(2), {}}, {w(3), {}}},
                      .batch = four.batch,
                      .data_size = four.data_size};
  const auto peers_from = [](gossip_worker worker, int steps) {
    std::vector<worker_id> out;
    for (int step = 1; step <= steps; ++step)
      out.push_back(only<send_peer>(worker.on(done(static_cast<std::uint64_t>(step)))).to);
    return out;
  };
  const std::vector<worker_id> whole = peers_from(begun(four), 20);
  gossip_worker later{{w(0), {3}}, 1, 7};
  later.goes_on({.samples = 10 * four.after(0)}); // else it is late, and has nothing to give
  later.on(returned);
  later.on(params{.epoch = e(1), .position = 10 * four.after(0), .parameters = first_parameters});
  EXPECT_EQ(peers_from(std::move(later), 10), std::vector<worker_id>(whole.begin() + 10, whole.end()));
}

TEST(Gossip, TheDeadAreNotChosenAndWhatTheySentIsDropped) {
  gossip_worker worker = begun(plan_of(1, {0, 1, 2}));
  worker.on(from(1, 1, 0.5, 101));
  worker.on(from(2, 1, 0.5, 102));
  EXPECT_EQ(worker.on(plan_of(2, {0, 2})), (worker_effects{discard{t(101)}}));
  EXPECT_EQ(worker.on(from(1, 2, 0.5, 103)), (worker_effects{discard{t(103)}}));
  EXPECT_EQ(only<mix>(worker.on(done(1))).terms.size(), 2U);
  for (std::uint64_t step = 2; step < 50; ++step)
    EXPECT_EQ(only<send_peer>(worker.on(done(step))).to, w(2));
}

TEST(Gossip, TheLastOneLeftGoesOnAlone) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(plan_of(2, {0}));
  const worker_effects out = worker.on(done(1));
  EXPECT_EQ(count<send_peer>(out), 0U);
  EXPECT_EQ(out.back(), worker_effect(step_at(2, 20, 0, 1))) << "the next cut is of one";
  EXPECT_EQ(worker.weight(), 1);
}

TEST(Gossip, WhoIsNotInThePlanStops) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(plan_of(2, {1}));
  EXPECT_EQ(worker.on(done(1)), worker_effects{});
}

TEST(Gossip, AnAnswerToAnotherStepIsNothing) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(done(2)), worker_effects{});
  EXPECT_EQ(worker.on(done(0)), worker_effects{});
}

TEST(Gossip, AReplicaThatHasDivergedIsTakenOverWholeFromTheNextMessage) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  computed wild = done(1);
  wild.finite = false;
  const worker_effects out = worker.on(wild);
  EXPECT_FALSE(only<send_push>(out).push.finite) << "the lead is told";
  EXPECT_EQ(count<send_peer>(out), 0U) << "nobody gets it";
  EXPECT_EQ(worker.weight(), 0);
  worker.on(from(1, 1, 0.5, 101));
  wild.step = 2;
  EXPECT_EQ(only<mix>(worker.on(wild)), (mix{{{t(101), 1}}}));
  EXPECT_EQ(worker.weight(), 0.25);
}

TEST(Gossip, AFiniteStepAfterOneThatWasNotCountsAgain) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  computed wild = done(1);
  wild.finite = false;
  worker.on(wild);
  EXPECT_EQ(only<send_peer>(worker.on(done(2))).message.weight, 0.5);
}

TEST(Gossip, WhoJoinsLateHasNothingToGiveUntilItHasHeardSomebody) {
  gossip_worker late{{w(2), {1}}, 1, 7};
  late.on(plan{.epoch = e(3), .workers = {{w(0), {}}, {w(2), {1}}}, .batch = 10, .data_size = 1000});
  EXPECT_EQ(only<local_step>(late.on(params{.epoch = e(3), .ver = v(40), .position = 400, .parameters = first_parameters})),
            step_at(1, 400, 1));
  EXPECT_EQ(count<send_peer>(late.on(done(1))), 0U);
  EXPECT_EQ(late.on(fetch_order{v(41)}),
            (worker_effects{send_peer{evaluator, {.from = {w(2), {1}}, .round = 41, .weight = 0, .made = {1, 10}}}}));
  late.on(from(0, 77, 0.5, 101));
  const worker_effects out = late.on(done(2));
  EXPECT_EQ(only<mix>(out), (mix{{{t(101), 1}}}));
  EXPECT_EQ(only<send_peer>(out).message.weight, 0.25);
}

TEST(Gossip, AWeightThatIsSpentCountsAsOneAgain) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  std::uint64_t step = 1;
  for (; step <= 64; ++step)
    worker.on(done(step));
  EXPECT_EQ(worker.weight(), 0x1p-64);
  worker.on(done(step++));
  EXPECT_EQ(worker.weight(), 0x1p-65);
  worker.on(done(step++));
  EXPECT_EQ(worker.weight(), 0.5);
}

TEST(Gossip, ABatchOfFewerSamplesThanWorkersIsShared) {
  gossip_worker worker = begun(plan_of(1, {0, 1, 2}, 1, 4), 1, 2); // batches of 3 and 1
  const local_step second = only<local_step>(worker.on(done(1, 1)));
  EXPECT_EQ(second.gradient.position, 3U);
  EXPECT_EQ(second.gradient.cuts, 1U);
  EXPECT_EQ(second.gradient.parts, (std::vector<compute::part>{{0, 1}}));
  EXPECT_EQ(only<local_step>(worker.on(done(2, 1))).gradient.position, 4U) << "the next epoch";
}

TEST(Gossip, WhoHasNoSamplesPassesOnWhatItHears) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(done(1, 0)), worker_effects{}) << "and does not spin";
  const worker_effects out = worker.on(from(1, 1, 0.5, 101));
  EXPECT_EQ(count<send_push>(out), 0U);
  EXPECT_EQ(only<mix>(out).terms.size(), 2U);
  EXPECT_EQ(only<send_peer>(out).message.weight, 0.75);
  EXPECT_EQ(count<local_step>(out), 1U);
  worker.on(from(1, 2, 0.5, 102));
  EXPECT_EQ(count<mix>(worker.on(done(2, 0))), 1U) << "what came meanwhile";
}

TEST(Gossip, TheEvaluatorGetsTheReplicaUnderTheVersionItAskedFor) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(fetch_order{v(3)}), (worker_effects{send_peer{evaluator, {.from = {w(0), {}}, .round = 3, .weight = 1}}}));
  worker.on(done(1));
  EXPECT_EQ(only<send_peer>(worker.on(fetch_order{v(4)})).message.weight, 1) << "every replica counts the same";
  computed diverged = done(2);
  diverged.finite = false;
  worker.on(diverged);
  worker.on(done(3, 5));
  EXPECT_EQ(only<send_peer>(worker.on(fetch_order{v(5)})).message.made, (step_count{2, 15})) << "those that count";
  gossip_worker empty{{w(0), {}}, 1, 7};
  EXPECT_EQ(only<send_peer>(empty.on(fetch_order{v(3)})).message.weight, 0) << "it has none yet";
}

TEST(Gossip, ACheckpointHasWhatItWouldMixNowAndTheStepUnderWayIsMadeAgain) {
  gossip_worker empty{{w(0), {}}, 1, 7};
  EXPECT_TRUE(empty.kept().sum.empty()) << "it has none yet";
  gossip_worker worker = begun(plan_of(1, {0, 1, 2}));
  EXPECT_EQ(worker.kept().sum, (std::vector<term>{{own_parameters, 1}}));
  EXPECT_EQ(worker.kept().weight, 1);
  EXPECT_EQ(worker.kept().position, 0U);
  worker.on(done(1));
  worker.on(from(1, 1, 0.25, 101));
  worker.on(from(2, 4, 0.25, 102));
  const kept_replica kept = worker.kept();
  EXPECT_EQ(kept.sum, (std::vector<term>{{own_parameters, 0.5}, {t(101), 0.25}, {t(102), 0.25}}));
  EXPECT_EQ(kept.weight, 1);
  EXPECT_EQ(kept.position, 30U) << "of the second global batch";
  EXPECT_EQ(only<mix>(worker.on(done(2))), mix{kept.sum}) << "it was asked, and nothing else";
}

TEST(Gossip, OfAReplicaThatHasDivergedACheckpointHasWhatHasCome) {
  gossip_worker worker = begun(plan_of(1, {0, 1}));
  computed wild = done(1);
  wild.finite = false;
  worker.on(wild);
  EXPECT_TRUE(worker.kept().sum.empty());
  worker.on(from(1, 1, 0.5, 101));
  EXPECT_EQ(worker.kept().sum, (std::vector<term>{{t(101), 1}}));
  EXPECT_EQ(worker.kept().weight, 0.5);
}

/// Worker 0 of a job that goes on at sample 400 of a checkpoint, with the parameters that it is sent.
worker_effects goes_on(gossip_worker& worker, const worker_memory& from, std::uint64_t position = 400) {
  worker.goes_on(from);
  worker.on(plan_of(1, {0, 1}));
  return worker.on(params{.epoch = e(1), .ver = v(40), .position = position, .parameters = first_parameters});
}

TEST(Gossip, WhoGoesOnHasItsReplicaItsWeightAndItsPlace) {
  gossip_worker worker{{w(0), {}}, 1, 7};
  const auto out = goes_on(worker, {.samples = 400, .has_replica = true, .weight = 0.75, .position = 380});
  EXPECT_EQ(out, (worker_effects{adopt{v(40), first_parameters}, step_at(1, 380)})) << "it does not begin at the mean";
  EXPECT_EQ(worker.weight(), 0.75);
  EXPECT_EQ(worker.kept().position, 380U);
  EXPECT_EQ(only<send_peer>(worker.on(done(1))).message.weight, 0.375);
}

TEST(Gossip, WhoGoesOnWithoutOneBeginsAtTheMeanAndCounts) {
  for (const worker_memory& without : {worker_memory{.samples = 400}, worker_memory{.samples = 400, .has_replica = true},
                                       worker_memory{.samples = 400, .weight = 0.75, .position = 380}}) {
    gossip_worker worker{{w(0), {}}, 1, 7};
    EXPECT_EQ(goes_on(worker, without),
              (worker_effects{adopt{v(40), first_parameters}, mix{{{first_parameters, 1}}}, step_at(1, 400)}));
    EXPECT_EQ(worker.weight(), 1);
  }
}

TEST(Gossip, WhoComesAfterOthersHaveGoneOnIsLateWhateverACheckpointHas) {
  gossip_worker worker{{w(0), {}}, 1, 7};
  const auto out = goes_on(worker, {.samples = 400, .has_replica = true, .weight = 0.75, .position = 380}, 420);
  EXPECT_EQ(only<mix>(out), (mix{{{first_parameters, 1}}}));
  EXPECT_EQ(only<local_step>(out), step_at(1, 420));
  EXPECT_EQ(worker.weight(), 0);
}

TEST(Gossip, ALeadGoesOnCountingWhereACheckpointWas) {
  const lead_state rest = at_rest(plan_of(3, {0, 1}), step_count{40, 400});
  EXPECT_EQ(rest.made, v(40));
  EXPECT_EQ(rest.samples_applied, 400U);
  EXPECT_TRUE(rest.plan.workers.empty());
  EXPECT_EQ(rest.plan.batch, plan_of(3, {0, 1}).batch);
  gossip_rule rule;
  rule.restore(rest.rule);
  const auto out = rule.on(plan_of(1, {0, 1}));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<send_params>(out.front()), (send_params{.to = {w(0), w(1)}, .ver = v(40), .epoch = e(1), .position = 400}));
}

/// Workers with numbers for parameters, a queue a pair, and links that refuse at random.
struct swarm {
  struct seat {
    gossip_worker machine;
    double x = 0;
    std::uint64_t step = 0;
    std::map<std::uint64_t, double> kept{};
  };
  std::vector<seat> seats;
  std::vector<std::pair<std::uint32_t, std::pair<peer_message, double>>> flying{}; ///< receiver, message, its parameters
  std::uint64_t tickets = 100;

  void perform(std::uint32_t at, const worker_effects& effects, random_stream& chance, double refused) {
    seat& self = seats[at];
    for (const worker_effect& effect : effects) {
      if (const auto* mixed = std::get_if<mix>(&effect); mixed && mixed->terms.front().tensor != first_parameters) {
        double sum = 0;
        for (const term& part : mixed->terms)
          sum += part.weight * (part.tensor == own_parameters ? self.x : self.kept.at(part.tensor.value));
        self.x = sum;
      } else if (const auto* gone = std::get_if<discard>(&effect)) {
        self.kept.erase(gone->tensor.value);
      } else if (const auto* step = std::get_if<local_step>(&effect)) {
        self.step = step->gradient.step;
      } else if (const auto* sent = std::get_if<send_peer>(&effect)) {
        if (chance.hit(refused))
          self.machine.on(sent->message);
        else
          flying.push_back({sent->to.value, {sent->message, self.x}});
      }
    }
  }
  double total_weight() const {
    double sum = 0;
    for (const seat& each : seats)
      sum += each.machine.weight();
    for (const auto& [to, message] : flying)
      sum += message.first.weight;
    return sum;
  }
  double weighted_sum() const {
    double sum = 0;
    for (const seat& each : seats)
      sum += each.machine.weight() * each.x;
    for (const auto& [to, message] : flying)
      sum += message.first.weight * message.second;
    return sum;
  }
};

// One message a sender comes before a step of their receiver, so none is superseded: the average that all tend to is that of the
// beginning, whatever the order.
TEST(Gossip, WeightAndWeightedSumAreConservedAndAllTendToTheAverage) {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  for (std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1, last = given ? seed : 50; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "TROUPE_TEST_SEED=" << seed);
    random_stream chance = random_stream::keyed(seed, 1);
    const auto n = static_cast<std::uint32_t>(2 + chance.below(5));
    const auto peers = static_cast<std::uint32_t>(1 + chance.below(n - 1));
    plan with{.epoch = e(1), .batch = 4, .data_size = 100};
    for (std::uint32_t i = 0; i < n; ++i)
      with.workers.push_back({w(i), {}});
    swarm them;
    double mean = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      them.seats.push_back({gossip_worker{{w(i), {}}, peers, seed}, static_cast<double>(i * i)});
      mean += static_cast<double>(i * i) / n;
      them.seats.back().machine.on(with);
      them.seats.back().machine.on(params{.epoch = e(1), .parameters = first_parameters});
      them.seats.back().step = 1;
    }
    for (int round = 0; round < 2000; ++round) {
      const auto who = static_cast<std::uint32_t>(chance.below(n));
      std::set<member> heard;
      for (std::size_t i = 0; i < them.flying.size();) {
        if (them.flying[i].first != who || !heard.insert(them.flying[i].second.first.from).second) {
          ++i;
          continue;
        }
        auto [msg, x] = them.flying[i].second;
        them.flying.erase(them.flying.begin() + static_cast<std::ptrdiff_t>(i));
        msg.data = t(++them.tickets);
        them.seats[who].kept[msg.data.value] = x;
        them.perform(who, them.seats[who].machine.on(msg), chance, 0.1);
      }
      them.perform(who, them.seats[who].machine.on(done(them.seats[who].step)), chance, 0.1);
      ASSERT_NEAR(them.total_weight(), n, 1e-9);
      ASSERT_NEAR(them.weighted_sum(), n * mean, 1e-9);
    }
    for (const auto& each : them.seats) {
      EXPECT_NEAR(each.x, mean, 1e-6);
      EXPECT_TRUE(each.kept.empty()) << "every tensor comes back";
    }
  }
}

// -- the rule

TEST(GossipRule, EveryMemberIsSentTheFirstParametersOnce) {
  gossip_rule rule;
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})), (rule_effects{send_params{.to = {w(0), w(1)}, .ver = v(0), .epoch = e(1)}}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1)}));
  EXPECT_EQ(rule.on(plan_of(1, {0, 1, 2})), rule_effects{}) << "a repeated epoch";
  rule.on(push{.epoch = e(1), .id = {w(0), {}, {1}}, .gradient = t(100), .samples = 30});
  EXPECT_EQ(rule.on(plan_of(2, {1, 2})), (rule_effects{send_params{.to = {w(2)}, .ver = v(1), .epoch = e(2), .position = 30}}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(1), w(2)}));
}

TEST(GossipRule, EveryStepIsAVersionWithoutATensorAndIsNotAnswered) {
  gossip_rule rule;
  rule.on(plan_of(1, {0, 1}));
  const push first{.epoch = e(1), .id = {w(1), {}, {1}}, .gradient = t(100), .samples = 10, .loss = 2, .compute = 5, .at = 8};
  report made{.event = report::kind::round_closed, .ver = v(1), .worker = w(1), .loss = 2, .contributions = 1};
  made.compute = 5;
  made.at = 8;
  made.timings = {{w(1), 5, 8, 10}};
  EXPECT_EQ(rule.on(first),
            (rule_effects{apply{.ver = v(1), .epoch = e(1), .workers = 2, .samples = 10}, discard{t(100)}, made}));
  EXPECT_EQ(rule.current(), v(1));
}

TEST(GossipRule, AStepThatIsNotFiniteOrAStrangersMakesNoVersion) {
  gossip_rule rule;
  rule.on(plan_of(1, {0, 1}));
  const push wild{.epoch = e(1), .id = {w(0), {}, {1}}, .gradient = t(100), .samples = 10, .finite = false};
  EXPECT_EQ(rule.on(wild), (rule_effects{discard{t(100)}, report{.event = report::kind::push_not_finite, .worker = w(0)}}));
  const push stranger{.epoch = e(1), .id = {w(0), {1}, {1}}, .gradient = t(101), .samples = 10};
  EXPECT_EQ(only<report>(rule.on(stranger)).event, report::kind::push_refused);
  EXPECT_EQ(rule.current(), v(0));
}

TEST(GossipRule, TheCatalogRefusesMorePeersThanThereAre) {
  const auto entry = find_protocol("gossip");
  ASSERT_TRUE(entry && entry->decentralized);
  protocol_spec spec{.name = "gossip", .parameters = {{"peers", std::int64_t{3}}}};
  EXPECT_EQ(validate(*entry, spec, 4), std::vector<std::string>{});
  EXPECT_EQ(validate(*entry, spec, 3).size(), 1U);
  spec.parameters["peers"] = std::int64_t{0};
  EXPECT_EQ(validate(*entry, spec, 4).size(), 1U);
  spec.parameters["peers"] = std::int64_t{1};
  EXPECT_EQ(validate(*entry, spec, 1), std::vector<std::string>{}) << "nobody to send to is no mistake";
}

} // namespace
} // namespace troupe::protocols
