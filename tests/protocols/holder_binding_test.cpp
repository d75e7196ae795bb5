// SPDX-License-Identifier: BSD-3-Clause
// A holder's binding: who gets an order, when the job's clock is paused, and what a ticket names.
#include "protocols/binding/holder_binding.hpp"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/tree.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Decides what the test wrote down, and remembers what it heard. The lead names pushes 1, 2, ... in the order in which they are
/// complete.
struct scripted_rule final : rule {
  std::vector<push> heard;
  rule_effects next; ///< of the next message
  version made;

  rule_effects answer() {
    for (const apply& step : all<apply>(next))
      made = step.ver;
    return std::exchange(next, {});
  }
  rule_effects on(const plan&) override { return answer(); }
  rule_effects on(const push& msg) override {
    heard.push_back(msg);
    return answer();
  }
  rule_effects on(const worker_down&) override { return answer(); }
  rule_effects on(const expired&) override { return answer(); }
  rule_state state() const override { return {}; }
  void restore(const rule_state&) override {}
  version current() const override { return made; }
  std::vector<worker_id> waiting_for() const override { return {}; }
};

/// Tensors are strings, freed with their last handle.
struct shard_of_words {
  using tensor = std::shared_ptr<const std::string>;
  nanoseconds clock = 0;
  bool clock_runs = true;
  std::string newest = "first parameters";
  const holder* here = nullptr;
  std::vector<std::string> log; ///< of orders, and what becomes of them
  std::vector<std::vector<worker_id>> missing_when_served;
  std::vector<arrival> arrivals; ///< to a lead elsewhere
  std::vector<report> reports;
  std::vector<arm_timer> armed;
  std::vector<std::string> complaints;
  std::vector<measured> squares_wanted;
  decision_record recorded; ///< the last

  nanoseconds now() const { return clock; }
  void pause() { clock_runs = false; }
  void go_on() { clock_runs = true; }
  void arm(const arm_timer& timer) { armed.push_back(timer); }
  void tell_lead(const arrival& msg) { arrivals.push_back(msg); }
  void tell_lead(const prepared& msg) {
    log.push_back(fmt::format("{} {}prepared for {}", msg.holder.value, msg.possible ? "" : "cannot be ", msg.ver.value));
  }
  std::optional<tensor> sum_up(const close& round, const operands<tensor>& sum, const std::vector<holder_id>& backups) {
    log.push_back(fmt::format("sum of {} = {}, to {} backups", round.ver.value, text(sum), backups.size()));
    return sum.empty() ? std::nullopt : std::optional{std::make_shared<const std::string>("(" + text(sum) + ")")};
  }
  void measure(const measured& what, const tensor& sum) {
    log.push_back(fmt::format("measure {} for {}", *sum, what.ver.value));
    squares_wanted.push_back(what);
  }
  void tell_backups(const std::vector<holder_id>& backups, const decision_record& record) {
    log.push_back(fmt::format("record of {} inputs to {} backups", record.since.size(), backups.size()));
    recorded = record;
  }
  template <class Order>
  void tell_others(const Order& msg, nanoseconds head_start) {
    log.push_back(fmt::format("others: {}", text(msg)) + (head_start == 0 ? "" : fmt::format(", for {} ns", head_start)));
  }
  void apply(const close& round, const operands<tensor>& sum, const std::optional<tensor>& backup) {
    log.push_back(fmt::format("{} = {}", round.ver.value, text(sum)) + (backup ? fmt::format(", against {}", **backup) : ""));
  }
  void forward(const partial& head, const std::optional<tensor>& sum, const std::vector<holder_id>& parents) {
    log.push_back(fmt::format("part of {} = {}, to {} parents", head.ver.value, sum ? **sum : "nothing", parents.size()));
  }
  void serve(const send_order& msg) {
    log.push_back(fmt::format("serves {}", msg.ver.value));
    missing_when_served.push_back(here->workers_missing());
  }
  void follow(const send_order& msg) { log.push_back(fmt::format("follows {}", msg.ver.value)); }
  tensor parameters() const { return std::make_shared<const std::string>(newest); }
  void tell_coordinator(const report& fact) { reports.push_back(fact); }
  void tell_coordinator(const caught_up& msg) { log.push_back(fmt::format("{} has caught up", msg.holder.value)); }
  void ask_for_copy(holder_id of, const copy_request& msg) {
    log.push_back(fmt::format("asks {} for {} pieces of {}", of.value, msg.pieces.size(), msg.ver.value));
  }
  void send_copy(holder_id to, const shard_piece& msg) { log.push_back(fmt::format("piece {} to {}", msg.piece, to.value)); }
  void install(const shard_piece& msg, const tensor& data) { log.push_back(fmt::format("piece {} is {}", msg.piece, *data)); }
  void broken(const std::string& complaint) { complaints.push_back(complaint); }
  static bool checks() { return true; }
  template <class Message>
  void tells_itself(const Message& msg) {
    log.push_back(fmt::format("itself: {}", text(msg)));
  }
  void decided(const lead_effects&) {}
  void retains(std::size_t) {}

