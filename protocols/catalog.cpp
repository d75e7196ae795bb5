// SPDX-License-Identifier: BSD-3-Clause
// The catalog of protocols.
#include "protocols/catalog.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/adacomm.hpp"
#include "protocols/admm.hpp"
#include "protocols/admm_task.hpp"
#include "protocols/async_sgd.hpp"
#include "protocols/automatic.hpp"
#include "protocols/backup_workers.hpp"
#include "protocols/dc_async.hpp"
#include "protocols/deadline.hpp"
#include "protocols/duration.hpp"
#include "protocols/easgd.hpp"
#include "protocols/gossip.hpp"
#include "protocols/gossip_rule.hpp"
#include "protocols/local_sgd.hpp"
#include "protocols/parameters.hpp"
#include "protocols/params_worker.hpp"
#include "protocols/round_rule.hpp"
#include "protocols/ssp.hpp"
#include "protocols/sync_sgd.hpp"

namespace troupe::protocols {

namespace {

// -- round protocols: what a plan's protocol name means, for their rule and for their workers

local_options local_options_of(const protocol_spec& spec) {
  const std::string outer = text_of(spec, "outer", "average");
  local_options out{.sample_fraction = real_of(spec, "sample_fraction", 1)};
  out.outer.nesterov = outer == "nesterov";
  if (const double lr = real_of(spec, "outer_lr", 0); lr > 0)
    out.outer.lr = lr;
  else
    out.outer.lr = out.outer.nesterov ? 0.7 : 1;
  out.outer.momentum = outer == "average" ? 0 : real_of(spec, "outer_momentum", 0.9);
  return out;
}

std::unique_ptr<round_policy> policy_of(const protocol_spec& spec, std::uint64_t seed) {
  if (spec.name == "backup")
    return std::make_unique<backup_workers>(static_cast<std::size_t>(whole_of(spec, "quorum", 0)));
  if (spec.name == "deadline")
    return std::make_unique<deadline>(real_of(spec, "mad_factor", 3),
                                      static_cast<std::uint32_t>(whole_of(spec, "max_misses", 5)));
  if (spec.name == "local" || spec.name == "adacomm")
    return std::make_unique<local_sgd>(local_options_of(spec), seed);
  if (spec.name == "coded")
    return std::make_unique<coded>(coded_options_of(spec));
  return std::make_unique<sync_sgd>();
}

std::unique_ptr<task> task_of(const protocol_spec& spec) {
  if (spec.name == "local" || spec.name == "adacomm")
    return std::make_unique<local_task>();
  if (spec.name == "coded")
    return std::make_unique<coded_task>(coded_options_of(spec));
  if (spec.name == "easgd")
    return std::make_unique<easgd_task>(real_of(spec, "beta", 0.9), real_of(spec, "momentum", 0));
  if (spec.name == "admm")
    return std::make_unique<admm_task>(real_of(spec, "rho", 1));
  const bool own_slice = spec.name == "async" || spec.name == "dc-async" || spec.name == "ssp";
  return std::make_unique<gradient_task>(own_slice);
}

std::unique_ptr<rule> rounds(const protocol_spec&, std::uint64_t seed) {
  return std::make_unique<round_rule>(policy_of, seed);
}

std::unique_ptr<worker> answers(const protocol_spec&, member self, std::uint64_t) {
  return std::make_unique<params_worker>(self, task_of);
}

// -- parameters that several share

std::vector<parameter_info> local_parameters() {
  return {
      choice("outer", "average", {"average", "momentum", "nesterov"}, "the step that the centre takes with the mean difference"),
      real("outer_lr", 0, {.least = 0}, "its learning rate; 0: 1, with nesterov 0.7"),
      real("outer_momentum", 0.9, {.least = 0, .most = 1, .open_most = true}, "its momentum"),
      real("sample_fraction", 1, {.least = 0, .most = 1, .open_least = true},
           "of the workers that take part in a round, drawn anew each time")};
}

/// What is wrong with the step of the centre.
std::string check_outer(const protocol_spec& spec, std::uint32_t) {
  const bool along_nothing = text_of(spec, "outer", "average") == "nesterov" && real_of(spec, "outer_momentum", 0.9) == 0;
  return along_nothing ? "outer_momentum is 0, and outer = \"nesterov\" looks ahead along it; give one above 0" : "";
}

std::vector<parameter_info> with(parameter_info first, std::vector<parameter_info> more) {
  more.insert(more.begin(), std::move(first));
  return more;
}

parameter_info depending(parameter_info what, std::function<spec_value(const protocol_spec&)> default_with) {
  what.default_with = std::move(default_with);
  return what;
}

/// The paper's, for either form of delay compensation.
double lambda_of(const protocol_spec& spec) {
  return real_of(spec, "lambda", flag_of(spec, "adaptive", true) ? 2 : 0.04);
}

} // namespace

std::vector<catalog_entry> catalog() {
  return {
      {.name = "sync",
       .summary = "synchronous SGD: one step on the mean gradient of all workers",
       .round_is_full = "all live workers have pushed; weighted by samples",
       .who_gets = "everyone, at each new version",
       .takes_fan_in = true,
       .make_rule = rounds,
       .make_worker = answers},
      {.name = "backup",
       .summary = "backup workers: one step on the gradients of the first k",
       .round_is_full = "the first k gradients have come; weighted by samples, late ones discarded",
       .who_gets = "those that wait; a late one at its late push",
       .takes_fan_in = true,
       .parameters = {whole("quorum", 0, 0, "k; more than the live workers counts as all of them; 0: all of them but one")},
       .check = [](const protocol_spec& spec, std::uint32_t workers) -> std::string {
         const std::int64_t k = whole_of(spec, "quorum", 0);
         return k > workers ? fmt::format("quorum {} is more than the {} workers; a round would never be full", k, workers) : "";
       },
       .make_rule = rounds,
       .make_worker = answers},
      {.name = "deadline",
       .summary = "synchronous SGD that leaves its slowest workers behind, by a cut-off learned from past arrivals",
       .round_is_full = "all have pushed, or median + max(k MAD, 10 %) of past arrivals has gone by; weighted by samples",
       .who_gets = "those that wait; a late one at its late push",
       .parameters = {real("mad_factor", 3, {.least = 0}, "k: how many median distances from the median a round waits"),
                      whole("max_misses", 5, 0, "rounds in a row that a worker may be left behind")},
       .make_rule = rounds,
       .make_worker = answers},
      {.name = "async",
       .summary = "asynchronous SGD: every gradient is applied as it comes",
       .round_is_full = "each push alone; learning rate times samples / (n B)",
       .who_gets = "the pusher, at once",
       .per_push = true,
       .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<async_sgd>(); },
       .make_worker = answers},
      {.name = "dc-async",
       .summary = "DC-ASGD: asynchronous SGD whose gradients are compensated for their delay",
       .round_is_full = "each push alone, compensated with its worker's backup; learning rate times samples / (n B)",
       .who_gets = "the pusher, at once",
       .per_push = true,
       .parameters = {depending(
                          real("lambda", 2, {.least = 0}, "strength of the compensation; without adaptive 0.04 is the default"),
                          lambda_of),
                      flag("adaptive", true, "divide lambda by the root of a running mean square of the gradient")},
       .make_rule = [](const protocol_spec& spec,
                       std::uint64_t) { return std::make_unique<dc_async>(lambda_of(spec), flag_of(spec, "adaptive", true)); },
       .make_worker = answers},
      {.name = "ssp",
       .summary = "stale synchronous parallel: asynchronous SGD whose fastest worker is at most s clocks ahead",
       .round_is_full = "each push alone; learning rate times samples / (n B)",
       .who_gets = "the pusher, once it is within s clocks of the slowest",
       .per_push = true,
       .parameters = {whole("bound", 4, 0, "s")},
       .make_rule = [](const protocol_spec& spec,
                       std::uint64_t) { return std::make_unique<ssp>(static_cast<std::uint64_t>(whole_of(spec, "bound", 4))); },
       .make_worker = answers},
      {.name = "local",
       .summary = "local SGD: H steps at each worker, then the average; with outer momentum DiLoCo, with sampling FedAvg",
       .round_is_full = "all workers of the round have pushed what they moved by; weighted by samples; outer optimizer",
       .who_gets = "everyone in the next round",
       .parameters = with(whole("steps", 10, 1, "H: local steps between communications"), local_parameters()),
       .check = check_outer,
       .make_rule = rounds,
       .make_worker = answers},
      {.name = "adacomm",
       .summary = "local SGD whose communication period falls with the loss",
       .round_is_full = "as local",
       .who_gets = "everyone in the next round",
       .parameters = with(whole("initial_steps", 20, 1, "tau_0: local steps between communications at first"),
                          with(real("interval_s", 60, {.least = 0.001, .most = 1e9}, "training seconds between adaptations"),
                               with(flag("couple_lr", true, "let the period follow the learning rate too"), local_parameters()))),
       .check = check_outer,
       .make_rule = rounds,
       .make_worker = answers,
       .make_controller =
           [](const protocol_spec& spec) {
             return std::make_unique<adacomm>(adacomm_options{
                 initial_period(spec), duration_of_s(real_of(spec, "interval_s", 60)), flag_of(spec, "couple_lr", true)});
           }},
      {.name = "easgd",
       .summary = "elastic averaging: replicas of their own, drawn towards a centre; with momentum EAMSGD",
       .round_is_full = "each exchange alone, alpha = beta / n",
       .who_gets = "the pusher: the centre as it was before its exchange",
       .per_push = true,
       .parameters = {whole("steps", 10, 1, "local steps between exchanges"),
                      real("beta", 0.9, {.least = 0, .most = 1, .open_least = true, .open_most = true},
                           "n alpha: how far both sides move"),
                      real("momentum", 0, {.least = 0, .most = 1, .open_most = true},
                           "Nesterov momentum of the local steps; 0: the job's optimizer")},
       .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<easgd>(); },
       .make_worker = answers},
      {.name = "coded",
       .summary = "gradient coding: the exact gradient from any n - s workers, each computing s + 1 shares",
       .round_is_full = "what has come can be decoded; weights: the decode vector",
       .who_gets = "those that wait; a late one at its late push",
       .takes_fan_in = true,
       .parameters = {whole("stragglers", 1, 0, "s: how many workers a round can do without"),
                      choice("scheme", "auto", {"auto", "groups", "cyclic"},
                             "groups decode by 0 and 1; cyclic balances the work and may be badly conditioned")},
       .check = [](const protocol_spec& spec, std::uint32_t workers) -> std::string {
         const coded_options code = coded_options_of(spec);
         return gradient_code::check(
             {.scheme = code.scheme, .workers = workers, .stragglers = code.stragglers, .seed = code.seed});
       },
       .make_rule = rounds,
       .make_worker = answers},
      {.name = "admm",
       .summary = "asynchronous consensus ADMM with an l1 term",
       .round_is_full = "S workers have pushed anew and nobody is left out for the tau-th round in a row; the mean of "
                        "everybody's newest, soft-thresholded",
       .who_gets = "those that wait",
       .parameters = {real("rho", 1, {.least = 0, .open_least = true}, "penalty for disagreeing with the centre"),
                      real("l1", 0, {.least = 0}, "weight of the sum of absolute values in the objective"),
                      whole("barrier", 0, 0, "S: workers that a round waits for; 0: half of them"),
                      whole("delay", 8, 1, "tau: each worker is in one of any tau rounds in a row"),
                      whole("steps", 10, 1, "local steps in a round")},
       .check = [](const protocol_spec& spec, std::uint32_t workers) -> std::string {
         const std::int64_t s = whole_of(spec, "barrier", 0);
         return s > workers ? fmt::format("barrier {} is more than the {} workers; a round would never be full", s, workers) : "";
       },
       .make_rule =
           [](const protocol_spec& spec, std::uint64_t) {
             return std::make_unique<admm>(admm_options{real_of(spec, "rho", 1), real_of(spec, "l1", 0),
                                                        static_cast<std::size_t>(whole_of(spec, "barrier", 0)),
                                                        static_cast<std::uint64_t>(whole_of(spec, "delay", 8))});
           },
       .make_worker = answers},
      {.name = "gossip",
       .summary = "no centre: replicas of their own, averaged with those of random others; any worker may die",
       .round_is_full = "each step alone; mixed by the weights that travel with the replicas (sum-weight gossip)",
       .who_gets = "peers drawn at random, after each step; nobody waits",
       .centreless = true,
       .parameters = {whole("peers", 1, 1, "others that a worker sends its replica to after each step")},
       .check = [](const protocol_spec& spec, std::uint32_t workers) -> std::string {
         const std::int64_t peers = whole_of(spec, "peers", 1);
         return peers > 1 && peers >= workers
                    ? fmt::format("peers {} is more than the {} others that a worker has", peers, workers - 1)
                    : "";
       },
       .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<gossip_rule>(); },
       .make_worker =
           [](const protocol_spec& spec, member self, std::uint64_t seed) {
             return std::make_unique<gossip_worker>(self, static_cast<std::uint32_t>(whole_of(spec, "peers", 1)), seed);
           }},
      {.name = "auto",
       .summary = "measures step times and switches between its candidates at a round's boundary",
       .round_is_full = "as the protocol chosen",
       .who_gets = "as the protocol chosen",
       .parameters = {choices("candidates", {"sync", "backup", "coded"}, {"sync", "backup", "coded", "local"},
                              "protocols to choose from, the first to begin with")},
       .make_rule = rounds,
       .make_worker = answers,
       .make_controller =
           [](const protocol_spec& spec) {
             std::vector<protocol_spec> candidates;
             for (const std::string& name : texts_of(spec, "candidates", {"sync", "backup", "coded"}))
               candidates.push_back({.name = name});
             return std::make_unique<automatic>(std::move(candidates));
           }},
  };
}

