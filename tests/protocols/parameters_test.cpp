// SPDX-License-Identifier: BSD-3-Clause
// Every protocol's parameters: defaults, what is refused with which rule, what is built.
#include "protocols/catalog.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

std::int64_t whole(std::int64_t value) {
  return value;
}

/// What `check` says about one job of eight workers.
std::vector<std::string> problems(const std::string& name, std::map<std::string, spec_value> parameters,
                                  std::uint32_t workers = 8) {
  const auto entry = find_protocol(name);
  if (!entry)
    return {"no such protocol"};
  return validate(*entry, {.name = name, .parameters = std::move(parameters)}, workers);
}

using sentences = std::vector<std::string>;

TEST(Parameters, ValueIsReadWithItsType) {
  const protocol_spec spec{.parameters = {{"steps", whole(7)},
                                          {"beta", 0.5},
                                          {"adaptive", false},
                                          {"outer", "nesterov"},
                                          {"candidates", std::vector<std::string>{"sync"}}}};
  EXPECT_EQ(protocols::integer_parameter("steps", 1, 0, "").of(spec), 7);
  EXPECT_EQ(real_parameter("beta", 1, {}, "").of(spec), 0.5);
  EXPECT_EQ(real_parameter("steps", 1, {}, "").of(spec), 7.0) << "a whole number is a number";
  EXPECT_EQ(bool_parameter("adaptive", true, "").of(spec), false);
  EXPECT_EQ(choice_parameter("outer", "", {}, "").of(spec), "nesterov");
  EXPECT_EQ(choices_parameter("candidates", {}, {}, "").of(spec), std::vector<std::string>{"sync"});
}

TEST(Parameters, WhatIsNotGivenOrSomethingElseIsItsDefault) {
  const protocol_spec spec{.parameters = {{"steps", "seven"}, {"beta", true}}};
  EXPECT_EQ(protocols::integer_parameter("steps", 3, 0, "").of(spec), 3);
  EXPECT_EQ(protocols::integer_parameter("other", 3, 0, "").of(spec), 3);
  EXPECT_EQ(real_parameter("beta", 0.9, {}, "").of(spec), 0.9);
  EXPECT_EQ(bool_parameter("beta", false, "").of(spec), true);
  EXPECT_EQ(choice_parameter("beta", "x", {}, "").of(spec), "x");
}

TEST(Parameters, EveryDefaultIsSoundAndEveryEntrySaysWhoWaits) {
  for (const protocol& entry : catalog()) {
    EXPECT_EQ(problems(entry.name, {}), sentences{}) << entry.name;
    std::map<std::string, spec_value> all_given;
    for (const parameter_info& parameter : entry.parameters) {
      EXPECT_EQ(parameter.validate(parameter.default_value), "") << entry.name << "." << parameter.name;
      EXPECT_FALSE(parameter.meaning.empty()) << entry.name << "." << parameter.name;
      all_given[parameter.name] = parameter.default_value;
    }
    EXPECT_EQ(problems(entry.name, all_given), sentences{}) << entry.name;
    EXPECT_FALSE(entry.summary.empty() || entry.round_is_full.empty() || entry.recipients.empty()) << entry.name;
  }
}