  static std::string text(const arrival& msg) { return fmt::format("arrival of worker {}", msg.push.id.worker.value); }
  static std::string text(const close& msg) { return fmt::format("close {}", msg.ver.value); }
  static std::string text(const send_order& msg) { return fmt::format("send {}", msg.ver.value); }
  static std::string text(const drop_order& msg) { return fmt::format("drop worker {}'s", msg.id.worker.value); }
  static std::string text(const commit_order& msg) { return fmt::format("commit {}", msg.ver.value); }
  static std::string text(const admit_order& msg) { return fmt::format("admit {}", msg.holder.value); }
  static std::string text(const operands<tensor>& sum) {
    std::string out;
    for (const auto& part : sum)
      out += fmt::format("{}{} {}", out.empty() ? "" : " + ", part.weight, *part.tensor);
    return out.empty() ? "nothing" : out;
  }
};

class HolderBinding : public testing::Test {
protected:
  using tensor = shard_of_words::tensor;
  using handle = std::weak_ptr<const std::string>;

  shard_of_words world;
  scripted_rule* rule = nullptr; ///< of the lead here
  std::unique_ptr<holder_binding<shard_of_words>> subject;

  /// Shard 0 and the job's lead.
  void shard_that_leads() { bind({.self = h(0), .workers = everybody}, true); }
  /// The same above aggregator 2, to which workers push.
  void shard_above_an_aggregator() {
    lead_succession leads;
    leads.make = [this](lead_state from) {
      auto made = std::make_unique<scripted_rule>();
      rule = made.get();
      return std::make_shared<lead>(std::move(made), tree_shape{}, false, std::move(from));
    };
    leads.first.holders = {h(0)};
    const holder_place place{.self = h(0), .children = {h(2)}, .commits = true, .tree = tree_shape{.workers = 2, .fan_in = 2}};
    subject = std::make_unique<holder_binding<shard_of_words>>(world, place, std::move(leads));
    begin();
  }
  /// Shard 1, whose orders come from shard 0.
  void shard_that_follows() { bind({.self = h(1), .workers = everybody}, false); }
  /// Each shard applies pushes alone.
  void shard_alone(std::uint32_t self) { bind({.self = h(self), .workers = everybody}, true, true); }
  /// Aggregator 2, below shard 0.
  void aggregator() {
    bind({.self = h(2), .is_shard = false, .parents = {h(0)}, .workers = everybody, .commits = true, .tree = tree_shape{}},
         false);
  }

