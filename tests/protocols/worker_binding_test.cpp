// SPDX-License-Identifier: BSD-3-Clause
// A worker's binding: which parts make a set, under which plan a step is, and what a ticket names.
#include "protocols/binding/worker_binding.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Does what the test wrote down, and remembers what it heard.
struct scripted_worker final : worker {
  std::vector<params> heard;
  std::vector<computed> done;
  std::vector<peer_message> messages;
  worker_effects next; ///< of the next message
  kept_replica keeps;
  std::optional<version> later; ///< it saves this version, and those after it, by itself

  worker_effects answer() { return std::exchange(next, {}); }
  worker_effects on(const plan&) override { return answer(); }
  worker_effects on(const params& msg) override {
    heard.push_back(msg);
    return answer();
  }
  worker_effects on(const computed& msg) override {
    done.push_back(msg);
    return answer();
  }
  worker_effects on(const peer_message& msg) override {
    messages.push_back(msg);
    return answer();
  }
  kept_replica kept() const override { return keeps; }
  bool saves_later(version ver) const override { return later && *later <= ver; }
};

/// Tensors are words; a set has a part of each of two shards.
struct world_of_words {
  using tensor = std::string;
  std::map<std::uint64_t, std::map<std::uint32_t, std::string>> parts;
  std::vector<std::string> anchors, pushed, complaints;
  std::vector<std::uint32_t> plans_of_steps;
  std::vector<std::uint64_t> saved;
  std::vector<std::string> wholes;
  std::vector<operands<tensor>> mixed, summed;
  std::vector<std::string> again;    ///< pushes
  std::vector<std::string> replicas; ///< that were saved
  bool way_is_free = true;
  std::vector<worker_id> sent_to;
  std::vector<std::string> chunks, steps, refusals;

  std::optional<tensor> join(const params& head, const std::pair<std::uint32_t, std::string>& part) {
    auto& set = parts[head.key];
    set.insert(part);
    if (set.size() < 2)
      return std::nullopt;
    auto whole = set[0] + set[1];
    parts.erase(head.key);
    return whole;
  }
  std::optional<tensor> join(const peer_message&, const std::string& whole) { return whole; }
  void adopt(version, const tensor& anchor) { anchors.push_back(anchor); }
  void save(version marked, const kept_replica& kept, const operands<tensor>& replica) {
    saved.push_back(marked.value);
    std::string terms;
    for (const auto& each : replica)
      terms += fmt::format("{}{} * {}", terms.empty() ? "" : " + ",
                           each.from == operand<tensor>::source::own ? "own" : each.tensor, each.weight);
    replicas.push_back(fmt::format("{}; weight {}, at {}", terms, kept.weight, kept.position));
  }
  void save_all(version ver, const worker_course& course, const plan& newest) {
    wholes.push_back(fmt::format("{} at {} under plan {}", ver.value, course.position, newest.epoch.value));
  }
  void begin(const compute&, const plan& with, const local_step*) { plans_of_steps.push_back(with.epoch.value); }
  void mix(const operands<tensor>& terms) { mixed.push_back(terms); }
  void dual(double) {}
  void send(const push&, std::optional<tensor> gradient) { pushed.push_back(gradient.value_or("nothing")); }
  void send(const push&, const operands<tensor>& sum, bool) { summed.push_back(sum); }
  void push_again(std::optional<holder_id> to) { again.push_back(to ? "to " + std::to_string(to->value) : "to all"); }
  bool reaches(worker_id) const { return way_is_free; }
  void send(const send_peer& effect) { sent_to.push_back(effect.to); }
  tensor send_chunk(const send_peer& effect, const tensor& of) {
    chunks.push_back(of + " to " + std::to_string(effect.to.value));
    return of + ", sent";
  }
  tensor add_up(const tensor& to, const segment_range&, const operands<tensor>& sum) {
    tensor out;
    for (const auto& term : sum)
      out += (out.empty() ? "" : " + ") + (term.from == operand<tensor>::source::own ? to : term.tensor);
    return out;
  }
  void take_step(const protocols::take_step& order, const tensor& sum) {
    steps.push_back(std::to_string(order.round.ver.value) + ": " + sum);
    if (order.part != segment_range{})
      steps.back() += fmt::format(" in {} of {}", order.part.first, order.part.of);
  }
  void undo_steps() { steps.push_back("undone"); }
  void mix_common(const segment_range& part, double own) { steps.push_back(fmt::format("{} own {}", part.first, own)); }
  void take_state(version ver, const tensor& from) { steps.push_back(std::to_string(ver.value) + " is " + from); }
  void refused(const std::string& why) { refusals.push_back(why); }
  void broken(const std::string& complaint) { complaints.push_back(complaint); }
  static bool checks() { return true; }
};