std::span<const std::string_view> announced() {
  static constexpr std::array<std::string_view, 1> names{"allreduce"};
  return names;
}

std::optional<catalog_entry> find_protocol(const std::string& name, std::span<const catalog_entry> added) {
  auto entries = catalog();
  if (const auto found = std::ranges::find(entries, name, &catalog_entry::name); found != entries.end())
    return std::move(*found);
  const auto found = std::ranges::find(added, name, &catalog_entry::name);
  return found == added.end() ? std::nullopt : std::optional{*found};
}

protocol_spec initial_protocol(const protocol_spec& spec) {
  return spec.name == "auto" ? protocol_spec{.name = texts_of(spec, "candidates", {"sync"}).front()} : spec;
}

std::uint32_t initial_period(const protocol_spec& spec) {
  if (spec.name == "local" || spec.name == "easgd" || spec.name == "admm")
    return static_cast<std::uint32_t>(whole_of(spec, "steps", 10));
  if (spec.name == "adacomm")
    return static_cast<std::uint32_t>(whole_of(spec, "initial_steps", 20));
  return 1;
}

std::size_t backup_quorum(const protocol_spec& spec, std::size_t n) {
  return quorum_of(static_cast<std::size_t>(whole_of(spec, "quorum", 0)), n);
}

coded_options coded_options_of(const protocol_spec& spec) {
  const std::string scheme = text_of(spec, "scheme", "auto");
  return {.scheme = scheme == "groups"   ? code_scheme::groups
                    : scheme == "cyclic" ? code_scheme::cyclic
                                         : code_scheme::automatic,
          .stragglers = static_cast<std::uint32_t>(whole_of(spec, "stragglers", 1))};
}