  /// The rule's answer to what it hears next.
  void decide(rule_effects effects) { rule->next = std::move(effects); }
  /// The first of this worker under the first plan.
  static push push_of(std::uint32_t worker) { return {.epoch = e(1), .id = {w(worker), {}, {1}}, .samples = 10}; }
  /// It is there for as long as the subject keeps it.
  handle hear_push(std::uint32_t worker, const std::string& gradient) {
    auto kept = std::make_shared<const std::string>(gradient);
    handle out = kept;
    subject->on(push_of(worker), std::optional<tensor>{std::move(kept)});
    return out;
  }
  /// Of the first decision.
  handle hear_sum(std::uint32_t child, std::uint64_t ver, const std::string& sum) {
    auto kept = std::make_shared<const std::string>(sum);
    handle out = kept;
    subject->on(partial{.from = h(child), .ver = v(ver), .decision = 1}, std::optional<tensor>{std::move(kept)});
    return out;
  }
  std::vector<std::string> said() { return std::exchange(world.log, {}); }

private:
  const std::set<worker_id> everybody{w(0), w(1)};

  void bind(holder_place place, bool leads, bool per_push = false) {
    std::shared_ptr<lead> decides;
    if (leads) {
      auto made = std::make_unique<scripted_rule>();
      rule = made.get();
      decides = std::make_shared<lead>(std::move(made), tree_shape{}, per_push);
    }
    subject = std::make_unique<holder_binding<shard_of_words>>(world, std::move(place), std::move(decides), per_push);
    begin();
  }
  void begin() {
    world.here = &subject->machine();
    subject->on(plan_of(1, {0, 1}));
  }
};

// -- what comes in

TEST_F(HolderBinding, APushIsToldToALeadElsewhereWithTheTimeOfItsArrivalHere) {
  shard_that_follows();
  world.clock = 70;
  hear_push(0, "a");
  push told = push_of(0);
  told.at = 70;
  EXPECT_THAT(world.arrivals, ElementsAre(arrival{h(1), told})) << "and without its ticket, which is this shard's";
}

TEST_F(HolderBinding, AnArrivalFromElsewhereHasTheTimeAtWhichItReachesTheLead) {
  shard_that_leads();
  world.clock = 70;
  arrival msg{h(1), push_of(0)};
  msg.push.at = 20; // by the other shard's clock
  subject->on(msg);
  ASSERT_EQ(rule->heard.size(), 1u);
  EXPECT_EQ(rule->heard[0].at, 70);
}

TEST_F(HolderBinding, AnArrivalAtItsOwnLeadIsHeardOnceAndNotSent) {
  shard_that_leads();
  decide({discard{t(1)}});
  hear_push(0, "a");
  EXPECT_THAT(world.arrivals, IsEmpty());
  EXPECT_THAT(said(), ElementsAre("itself: arrival of worker 0", "others: drop worker 0's", "itself: drop worker 0's"))
      << "a second time, there would be a second order";
}

TEST_F(HolderBinding, WhatItsLeadOrdersUnderAPlanFindsAHolderThatHasHeardOfThatPlan) {
  shard_that_leads();
  decide({send_params{.to = {w(1)}, .epoch = e(2)}});
  subject->on(plan_of(2, {1}));
  EXPECT_THAT(world.missing_when_served, ElementsAre(std::vector{w(1)}));
}

TEST_F(HolderBinding, WithoutALeadWhatIsForALeadIsNothing) {
  shard_that_follows();
  subject->on(arrival{h(0), push_of(0)});
  subject->on(hold_order{.now = true});
  subject->on(fetch_order{});
  subject->on(expired{});
  subject->on(resume_order{});
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_THAT(world.reports, IsEmpty());
}

// -- who hears an order

TEST_F(HolderBinding, AnOrderReachesTheOthersBeforeItIsPerformedHere) {
  shard_that_leads();
  decide(
      {apply{.sum = {{t(1), 1}}, .ver = v(1)}, send_params{.to = {w(0)}, .ver = v(1)}, send_params{.to = {w(1)}, .ver = v(1)}});
  hear_push(0, "a");
  EXPECT_THAT(said(), ElementsAre("itself: arrival of worker 0", "others: close 1", "itself: close 1", "1 = 1 a",
                                  "others: send 1", "itself: send 1", "serves 1"));
}