class WorkerBinding : public testing::Test {
protected:
  world_of_words world;
  std::shared_ptr<scripted_worker> machine = std::make_shared<scripted_worker>();
  /// The second incarnation of worker 0.
  std::unique_ptr<worker_binding<world_of_words>> subject = bound(false);

  std::unique_ptr<worker_binding<world_of_words>> bound(bool keeps_own) {
    return std::make_unique<worker_binding<world_of_words>>(world, machine, member{w(0), {1}}, keeps_own);
  }
  void plan_with(std::uint32_t epoch, std::uint32_t incarnation) {
    auto msg = plan_of(epoch, {0, 1});
    msg.workers[0].incarnation = {incarnation};
    subject->on(std::make_shared<const plan>(msg));
  }
  void part(std::uint32_t epoch, std::uint64_t key, std::uint32_t shard, const std::string& content) {
    subject->on(params{.epoch = {epoch}, .ver = {10 * key + shard}, .key = key}, h(shard), std::pair{shard, content});
  }
  void set(std::uint32_t epoch, std::uint64_t key, const std::string& content) {
    part(epoch, key, 0, content);
    part(epoch, key, 1, "");
  }
  void do_next(worker_effects effects) { machine->next = std::move(effects); }
  /// Hears it with the next plan.
  void perform(worker_effects effects) {
    do_next(std::move(effects));
    plan_with(subject->newest()->epoch.value + 1, 1);
  }
};

TEST_F(WorkerBinding, WhereAllHaveTheSameOneSavesThatToo) {
  subject = bound(true);
  plan_with(2, 1);
  perform({save_replica{v(5), false, {.position = 40}}});
  EXPECT_EQ(world.saved, std::vector<std::uint64_t>{5});
  EXPECT_TRUE(world.wholes.empty());
  perform({save_replica{v(7), true, {.position = 60}}});
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{5, 7}));
  EXPECT_EQ(world.wholes, std::vector<std::string>{"7 at 60 under plan 4"});
  subject->on(keep_order{v(7)});
  EXPECT_EQ(world.saved.size(), 2U) << "that is done";
}

// Another worker has made the version, and saved it, before this one has.
TEST_F(WorkerBinding, AVersionThatItIsStillToMakeIsSavedThen) {
  subject = bound(true);
  plan_with(2, 1);
  machine->later = v(6);
  subject->on(keep_order{v(5)});
  subject->on(keep_order{v(6)});
  EXPECT_EQ(world.saved, std::vector<std::uint64_t>{5});
  perform({save_replica{v(6), false, {}}});
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{5, 6}));
}

// A peer has given it that version, or a later one: it does not make it any more, and the coordinator waits for its file.
TEST_F(WorkerBinding, AVersionThatItIsGivenInsteadIsSavedThen) {
  subject = bound(true);
  plan_with(2, 1);
  machine->later = v(1);
  for (const std::uint64_t ver : {5, 8, 6})
    subject->on(keep_order{v(ver)});
  EXPECT_TRUE(world.saved.empty());
  perform({save_replica{v(5), false, {}}});
  subject->on(peer_message{.from = {w(1), {}}, .is = peer_message::kind::state}, std::string("all"));
  perform({take_state{v(6), machine->messages.back().data}});
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{5, 6})) << "the eighth is to come";
  subject->on(peer_message{.from = {w(1), {}}, .is = peer_message::kind::state}, std::string("all"));
  perform({take_state{v(9), machine->messages.back().data}});
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{5, 6, 8}));
}

