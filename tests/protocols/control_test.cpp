// SPDX-License-Identifier: BSD-3-Clause
// The coordinator with a controller: what it tells it, and how it carries its decisions out. When training has diverged.
#include <gtest/gtest.h>

#include "protocols/adacomm.hpp"
#include "protocols/coordinator.hpp"
#include "tests/protocols/started.hpp"

namespace troupe::protocols {
namespace {

/// What a controller heard, and what it is to decide next.
struct script {
  std::optional<decision> next{};
  nanoseconds interval = 0;
  std::vector<plan> plans{};
  std::vector<std::pair<report, double>> rounds{};
  std::vector<nanoseconds> intervals{};
};

class scripted final : public controller {
public:
  explicit scripted(script& does) : does_(does) {}
  void on(const plan& msg) override { does_.plans.push_back(msg); }
  std::optional<decision> on(const report& closed, double learning_rate) override {
    does_.rounds.emplace_back(closed, learning_rate);
    return std::exchange(does_.next, std::nullopt);
  }
  nanoseconds interval() const override { return does_.interval; }
  std::optional<decision> on_interval(nanoseconds at) override {
    does_.intervals.push_back(at);
    return std::exchange(does_.next, std::nullopt);
  }

private:
  script& does_;
};

/// Two workers of batch 10, an epoch of 100 samples.
coordinator_options two_that_are_told() {
  return {.workers = 2, .batch = 10, .data_size = 100, .period = 20, .stop = {.epochs = 3}};
}

const report closed_round{.event = report::kind::round_closed, .samples = 40, .loss = 0.5, .contributions = 2};

TEST(Control, EveryPlanIsToldBeforeItGoesOut) {
  script does;
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  EXPECT_TRUE(does.plans.empty());
  const plan first = only<send_plan>(subject.on(join(1))).plan;
  const plan second = only<send_plan>(subject.on(join(2))).plan;
  EXPECT_EQ(does.plans, (std::vector{first, second}));
}

TEST(Control, RoundsAreToldWithTheRateOfTheirSamples) {
  script does;
  coordinator_options options = two_that_are_told();
  options.learning_rate = [](std::uint64_t samples) { return 0.01 * static_cast<double>(samples); };
  coordinator subject{options, std::make_unique<scripted>(does)};
  subject.on(join(0));
  subject.on(join(1));
  EXPECT_EQ(subject.on(closed_round), coordinator_effects{});
  subject.on(report{.event = report::kind::push_not_finite});
  subject.on(report{.event = report::kind::push_discarded});
  EXPECT_EQ(does.rounds, (std::vector{std::pair{closed_round, 0.4}})) << "closed rounds alone";
}

TEST(Control, WithoutAScheduleTheRateIsOne) {
  script does;
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  subject.on(join(1));
  subject.on(closed_round);
  EXPECT_EQ(does.rounds.at(0).second, 1.0);
}

TEST(Control, DecisionIsSaidAndMadeAPlanThatLaterPlansKeep) {
  script does;
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  subject.on(join(1));
  const protocol_spec local{.name = "local"};
  does.next = decision{.period = 5, .protocol = local, .why = "the link is slow"};
  plan next = plan_of(2, {0, 1}, 10, 100);
  next.period = 5;
  next.protocol = local;
  EXPECT_EQ(subject.on(closed_round), (coordinator_effects{say{"the link is slow"}, send_plan{next}}));
  EXPECT_EQ(does.plans.back(), next);

  does.next = decision{.period = 3, .why = "shorter"};
  EXPECT_EQ(only<send_plan>(subject.on(closed_round)).plan.protocol, local) << "what is absent stays";
  const plan joined_later = only<send_plan>(subject.on(join(2))).plan;
  EXPECT_EQ(joined_later.period, 3u);
  EXPECT_EQ(joined_later.protocol, local);
}

TEST(Control, IntervalIsArmedWithTheFirstPlanAndAfterEachEnd) {
  script does{.interval = 750};
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  const arm_timer timer = only<arm_timer>(subject.on(join(1)));
  EXPECT_EQ(timer.delay, 750);
  EXPECT_EQ(subject.on(expired{timer.timer, 750}), (coordinator_effects{timer}));
  does.next = decision{.period = 5, .why = "shorter"};
  plan next = plan_of(2, {0, 1}, 10, 100);
  next.period = 5;
  EXPECT_EQ(subject.on(expired{timer.timer, 1500}), (coordinator_effects{say{"shorter"}, send_plan{next}, timer}));
  EXPECT_EQ(does.intervals, (std::vector<nanoseconds>{750, 1500}));
}

TEST(Control, TimersOfOthersAreNotTheControllers) {
  script does{.interval = 750};
  coordinator_options options = two_that_are_told();
  options.evaluate_every_ns = 500;
  options.stop.seconds = 900e-9;
  coordinator subject{options, std::make_unique<scripted>(does)};
  subject.on(join(0));
  const auto timers = all<arm_timer>(subject.on(join(1)));
  ASSERT_EQ(timers.size(), 3u);
  for (const arm_timer& each : timers)
    subject.on(expired{each.timer, 1000});
  EXPECT_EQ(does.intervals.size(), 1u);
}

TEST(Control, WithoutAControllerItsTimerIsNothing) {
  script does{.interval = 750};
  coordinator controlled{two_that_are_told(), std::make_unique<scripted>(does)}, subject{two_that_are_told()};
  for (const std::uint32_t worker : {0u, 1u})
    subject.on(join(worker));
  controlled.on(join(0));
  EXPECT_EQ(subject.on(expired{only<arm_timer>(controlled.on(join(1))).timer, 750}), coordinator_effects{});
}

TEST(Control, DecisionsGoOnDuringAnEvaluation) {
  script does;
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  subject.on(join(1));
  subject.on(held{.ver = v(5), .samples = 100});
  does.next = decision{.period = 5, .why = "shorter"};
  EXPECT_EQ(count<send_plan>(subject.on(closed_round)), 1u) << "it travels with the next round";
}

TEST(Control, AfterTheEndNothingIsDecided) {
  script does{.interval = 750};
  coordinator subject{two_that_are_told(), std::make_unique<scripted>(does)};
  subject.on(join(0));
  const arm_timer timer = only<arm_timer>(subject.on(join(1)));
  subject.on(held{.ver = v(15), .samples = 300});
  subject.on(evaluated{.ver = v(15)});
  ASSERT_TRUE(subject.stopped());
  EXPECT_EQ(subject.on(closed_round), coordinator_effects{});
  EXPECT_EQ(subject.on(expired{timer.timer, 750}), coordinator_effects{});
  EXPECT_TRUE(does.rounds.empty() && does.intervals.empty());
}

TEST(Control, AdaCommChangesThePeriodOfTheNextPlan) {
  coordinator_options options = two_that_are_told();
  options.learning_rate = [](std::uint64_t) { return 0.5; };
  coordinator subject{options, std::make_unique<adacomm>(adacomm_options{.initial_steps = 20, .interval = 1'000'000'000})};
  subject.on(join(0));
  const coordinator_effects first = subject.on(join(1));
  EXPECT_EQ(only<send_plan>(first).plan.period, 20u);
  report round = closed_round;
  round.loss = 2;
  subject.on(round);
  round.loss = 0.5;
  subject.on(round);
  const coordinator_effects out = subject.on(expired{only<arm_timer>(first).timer, 1'000'000'000});
  EXPECT_EQ(only<send_plan>(out).plan.period, 10u);
  EXPECT_EQ(only<say>(out).text, "adacomm at 1 s: loss 0.5 of 2, learning rate 0.5 of 0.5: communication period 20 -> 10");
}

// -- divergence

TEST(Coordinator, PushesThatAreNotFiniteEndAJobThatAppliesEachAlone) {
  coordinator_options options = two_that_are_told();
  options.max_rounds_without_update = 3;
  coordinator subject = started(options);
  const report wild{.event = report::kind::push_not_finite};
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(subject.on(wild), coordinator_effects{});
  EXPECT_EQ(subject.on(closed_round), coordinator_effects{}) << "one that is finite";
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(subject.on(wild), coordinator_effects{}) << "six of two workers are three rounds of each";
  EXPECT_EQ(subject.on(wild), (coordinator_effects{stop{true, "training diverged: no gradient of the last 6 pushes was finite; a "
                                                              "smaller learning rate may help"}}));
}

TEST(Coordinator, RoundsThatAreBarrenAreNamedInTheReason) {
  coordinator_options options = two_that_are_told();
  options.max_rounds_without_update = 2;
  coordinator subject = started(options);
  const report barren{.event = report::kind::round_closed};
  subject.on(barren);
  EXPECT_EQ(only<stop>(subject.on(barren)).reason,
            "training diverged: no gradient of the last 2 rounds was finite; a smaller learning rate may help");
}

TEST(Coordinator, ReportAfterTheLastWorkerDiedDoesNotSpoilTheLastEvaluation) {
  coordinator subject = started(two_that_are_told());
  subject.on(held{.ver = v(15), .samples = 300});
  subject.on(down{{w(0), {}}, "killed"});
  subject.on(down{{w(1), {}}, "killed"});
  ASSERT_FALSE(subject.stopped());
  EXPECT_EQ(subject.on(closed_round), coordinator_effects{}) << "nobody has diverged";
  EXPECT_FALSE(only<stop>(subject.on(evaluated{.ver = v(15)})).failed);
}

TEST(Coordinator, ReportBeforeTheFirstPlanIsNothing) {
  coordinator subject{two_that_are_told()};
  EXPECT_EQ(subject.on(closed_round), coordinator_effects{});
}

// -- nobody holds the parameters but the workers

TEST(Coordinator, DeathDuringACentrelessEvaluationAsksThoseLeftAgain) {
  coordinator_options options = two_that_are_told();
  options.decentralized = true;
  coordinator subject = started(options);
  EXPECT_EQ(count<evaluate>(subject.on(down{{w(0), {}}, "killed"})), 0u) << "no evaluation runs";
  subject.on(join(2));
  subject.on(held{.ver = v(5), .samples = 100});
  const coordinator_effects out = subject.on(down{{w(1), {}}, "killed"});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out.back(), (coordinator_effect{evaluate{v(5)}}));
  EXPECT_EQ(count<evaluate>(subject.on(down{{w(1), {}}, "killed"})), 0u) << "twice";
}

} // namespace
} // namespace troupe::protocols