TEST_F(HolderBinding, OrdersOfAShardThatAppliesPushesAloneStayHere) {
  shard_alone(0);
  decide(
      {apply{.sum = {{t(1), 1}}, .ver = v(1)}, send_params{.to = {w(0)}, .ver = v(1)}, send_params{.to = {w(1)}, .ver = v(1)}});
  hear_push(0, "a");
  decide({discard{t(2)}});
  hear_push(1, "b");
  EXPECT_THAT(said(), ElementsAre("itself: arrival of worker 0", "itself: close 1", "1 = 1 a", "itself: send 1", "serves 1",
                                  "itself: arrival of worker 1", "itself: drop worker 1's"));
}

TEST_F(HolderBinding, AnEvaluationTakesEveryShardsParametersEvenWhereEachAppliesPushesAlone) {
  shard_alone(0);
  subject->on(fetch_order{});
  EXPECT_THAT(said(), ElementsAre("others: send 0", "itself: send 0", "serves 0"));
}

TEST_F(HolderBinding, WhatTheLeadReportsGoesToTheCoordinatorAndItsTimersToTheDriver) {
  shard_that_leads();
  decide({report{.event = report::kind::round_closed, .ver = v(3)}, arm_timer{{1}, 50}});
  subject->on(plan_of(2, {0, 1}));
  EXPECT_THAT(world.reports, ElementsAre(report{.event = report::kind::round_closed, .ver = v(3)}));
  EXPECT_THAT(world.armed, ElementsAre(arm_timer{{1}, 50}));
}

// -- the job's clock

TEST_F(HolderBinding, TheClockStandsStillOnceTheVersionAtWhichItHoldsIsMadeHereAndUntilItGoesOn) {
  shard_above_an_aggregator();
  subject->on(hold_order{.now = true});
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1), .samples = 10}});
  subject->on(arrival{h(2), push_of(0)});
  EXPECT_TRUE(world.clock_runs) << "the sum that the version is made of is on its way";
  EXPECT_THAT(world.reports, IsEmpty());
  hear_sum(2, 1, "s");
  EXPECT_FALSE(world.clock_runs);
  EXPECT_THAT(world.reports, ElementsAre(report{.event = report::kind::held, .ver = v(1), .samples = 10}));
  subject->on(plan_of(2, {0, 1}));
  EXPECT_FALSE(world.clock_runs) << "it holds";
  subject->on(resume_order{});
  EXPECT_TRUE(world.clock_runs);
}

TEST_F(HolderBinding, AnotherShardsLeadLeavesTheClockAlone) {
  shard_alone(1);
  world.clock_runs = false; // the job is held at shard 0
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1)}});
  hear_push(0, "a");
  EXPECT_FALSE(world.clock_runs);
}

TEST_F(HolderBinding, ParametersThatWereHeldBackHaveBeenUnderWaySinceTheLeadDecided) {
  shard_above_an_aggregator();
  subject->on(hold_order{.now = true});
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1)}, send_params{.to = {w(0), w(1)}, .ver = v(1)}});
  subject->on(arrival{h(2), push_of(0)});
  world.clock = 100;
  hear_sum(2, 1, "s"); // the report of the hold comes with the commit
  world.clock = 130;
  EXPECT_EQ(said().back(), "1 = 1 (1 s)");
  subject->on(resume_order{});
  EXPECT_THAT(said(), ElementsAre("others: send 1, for 30 ns", "itself: send 1", "serves 1"));
  decide({send_params{.to = {w(1)}, .ver = v(1)}});
  subject->on(plan_of(2, {0, 1}));
  EXPECT_THAT(said(), ElementsAre("others: send 1", "itself: send 1", "serves 1")) << "these were not held back";
}