TEST(Parameters, ImpossibleOnesAreRefusedWithTheRuleThatTheyBreak) {
  EXPECT_EQ(problems("backup", {{"quorum", whole(9)}}),
            sentences{"quorum 9 is more than the 8 workers; a round would never be full"});
  EXPECT_EQ(problems("backup", {{"quorum", whole(8)}}), sentences{});
  EXPECT_EQ(problems("admm", {{"barrier", whole(9)}}),
            sentences{"barrier 9 is more than the 8 workers; a round would never be full"});
  EXPECT_EQ(problems("local", {{"steps", whole(0)}}), sentences{"steps must be a whole number of at least 1"});
  EXPECT_EQ(problems("easgd", {{"steps", whole(0)}}), sentences{"steps must be a whole number of at least 1"});
  EXPECT_EQ(problems("adacomm", {{"initial_steps", whole(0)}}), sentences{"initial_steps must be a whole number of at least 1"});
  EXPECT_EQ(problems("adacomm", {{"interval_s", 0.0}}), sentences{"interval_s must be at least 0.001 and at most 1000000000"});
  EXPECT_EQ(problems("adacomm", {{"steps", whole(5)}}).size(), 1u) << "adacomm finds its steps itself";
  EXPECT_EQ(problems("ssp", {{"bound", whole(-1)}}), sentences{"bound must be a whole number of at least 0"});
  EXPECT_EQ(problems("deadline", {{"mad_factor", -1.0}}), sentences{"mad_factor must be at least 0"});
  EXPECT_EQ(problems("deadline", {{"max_misses", whole(-1)}}), sentences{"max_misses must be a whole number of at least 0"});
  EXPECT_EQ(problems("dc-async", {{"lambda", -0.1}}), sentences{"lambda must be at least 0"});
  EXPECT_EQ(problems("dc-async", {{"adaptive", whole(1)}}), sentences{"adaptive must be true or false"});
  EXPECT_EQ(problems("local", {{"outer_momentum", 1.0}}), sentences{"outer_momentum must be at least 0 and below 1"});
  EXPECT_EQ(problems("local", {{"sample_fraction", 0.0}}), sentences{"sample_fraction must be above 0 and at most 1"});
  EXPECT_EQ(problems("local", {{"sample_fraction", 1.5}}), sentences{"sample_fraction must be above 0 and at most 1"});
  EXPECT_EQ(problems("local", {{"outer", "adam"}}), sentences{"outer \"adam\" is not one of average, momentum, nesterov"});
  EXPECT_EQ(problems("easgd", {{"beta", 1.0}}), sentences{"beta must be above 0 and below 1"});
  EXPECT_EQ(problems("admm", {{"rho", 0.0}}), sentences{"rho must be above 0"});
  EXPECT_EQ(problems("admm", {{"delay", whole(0)}}), sentences{"delay must be a whole number of at least 1"});
  EXPECT_EQ(problems("auto", {{"candidates", std::vector<std::string>{}}}), sentences{"candidates must be a list of texts"});
  EXPECT_EQ(problems("auto", {{"candidates", std::vector<std::string>{"sync", "ssp"}}}),
            sentences{"candidates \"ssp\" is not one of sync, backup, coded, local"});
}

TEST(Parameters, CodeThatCannotBeDecodedIsRefused) {
  EXPECT_EQ(problems("coded", {{"stragglers", whole(7)}}), sentences{});
  ASSERT_EQ(problems("coded", {{"stragglers", whole(8)}}).size(), 1u) << "nobody would be left";
  EXPECT_NE(problems("coded", {{"stragglers", whole(8)}}).front().find("8"), std::string::npos);
  EXPECT_EQ(problems("coded", {{"stragglers", whole(1)}}, 1).size(), 1u) << "the default, with one worker";
  EXPECT_EQ(problems("coded", {{"stragglers", whole(3)}, {"scheme", "cyclic"}}, 31).size(), 1u) << "too badly conditioned";
  EXPECT_EQ(problems("coded", {{"stragglers", whole(3)}}, 31), sentences{});
}

TEST(Parameters, NumbersThatAreNoneOrBeyondWhatIsCountedAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(problems("admm", {{"rho", nan}}), sentences{"rho must be above 0"});
  EXPECT_EQ(problems("admm", {{"rho", infinity}}).size(), 1u);
  EXPECT_EQ(problems("adacomm", {{"interval_s", 1e30}}).size(), 1u) << "no clock goes so far";
  // Cut to 32 bits these would be 1 and 5.
  EXPECT_EQ(problems("coded", {{"stragglers", whole(0x1'0000'0001)}}), sentences{"stragglers must be at most 2147483647"});
  EXPECT_EQ(problems("local", {{"steps", whole(0x1'0000'0005)}}), sentences{"steps must be at most 2147483647"});
}