TEST_F(WorkerBinding, ParametersOfItsOwnAreSavedAsItsMachineNamesThem) {
  subject = bound(true);
  plan_with(2, 1);
  subject->on(peer_message{.from = {w(1), {}}, .round = 1, .weight = 0.25}, std::string("theirs"));
  machine->keeps = {.sum = {{own_parameters, 0.75}, {machine->messages.back().data, 0.25}}, .weight = 2, .position = 40};
  subject->on(keep_order{v(7)});
  EXPECT_EQ(world.replicas, std::vector<std::string>{"own * 0.75 + theirs * 0.25; weight 2, at 40"});
  EXPECT_THAT(world.complaints, IsEmpty());
}

TEST_F(WorkerBinding, WhatItKeepsIsSavedOnceForEachMarkedVersionAndBeforeItGoesOn) {
  plan_with(2, 1);
  const auto adopts = [this](std::uint64_t key, std::uint64_t marked) {
    for (const std::uint32_t shard : {0, 1})
      subject->on(params{.epoch = {2}, .ver = {key}, .key = key, .marked = {marked}}, h(shard),
                  std::pair{shard, std::string("p")});
    perform({adopt{v(key), machine->heard.back().parameters}});
  };
  adopts(5, 3);
  EXPECT_TRUE(world.saved.empty()) << "it joined after version 3: of that it kept nothing";
  adopts(6, 6);
  EXPECT_EQ(world.saved, std::vector<std::uint64_t>{6});
  adopts(7, 6);
  EXPECT_EQ(world.saved.size(), 1u) << "since then it has taken steps";
  adopts(9, 8); // it took no part in the round of version 8
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{6, 8}));
  adopts(10, 11); // from a lead that is further: the marked one is still to come
  EXPECT_EQ(world.saved.size(), 2u);
  adopts(11, 11);
  EXPECT_EQ(world.saved, (std::vector<std::uint64_t>{6, 8, 11}));
  subject->on(keep_order{v(11)});
  EXPECT_EQ(world.saved.size(), 3u) << "that is done";
  subject->on(keep_order{v(14)}); // the job is held: no parameters come
  EXPECT_EQ(world.saved.back(), 14u);
  subject->on(keep_order{v(12)}); // whose shard took long to write its file
  EXPECT_EQ(world.saved.back(), 12u) << "the coordinator waits for it";
  subject->on(keep_order{v(12)});
  EXPECT_EQ(world.saved.size(), 5u);
}

TEST_F(WorkerBinding, PartsOfAnOlderIncarnationAreNotJoinedWithItsOwn) {
  plan_with(2, 0);
  part(2, 1, 1, "old"); // sent to the first incarnation, whose clock was at 1, too
  plan_with(3, 1);
  part(2, 1, 1, "old, and late");
  part(3, 1, 0, "new ");
  EXPECT_THAT(machine->heard, IsEmpty());
  part(3, 1, 1, "part");
  ASSERT_EQ(machine->heard.size(), 1u);
  do_next({adopt{v(1), machine->heard[0].parameters}});
  plan_with(4, 1);
  EXPECT_THAT(world.anchors, ElementsAre("new part"));
}

TEST_F(WorkerBinding, PartsAheadOfTheirPlanAreHeardOnceItHasCome) {
  set(3, 1, "first");
  EXPECT_THAT(machine->heard, IsEmpty());
  plan_with(2, 1);
  EXPECT_THAT(machine->heard, IsEmpty()) << "of the plan after that";
  plan_with(3, 1);
  ASSERT_EQ(machine->heard.size(), 1u);
  plan_with(3, 1);
  EXPECT_EQ(machine->heard.size(), 1u);
}