TEST_F(HolderBinding, AVersionThatIsDecidedAtTheResumeIsUnderWaySinceThen) {
  shard_above_an_aggregator();
  subject->on(hold_order{.now = true});
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1)}});
  subject->on(arrival{h(2), push_of(0)});
  world.clock = 100;
  hear_sum(2, 1, "s");
  world.clock = 130;
  subject->on(arrival{h(2), push_of(1)});
  said();
  decide({apply{.sum = {{t(2), 1}}, .ver = v(2)}});
  subject->on(resume_order{});
  EXPECT_THAT(said(), ElementsAre("others: close 2", "itself: close 2"));
}

// -- tickets

TEST_F(HolderBinding, AVersionIsMadeOfThePushesThatItsCloseNamesAndThenTheyAreGone) {
  shard_that_leads();
  const handle a = hear_push(0, "a");
  EXPECT_FALSE(a.expired());
  EXPECT_THAT(subject->pushes(), ElementsAre(std::pair{t(1), push_of(0).id}));
  said();
  decide({apply{.sum = {{t(1), 0.25}, {t(2), 0.75}}, .ver = v(1)}});
  const handle b = hear_push(1, "b");
  EXPECT_EQ(world.log.back(), "1 = 0.25 a + 0.75 b");
  EXPECT_TRUE(a.expired());
  EXPECT_TRUE(b.expired());
  EXPECT_THAT(subject->pushes(), IsEmpty());
}

TEST_F(HolderBinding, APushThatALaterCloseMayNameIsThereForIt) {
  shard_that_leads();
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1), .keep = true}});
  const handle a = hear_push(0, "a");
  decide({apply{.sum = {{t(1), 0.5}, {t(2), 0.5}}, .ver = v(2), .keep = true}});
  hear_push(1, "b");
  EXPECT_EQ(world.log.back(), "2 = 0.5 a + 0.5 b");
  EXPECT_FALSE(a.expired());
  decide({discard{t(1)}});
  subject->on(plan_of(2, {0, 1}));
  EXPECT_TRUE(a.expired());
  EXPECT_THAT(world.complaints, IsEmpty());
}

TEST_F(HolderBinding, AChildsSumIsForOneVersionThoughLaterOnesMayNameItsPushes) {
  shard_above_an_aggregator();
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1), .keep = true}});
  subject->on(arrival{h(2), push_of(0)});
  const handle sum = hear_sum(2, 1, "s");
  EXPECT_EQ(world.log.back(), "1 = 1 (1 s)");
  EXPECT_TRUE(sum.expired());
}

TEST_F(HolderBinding, WhatTheMachineRefusesIsGone) {
  shard_that_follows();
  const handle first = hear_push(0, "a"), again = hear_push(0, "a, again");
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(again.expired());
  subject->on(drop_order{push_of(0).id});
  EXPECT_TRUE(first.expired());
  EXPECT_THAT(world.complaints, IsEmpty());
}

TEST_F(HolderBinding, WithoutATensorAPushOrASumIsNoTerm) {
  shard_above_an_aggregator();
  const std::optional<tensor> none;
  subject->on(partial{.from = h(2), .ver = v(1), .decision = 1}, none);
  subject->on(push_of(0), none);
  subject->on(close{.epoch = e(1), .ver = v(1), .contributions = {{push_of(0).id, 1}}, .decision = 1});
  EXPECT_EQ(world.log.back(), "sum of 1 = nothing, to 0 backups");
  subject->on(commit_order{v(1), 1});
  EXPECT_EQ(world.log.back(), "1 = nothing");
  EXPECT_THAT(subject->pushes(), IsEmpty());
}