TEST(Parameters, ValuesOfTheWrongTypeAreRefused) {
  EXPECT_EQ(problems("ssp", {{"bound", 1.5}}), sentences{"bound must be a whole number of at least 0"});
  EXPECT_EQ(problems("admm", {{"rho", "one"}}), sentences{"rho must be a number"});
  EXPECT_EQ(problems("admm", {{"rho", whole(2)}}), sentences{});
  EXPECT_EQ(problems("coded", {{"scheme", true}}), sentences{"scheme must be a text"});
  EXPECT_EQ(problems("auto", {{"candidates", "sync"}}), sentences{"candidates must be a list of texts"});
}

TEST(Parameters, OnlyRoundsThatAddUpTakeATree) {
  std::vector<std::string> with_tree;
  for (const protocol& entry : catalog())
    if (entry.takes_fan_in)
      with_tree.push_back(entry.name);
  EXPECT_EQ(with_tree, (std::vector<std::string>{"sync", "backup", "coded"}));
}

TEST(Parameters, FirstPlanRunsTheProtocolItselfOfAutoTheFirstCandidate) {
  const protocol_spec ssp{.name = "ssp", .parameters = {{"bound", whole(2)}}};
  EXPECT_EQ(initial_protocol(ssp), ssp);
  EXPECT_EQ(initial_protocol({.name = "auto"}).name, "sync");
  EXPECT_EQ(initial_protocol({.name = "auto", .parameters = {{"candidates", std::vector<std::string>{"coded", "sync"}}}}),
            protocol_spec{.name = "coded"});
}

TEST(Parameters, FirstPeriodIsTheProtocols) {
  EXPECT_EQ(initial_period({.name = "sync"}), 1u);
  EXPECT_EQ(initial_period({.name = "local"}), 10u);
  EXPECT_EQ(initial_period({.name = "local", .parameters = {{"steps", whole(3)}}}), 3u);
  EXPECT_EQ(initial_period({.name = "easgd", .parameters = {{"steps", whole(4)}}}), 4u);
  EXPECT_EQ(initial_period({.name = "admm"}), 10u);
  EXPECT_EQ(initial_period({.name = "adacomm"}), 20u);
  EXPECT_EQ(initial_period({.name = "adacomm", .parameters = {{"initial_steps", whole(100)}}}), 100u);
}

// -- what is built behaves as its parameters say

std::unique_ptr<rule> built(const protocol_spec& spec, std::initializer_list<std::uint32_t> workers) {
  auto out = find_protocol(spec.name)->make_rule(spec, 1);
  plan first = plan_of(1, workers);
  first.protocol = spec;
  out->on(first);
  return out;
}

push push_from(std::uint32_t worker) {
  return {.epoch = e(1), .id = {w(worker), {}, {1}}, .gradient = t(100 + worker), .samples = 10};
}

TEST(Catalog, BackupIsBuiltWithItsQuorum) {
  const auto rule = built({.name = "backup", .parameters = {{"quorum", whole(1)}}}, {0, 1, 2});
  EXPECT_EQ(count<apply>(rule->on(push_from(1))), 1u);
}

TEST(Catalog, SspIsBuiltWithItsBound) {
  const auto rule = built({.name = "ssp", .parameters = {{"bound", whole(0)}}}, {0, 1});
  EXPECT_EQ(count<send_params>(rule->on(push_from(1))), 0u);
}

TEST(Catalog, AdmmIsBuiltWithItsBarrierAndThreshold) {
  const auto rule = built({.name = "admm", .parameters = {{"barrier", whole(2)}, {"rho", whole(4)}, {"l1", 0.5}}}, {0, 1, 2, 3});
  rule->on(push_from(0));
  EXPECT_EQ(only<apply>(rule->on(push_from(1))).step.threshold, 0.125);
}

TEST(Catalog, DcAsyncIsBuiltWithItsLambda) {
  const auto rule = built({.name = "dc-async", .parameters = {{"lambda", whole(2)}, {"adaptive", false}}}, {0});
  const delay_compensation how = only<apply>(rule->on(push_from(0))).compensate;
  EXPECT_EQ(how.lambda, 2);
  EXPECT_FALSE(how.adaptive);
}