std::vector<std::string> check(const catalog_entry& entry, const protocol_spec& spec, std::uint32_t workers) {
  std::vector<std::string> problems;
  if (workers == 0)
    problems.emplace_back("a job needs at least 1 worker");
  if (spec.fan_in != 0 && !entry.takes_fan_in)
    problems.push_back(fmt::format("protocol '{}' takes no fan_in; remove it", entry.name));
  else if (spec.fan_in == 1)
    problems.emplace_back("fan_in must be at least 2, or 0 for no aggregators");

  for (const auto& [name, value] : spec.parameters) {
    const auto known = std::ranges::find(entry.parameters, name, &parameter_info::name);
    if (known != entry.parameters.end()) {
      if (const std::string wrong = known->check ? known->check(value) : ""; !wrong.empty())
        problems.push_back(fmt::format("{} {}", name, wrong));
      continue;
    }
    std::vector<std::string_view> names;
    for (const parameter_info& parameter : entry.parameters)
      names.push_back(parameter.name);
    problems.push_back(fmt::format("protocol '{}' has no parameter '{}'; it takes {}", entry.name, name,
                                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (problems.empty() && entry.check)
    if (std::string wrong = entry.check(spec, workers); !wrong.empty())
      problems.push_back(std::move(wrong));
  return problems;
}

} // namespace troupe::protocols