TEST_F(HolderBinding, AnAggregatorForwardsItsSum) {
  aggregator();
  const handle a = hear_push(0, "a");
  subject->on(close{.epoch = e(1), .ver = v(1), .contributions = {{push_of(0).id, 0.5}}, .decision = 1});
  EXPECT_THAT(said(), ElementsAre("sum of 1 = 0.5 a, to 0 backups", "part of 1 = (0.5 a), to 1 parents"));
  EXPECT_FALSE(a.expired()) << "the version may not come to be";
  subject->on(commit_order{v(1), 1});
  EXPECT_TRUE(a.expired());
}

TEST_F(HolderBinding, ABackupFollowsWhatItsShardServes) {
  subject =
      std::make_unique<holder_binding<shard_of_words>>(world, holder_tree({.workers = 2, .replicas = 2})[1], lead_succession{});
  subject->on(send_order{.ver = v(0), .to = {w(0)}});
  EXPECT_THAT(said(), ElementsAre("follows 0"));
}

/// Whoever has heard that it leads tells it of pushes, before it hears of the lead before it.
TEST_F(HolderBinding, ABackupThatWillLeadKeepsWhatItIsToldThoughAnotherOneLeadsFirst) {
  const tree_shape shape{.workers = 2, .shards = 2, .replicas = 3};
  lead_succession leads;
  leads.make = [&](lead_state from) {
    auto made = std::make_unique<scripted_rule>();
    rule = made.get();
    return std::make_shared<lead>(std::move(made), shape, false, std::move(from));
  };
  subject = std::make_unique<holder_binding<shard_of_words>>(world, holder_tree(shape)[4], std::move(leads));
  world.here = &subject->machine();
  subject->on(plan_of(1, {0, 1}));
  subject->on(arrival{h(1), push_of(0)});
  subject->on(takes_over{.shard = h(0), .by = h(2), .view = 1});
  subject->on(takes_over{.shard = h(0), .by = h(4), .view = 2, .holders = {h(0), h(1)}});
  subject->on(plan_of(2, {0, 1}));
  subject->on(hold_order{.at_version = 9});
  ASSERT_TRUE(rule != nullptr && rule->heard.empty());
  hear_push(0, "a");
  EXPECT_EQ(rule->heard.size(), 1u) << "both shards have it";
}

// -- a backup that catches up

TEST_F(HolderBinding, APieceOfItsShardIsInstalledAndThenItIsGone) {
  holder_place place = holder_tree({.workers = 2, .replicas = 2})[1];
  subject = std::make_unique<holder_binding<shard_of_words>>(world, place, lead_succession{});
  subject->replace(holder_state{.joins = catch_up{.pieces = 2}});
  subject->on(admit_order{.holder = h(1), .ver = v(4)});
  auto kept = std::make_shared<const std::string>("half");
  const handle data = kept;
  subject->on(shard_piece{.ver = v(4)}, std::optional<tensor>{std::move(kept)});
  EXPECT_TRUE(data.expired());
  subject->on(shard_piece{.ver = v(4), .piece = 1}, std::nullopt);
  EXPECT_THAT(said(), ElementsAre("asks 0 for 2 pieces of 4", "piece 0 is half", "1 has caught up"));
}

TEST_F(HolderBinding, TheLeadsBackupsHearOfANewOneWhatIsDecided) {
  shard_above_an_aggregator();
  subject->on(new_backup{h(3), h(0)});
  EXPECT_THAT(said(), ElementsAre("others: admit 3", "itself: admit 3", "record of 0 inputs to 1 backups"));
  subject->on(new_backup{h(4), h(1)});
  EXPECT_THAT(said(), ElementsAre("others: admit 4", "itself: admit 4")) << "of another shard";
}

TEST_F(HolderBinding, ABackupKeepsTheNewestOfWhatItIsToldToGoOnFrom) {
  subject =
      std::make_unique<holder_binding<shard_of_words>>(world, holder_tree({.workers = 2, .replicas = 2})[1], lead_succession{});
  subject->on(decision_record{.from = {.made = v(4)}, .decision = 5});
  subject->on(decision_record{.from = {.made = v(3)}, .decision = 4});
  EXPECT_EQ(subject->report_to_next()->made, v(4)) << "the last lead's came late";
  subject->on(decision_record{.from = {.made = v(5)}, .decision = 5});
  EXPECT_EQ(subject->report_to_next()->made, v(5)) << "one that is new joins before the next decision";
}