TEST(Catalog, DcAsyncsLambdaIsThePapersForEitherForm) {
  const auto lambda = [](std::map<std::string, spec_value> given) {
    return only<apply>(built({.name = "dc-async", .parameters = std::move(given)}, {0})->on(push_from(0))).compensate.lambda;
  };
  EXPECT_EQ(lambda({}), 2);
  EXPECT_EQ(lambda({{"adaptive", false}}), 0.04);
  EXPECT_EQ(lambda({{"lambda", whole(0)}}), 0);
  const parameter_info info = find_protocol("dc-async")->parameters.front();
  EXPECT_EQ(info.default_for({}), spec_value{2.0});
  EXPECT_EQ(info.default_for({.parameters = {{"adaptive", false}}}), spec_value{0.04});
}

TEST(Catalog, PlanOfAnotherProtocolChangesPolicyAndTask) {
  const auto rule = find_protocol("auto")->make_rule({.name = "auto"}, 1);
  rule->on(plan_of(1, {0, 1}));
  plan next = plan_of(2, {0, 1});
  next.protocol = {.name = "backup", .parameters = {{"quorum", whole(1)}}};
  rule->on(next);
  rule->on(push_from(0));
  EXPECT_EQ(count<apply>(rule->on(push_from(1))), 1u) << "the round's own";
  push under_the_next = push_from(1);
  under_the_next.epoch = e(2);
  under_the_next.base = v(1);
  EXPECT_EQ(count<apply>(rule->on(under_the_next)), 1u) << "one is enough now";

  const auto worker = find_protocol("auto")->make_worker({.name = "auto"}, {w(0), {}}, 1);
  plan first = plan_of(1, {0, 1});
  worker->on(first);
  EXPECT_EQ(only<compute>(worker->on(params{.epoch = e(1), .key = 1})).cuts, 2u);
  worker->on(computed{.step = 1});
  next.protocol = {.name = "local"};
  worker->on(next);
  EXPECT_EQ(count<local_step>(worker->on(params{.epoch = e(2), .key = 2, .period = 10})), 1u);
}

TEST(Catalog, WorkersOfPerPushProtocolsComputeTheSliceThatTheyAreHanded) {
  for (const char* name : {"async", "dc-async", "ssp"}) {
    const auto entry = find_protocol(name);
    EXPECT_TRUE(entry->per_push) << name;
    const auto worker = entry->make_worker({.name = name}, {w(1), {}}, 1);
    plan first = plan_of(1, {0, 1});
    first.protocol = {.name = name};
    worker->on(first);
    const compute gradient = only<compute>(worker->on(params{.epoch = e(1), .key = 1, .position = 70, .parameters = t(50)}));
    EXPECT_EQ(gradient,
              (compute{.step = 1, .position = 70, .batches = 1, .cuts = 1, .parts = {{0, 1}}, .stream_as = gradient.stream_as}));
    EXPECT_TRUE(gradient.stream_as) << "a gradient may go while backward still runs";
  }
}

TEST(Catalog, ControllersBelongToThoseThatChangeTheirPlan) {
  std::vector<std::string> controlled;
  for (const protocol& entry : catalog())
    if (entry.make_controller) {
      controlled.push_back(entry.name);
      EXPECT_TRUE(entry.make_controller({.name = entry.name})) << entry.name;
    }
  EXPECT_EQ(controlled, (std::vector<std::string>{"adacomm", "auto"}));
  EXPECT_EQ(find_protocol("adacomm")->make_controller({.parameters = {{"interval_s", 0.75}}})->interval(), 750'000'000);
  EXPECT_EQ(find_protocol("auto")->make_controller({.name = "auto"})->interval(), 0) << "it hears rounds";
}

TEST(Catalog, NamesAreFoundAndOthersAreNot) {
  EXPECT_EQ(find_protocol("coded")->name, "coded");
  EXPECT_FALSE(find_protocol("quorum"));
}

} // namespace
} // namespace troupe::protocols