TEST_F(WorkerBinding, ASetHasTheHeadOfTheLeadShard) {
  plan_with(1, 1);
  part(1, 4, 1, "b");
  part(1, 4, 0, "a");
  ASSERT_EQ(machine->heard.size(), 1u);
  EXPECT_EQ(machine->heard[0].ver, v(40));
  EXPECT_NE(machine->heard[0].parameters, ticket{});
}

TEST_F(WorkerBinding, ASendingThatComesAgainHasTheSameTicket) {
  plan_with(1, 1);
  set(1, 1, "once");
  set(1, 1, "once");
  ASSERT_EQ(machine->heard.size(), 2u);
  EXPECT_EQ(machine->heard[0].parameters, machine->heard[1].parameters);
}

TEST_F(WorkerBinding, AStepKeepsThePlanOfItsParameters) {
  plan_with(1, 1);
  set(1, 1, "a");
  perform({adopt{v(1), machine->heard[0].parameters}, compute{}});
  perform({compute{}});
  EXPECT_THAT(world.plans_of_steps, ElementsAre(1, 1));
  set(3, 2, "b");
  perform({adopt{v(2), machine->heard[1].parameters}, compute{}});
  EXPECT_THAT(world.plans_of_steps, ElementsAre(1, 1, 3));
}

TEST_F(WorkerBinding, WhoHoldsTheParametersItselfGoesByTheNewestPlan) {
  subject = bound(true);
  plan_with(1, 1);
  set(1, 1, "a");
  perform({adopt{v(1), machine->heard[0].parameters}, compute{}});
  perform({compute{}});
  EXPECT_THAT(world.plans_of_steps, ElementsAre(2, 3));
}

TEST_F(WorkerBinding, AdoptingLetsGoOfWhatIsOlder) {
  plan_with(1, 1);
  set(1, 1, "a");
  set(1, 2, "b");
  perform({adopt{v(2), machine->heard[1].parameters}});
  perform({mix{{{machine->heard[0].parameters, 1}}}});
  EXPECT_EQ(world.complaints.size(), 1u);
}

TEST_F(WorkerBinding, APushLetsGoOfItsParametersAlone) {
  plan_with(1, 1);
  set(1, 1, "a");
  set(1, 2, "a"); // the same version again, under a key of its own
  perform({adopt{v(1), machine->heard[0].parameters}, send_push{{.samples = 1}}});
  perform({adopt{v(1), machine->heard[1].parameters}});
  EXPECT_THAT(world.anchors, ElementsAre("a", "a"));
  EXPECT_THAT(world.complaints, IsEmpty());
}

TEST_F(WorkerBinding, AGradientIsPushedUnderItsTicketOnce) {
  plan_with(1, 1);
  subject->on(computed{.step = 1, .samples = 1}, std::string{"g"});
  const push msg{.gradient = machine->done[0].gradient, .samples = 1};
  perform({send_push{msg}, send_push{msg}});
  EXPECT_THAT(world.pushed, ElementsAre("g", "nothing"));
}

TEST_F(WorkerBinding, TermsNameTensorsItsOwnParametersAndWhatWasPushed) {
  using source = operand<std::string>::source;
  plan_with(1, 1);
  set(1, 1, "a");
  const ticket a = machine->heard[0].parameters;
  perform({adopt{v(1), a}, send_push{{.samples = 1}, {{own_parameters, 1}, {a, -1}, {dual_variable, 2}}, true}});
  ASSERT_EQ(world.summed.size(), 1u);
  EXPECT_EQ(world.summed[0][0].from, source::own);
  EXPECT_EQ(world.summed[0][1].tensor, "a");
  EXPECT_EQ(world.summed[0][1].weight, -1);
  EXPECT_EQ(world.summed[0][2].from, source::dual);
  subject->pushed("sum");
  perform({mix{{{pushed_sum, 0.5}}}});
  EXPECT_EQ(world.mixed[0][0].tensor, "sum");
  EXPECT_EQ(world.mixed[0][0].weight, 0.5);
}