TEST_F(HolderBinding, ThePlanOfTheOpenRoundIsToldTheNextCoordinatorHoweverManyCameSince) {
  shard_that_leads();
  decide({send_params{.to = {w(0), w(1)}, .epoch = e(2)}});
  subject->on(plan_of(2, {0, 1}));
  subject->on(send_order{.epoch = e(1), .to = {evaluator}});
  for (std::uint32_t epoch = 3; epoch <= 12; ++epoch)
    subject->on(plan_of(epoch, {0, 1}));
  const std::vector<plan> told = subject->report_to_next()->plans;
  EXPECT_EQ(told.size(), most_plans);
  EXPECT_EQ(told[0], plan_of(2, {0, 1}));
  EXPECT_EQ(told[1], plan_of(6, {0, 1})) << "the others are the last";
  subject->on(send_order{.epoch = e(12), .to = {w(1)}});
  subject->on(plan_of(13, {0, 1}));
  EXPECT_EQ(subject->report_to_next()->plans.front().epoch, e(6));
}

/// It may lead when a worker has missed one under which parameters are on their way.
TEST_F(HolderBinding, ABackupThatComesLaterKnowsThePlansThatTheLeadKnows) {
  shard_above_an_aggregator();
  subject->on(plan_of(3, {0, 1}));
  subject->on(new_backup{h(4), h(1)});
  EXPECT_THAT(world.recorded.plans, IsEmpty()) << "of another shard";
  subject->on(new_backup{h(3), h(0)});
  ASSERT_THAT(world.recorded.plans, ElementsAre(plan_of(1, {0, 1}), plan_of(3, {0, 1})));
  subject =
      std::make_unique<holder_binding<shard_of_words>>(world, holder_tree({.workers = 2, .replicas = 2})[1], lead_succession{});
  subject->on(plan_of(3, {0, 1}));
  subject->on(plan_of(4, {0, 1}));
  subject->on(world.recorded);
  EXPECT_THAT(subject->report_to_next()->plans, ElementsAre(plan_of(1, {0, 1}), plan_of(3, {0, 1}), plan_of(4, {0, 1})));
}

TEST_F(HolderBinding, AGradientIsCompensatedWithTheParametersAsTheyWereWhenTheyWereRetained) {
  shard_alone(1);
  decide({retain{t(9)}});
  subject->on(plan_of(2, {0, 1}));
  world.newest = "second parameters";
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1), .compensate = {.lambda = 0.04, .backup = t(9)}}, release{t(9)}});
  hear_push(0, "a");
  EXPECT_EQ(world.log.back(), "1 = 1 a, against first parameters");
  EXPECT_EQ(subject->retained(), 0u);
  EXPECT_THAT(world.complaints, IsEmpty());
}

TEST_F(HolderBinding, AnOrderThatNamesWhatIsNotKeptIsSaid) {
  shard_alone(1);
  decide({release{t(9)}});
  subject->on(plan_of(2, {0, 1}));
  EXPECT_EQ(world.complaints.size(), 1u);
  decide({apply{.sum = {{t(1), 1}}, .ver = v(1), .compensate = {.lambda = 0.04, .backup = t(9)}}});
  hear_push(0, "a");
  EXPECT_EQ(world.complaints.size(), 2u);
  EXPECT_EQ(world.log.back(), "1 = 1 a");
  subject->on(close{.ver = v(2), .contributions = {{push_of(1).id, 1}}});
  EXPECT_EQ(world.complaints.size(), 3u);
}

} // namespace
} // namespace troupe::protocols