TEST_F(WorkerBinding, WithoutSamplesAPushIsItsTrailer) {
  plan_with(1, 1);
  perform({send_push{{.samples = 0}, {{own_parameters, 1}}}});
  EXPECT_THAT(world.pushed, ElementsAre("nothing"));
  EXPECT_THAT(world.summed, IsEmpty());
}

TEST_F(WorkerBinding, WhatAPeerWouldNotGetComesBackButTheEvaluatorGetsAll) {
  plan_with(1, 1);
  world.way_is_free = false;
  perform({send_peer{w(1), {.round = 7}}, send_peer{evaluator, {}}});
  EXPECT_THAT(world.sent_to, ElementsAre(evaluator));
  EXPECT_THAT(machine->messages, ElementsAre(peer_message{.round = 7}));
}

TEST_F(WorkerBinding, ASumIsMadeInPlaceOfTheGradientAndAStepUsesItUp) {
  plan_with(1, 1);
  subject->on(computed{.step = 1}, std::string{"g"});
  subject->on(peer_message{.from = {w(1), {}}, .is = peer_message::kind::chunk}, std::string{"c"});
  const ticket gradient = machine->done[0].gradient, chunk = machine->messages[0].data;
  world.way_is_free = false; // of no matter: nobody else will send it
  perform({add_up{gradient, {}, {{chunk, 0.5}, {gradient, 0.5}}}, discard{chunk},
           send_peer{w(1), {.data = gradient, .is = peer_message::kind::chunk}}, take_step{{.ver = v(1)}, {gradient, 1}}});
  EXPECT_THAT(world.chunks, ElementsAre("c + g to 1"));
  EXPECT_THAT(world.steps, ElementsAre("1: c + g, sent")) << "what was sent may have become another";
  EXPECT_THAT(world.complaints, IsEmpty());
  perform({add_up{gradient, {}, {{gradient, 1}}}});
  perform({take_step{{.ver = v(2)}, {gradient, 1}}});
  EXPECT_EQ(world.complaints.size(), 2u) << "it is gone";
}

TEST_F(WorkerBinding, APartOfAVersionIsMadeAndMixedWithTheWorkersOwn) {
  plan_with(1, 1);
  subject->on(computed{.step = 1}, std::string{"g"});
  const segment_range second{1, 2, 3};
  perform({take_step{{.ver = v(1)}, {machine->done[0].gradient, 1}, second}, mix_common{second, 0.25}});
  EXPECT_THAT(world.steps, ElementsAre("1: g in 1 of 3", "1 own 0.25"));
}

TEST_F(WorkerBinding, AStateIsTakenOnceAndWhatIsRefusedIsNamedAndGone) {
  plan_with(1, 1);
  for (const char* content : {"state", "chunk"})
    subject->on(peer_message{.from = {w(1), {}}, .is = peer_message::kind::state}, std::string{content});
  const ticket state = machine->messages[0].data, chunk = machine->messages[1].data;
  perform({take_state{v(4), state}, refuse{chunk, "it is late"}});
  EXPECT_THAT(world.steps, ElementsAre("4 is state"));
  EXPECT_THAT(world.refusals, ElementsAre("it is late"));
  perform({take_state{v(4), state}, discard{chunk}});
  EXPECT_EQ(world.complaints.size(), 2u);
}

TEST_F(WorkerBinding, ADiscardOfWhatIsNotThereIsSaid) {
  plan_with(1, 1);
  subject->on(peer_message{.from = {w(1), {}}}, std::string{"replica"});
  const ticket name = machine->messages[0].data;
  perform({discard{name}});
  EXPECT_THAT(world.complaints, IsEmpty());
  perform({discard{name}});
  EXPECT_EQ(world.complaints.size(), 1u);
}

} // namespace
} // namespace troupe::protocols
