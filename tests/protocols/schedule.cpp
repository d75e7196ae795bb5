// SPDX-License-Identifier: BSD-3-Clause
// Draws schedules, judges them, and makes failing ones shorter.
#include "tests/protocols/schedule.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/random_stream.hpp"
#include "protocols/sim/checkers.hpp"
#include "protocols/sim/text_trace.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols::sim {

namespace {

constexpr nanoseconds ms = 1'000'000;

/// Fragments and late sums of local steps.
void draw_stream(std::map<std::string, spec_value>& of, random_stream& draw) {
  const std::int64_t steps = std::get<std::int64_t>(of.at("steps"));
  std::int64_t fragments = 1 + static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(steps)));
  while (steps % fragments != 0)
    --fragments;
  of["fragments"] = fragments;
  of["overlap_steps"] = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(steps / fragments)));
  of["merge"] = std::array{0.0, 0.5, 0.9}.at(draw.below(3));
}

/// Forward before backward, and each in any order.
void draw_partitions(options& job, random_stream draw, bool summed) {
  const auto partitions = 1 + static_cast<std::uint32_t>(draw.below(4));
  if (summed)
    job.partitions = partitions;
  if (draw.hit(0.7))
    for (std::uint32_t i = 0; i < partitions; ++i) {
      const double ready = static_cast<double>(draw.below(11)) / 10, end = static_cast<double>(i + 1) / partitions;
      job.overlap.push_back({.end = end, .needed = ready * static_cast<double>(draw.below(11)) / 10, .ready = ready});
    }
}

/// Plans of one to three partitions, in turn with those that it begins with.
void draw_sizes(options& job, random_stream draw, bool summed) {
  if (!draw.hit(0.4))
    return;
  job.cut_under = [summed, first = step_cut{job.partitions, job.overlap}](std::uint32_t kib) {
    if (kib == 0)
      return first;
    step_cut out{summed ? kib : 1, {}};
    for (std::uint32_t i = 0; i < (first.overlap.empty() ? 0 : kib); ++i)
      out.overlap.push_back({.end = (i + 1.0) / kib, .needed = 0.3 * i / kib, .ready = 1 - 0.7 * i / kib});
    return out;
  };
  job.job.partition_kib = 1 + static_cast<std::uint32_t>(draw.below(3));
  job.job.search = {.sizes = {1, 2, 3}, .spans = 1};
}

/// Values for the parameters that a protocol has, within what it allows.
void draw_parameters(options& job, random_stream& draw) {
  auto& parameters = job.protocol.parameters;
  const std::string& name = job.protocol.name;
  const auto workers = job.job.workers;
  const auto up_to = [&draw](std::uint64_t most) { return static_cast<std::int64_t>(draw.below(most + 1)); };
  if (name == "backup")
    parameters["quorum"] = up_to(workers);
  if (name == "deadline")
    parameters["max_misses"] = up_to(3);
  if (name == "gossip")
    parameters["peers"] = 1 + up_to(std::max(workers, 2U) - 2);
  if (name == "allreduce") {
    parameters["algorithm"] = std::string{std::array{"auto", "direct", "ring", "halving", "tree", "broadcast"}.at(draw.below(6))};
    parameters["group"] = std::int64_t{std::array{1, 1, 2, 3}.at(draw.below(4))};
    if (draw.hit(0.4)) {
      parameters["steps"] = 2 + up_to(2);
      parameters["outer"] = std::string{draw.hit(0.5) ? "nesterov" : "average"};
      if (draw.hit(0.6))
        draw_stream(parameters, draw);
    }
  }
  if (name == "ssp")
    parameters["bound"] = up_to(4);
  if (name == "local" || name == "easgd" || name == "admm")
    parameters["steps"] = 1 + up_to(3);
  if (name == "adacomm") {
    parameters["initial_steps"] = 1 + up_to(5);
    parameters["interval_s"] = 0.05;
  }
  if ((name == "local" || name == "adacomm") && draw.hit(0.3))
    parameters["sample_fraction"] = 0.5;
  if ((name == "local" || name == "adacomm") && draw.hit(0.5))
    parameters["outer"] = std::string{"nesterov"};
  if (name == "coded") {
    parameters["stragglers"] = up_to(std::min(workers - 1, 2U));
    parameters["scheme"] = std::string{draw.hit(0.5) ? "cyclic" : "groups"};
  }
  if (name == "admm") {
    parameters["barrier"] = up_to(workers);
    parameters["delay"] = 1 + up_to(4);
  }
}

std::uint64_t given(const options& job, const std::string& name, std::int64_t otherwise) {
  return static_cast<std::uint64_t>(integer_parameter(name, otherwise, 0, {}).of(job.protocol));
}

nanoseconds moment(random_stream& draw) {
  return static_cast<nanoseconds>(draw.below(600)) * ms;
}

double seconds(nanoseconds of) {
  return static_cast<double>(of) * 1e-9;
}

/// An aggregator on each node, which has one to three workers.
void draw_nodes(options& job, random_stream& draw) {
  job.protocol.fan_in = fan_in_of_nodes;
  for (std::uint32_t left = job.job.workers; left > 0; left -= job.blocks.back())
    job.blocks.push_back(std::min(left, 1 + static_cast<std::uint32_t>(draw.below(3))));
}

/// Of shards, backups, and backups that came later and may not have caught up.
void draw_losses_of_copies(options& job, random_stream& draw) {
  const std::uint32_t shards = job.job.shards, first = first_backup({job.job.workers, shards, job.protocol.fan_in}).value;
  nanoseconds at = 0;
  for (std::uint64_t i = draw.below(5); i > 0; --i) {
    const auto copy = static_cast<std::uint32_t>(draw.below(std::uint64_t{shards} * (job.job.replicas + 1)));
    if (at == 0 || !draw.hit(0.3)) // else at once with the last: they were on one node
      at = moment(draw);
    job.holder_deaths.push_back({{copy < shards ? copy : first + copy - shards}, at});
    if (draw.hit(0.8))
      job.backup_joins.push_back({{copy % shards}, at + moment(draw) / 8});
  }
}

void draw_trouble(options& job, random_stream& draw, trouble how_much) {
  auto& faults = job.inject.faults;
  const auto some_worker = [&] { return worker_id{static_cast<std::uint32_t>(draw.below(job.job.workers))}; };
  if (draw.hit(0.5))
    faults.push_back({.type = fault_spec::kind::repeat, .prob = 0.1});
  if (draw.hit(0.5))
    faults.push_back({.type = fault_spec::kind::reorder, .prob = 0.1});
  for (std::uint64_t i = draw.below(3); i > 0; --i)
    faults.push_back({.type = draw.hit(0.5) ? fault_spec::kind::pause : fault_spec::kind::partition,
                      .worker = some_worker(),
                      .at_s = seconds(moment(draw)),
                      .for_s = seconds(moment(draw))});
  for (std::uint64_t i = draw.below(3); i > 0; --i)
    job.late_joins.push_back({{job.job.workers + static_cast<std::uint32_t>(i) - 1}, moment(draw)});
  if (how_much != trouble::deaths)
    return;
  job.tests.tail_loss = true;
  job.tests.not_finite = draw.hit(0.5) ? 0.05 : 0;
  for (std::uint64_t i = 1 + draw.below(5); i > 0; --i) {
    fault_spec crash{.type = fault_spec::kind::crash, .worker = some_worker(), .at_s = seconds(moment(draw))};
    if (draw.hit(0.7))
      crash.back_after_s = seconds(moment(draw) / 4);
    faults.push_back(crash);
  }
  if (job.job.replicas > 1)
    draw_losses_of_copies(job, draw);
  // A process dies with all that it has.
  if (!job.holder_deaths.empty() && draw.hit(0.5))
    faults.push_back({.type = fault_spec::kind::crash, .worker = some_worker(), .at_s = seconds(job.holder_deaths.front().at)});
  if (job.protocol.fan_in != 0 && draw.hit(0.5))
    for (std::uint64_t i = 1 + draw.below(2); i > 0; --i)
      job.holder_deaths.push_back({{job.job.shards + static_cast<std::uint32_t>(draw.below(job.job.workers / 2))}, moment(draw)});
  if (draw.hit(0.5))
    for (std::uint64_t i = 1 + draw.below(2); i > 0; --i)
      job.coordinator_deaths.push_back({moment(draw), moment(draw) / 4});
}

std::string to_text(const fault_spec& fault) {
  switch (fault.type) {
  case fault_spec::kind::crash:
    return fmt::format("worker {} crashes at {} s{}", fault.worker.value, fault.at_s,
                       fault.back_after_s ? fmt::format(", back after {} s", *fault.back_after_s) : "");
  case fault_spec::kind::pause:
    return fmt::format("worker {} stands still at {} s for {} s", fault.worker.value, fault.at_s, fault.for_s);
  case fault_spec::kind::partition:
    return fmt::format("worker {} is cut off at {} s for {} s", fault.worker.value, fault.at_s, fault.for_s);
  case fault_spec::kind::reorder:
    return fmt::format("messages are late with probability {}", fault.prob);
  case fault_spec::kind::repeat:
    return fmt::format("messages are repeated with probability {}", fault.prob);
  case fault_spec::kind::loss:
    return fmt::format("messages are lost with probability {}", fault.prob);
  }
  return {};
}

bool deadly(const options& job) {
  return std::ranges::any_of(job.inject.faults, [](const fault_spec& f) { return f.type == fault_spec::kind::crash; })
         || !job.holder_deaths.empty() || job.tests.not_finite > 0;
}

/// Every way to make a schedule a little smaller.
std::vector<options> smaller(const options& job) {
  std::vector<options> out;
  const auto variant = [&](const std::function<void(options&)>& change) {
    options next = job;
    change(next);
    out.push_back(std::move(next));
  };
  for (std::size_t i = 0; i < job.inject.faults.size(); ++i)
    variant([i](options& next) { next.inject.faults.erase(next.inject.faults.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t i = 0; i < job.late_joins.size(); ++i)
    variant([i](options& next) { next.late_joins.erase(next.late_joins.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t i = 0; i < job.holder_deaths.size(); ++i)
    variant([i](options& next) { next.holder_deaths.erase(next.holder_deaths.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t i = 0; i < job.backup_joins.size(); ++i)
    variant([i](options& next) { next.backup_joins.erase(next.backup_joins.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (std::size_t i = 0; i < job.coordinator_deaths.size(); ++i)
    variant(
        [i](options& next) { next.coordinator_deaths.erase(next.coordinator_deaths.begin() + static_cast<std::ptrdiff_t>(i)); });
  if (!job.inject.stragglers.empty())
    variant([](options& next) { next.inject.stragglers.clear(); });
  if (job.tests.not_finite > 0)
    variant([](options& next) { next.tests.not_finite = 0; });
  if (job.tests.jitter > 0)
    variant([](options& next) { next.tests.jitter = 0; });
  if (job.tests.tail_loss)
    variant([](options& next) { next.tests.tail_loss = false; });
  if (job.job.stop.steps > 1)
    variant([](options& next) { next.job.stop.steps /= 2; });
  if (job.job.shards > 1)
    variant([](options& next) { next.job.shards = 1; });
  if (job.job.replicas > 1)
    variant([](options& next) { --next.job.replicas; });
  if (job.protocol.fan_in != 0)
    variant([](options& next) { next.protocol.fan_in = 0, next.blocks.clear(); });
  if (job.job.workers > 1)
    variant([](options& next) {
      --next.job.workers;
      if (!next.blocks.empty() && --next.blocks.back() == 0)
        next.blocks.pop_back();
    });
  if (job.job.evaluate_every_samples < 1'000'000)
    variant([](options& next) { next.job.evaluate_every_samples = 1'000'000; });
  if (job.job.evaluate_every_ns != 0)
    variant([](options& next) { next.job.evaluate_every_ns = 0; });
  if (job.measured.apply != 0)
    variant([](options& next) { next.measured.apply = 0; });
  if (job.colocated)
    variant([](options& next) { next.colocated = false; });
  if (job.clips)
    variant([](options& next) { next.clips = false; });
  if (!job.job.search.sizes.empty())
    variant([](options& next) { next.job.search = {}; });
  std::erase_if(out, [](const options& next) {
    const auto entry = find_protocol(next.protocol.name);
    return !validate(*entry, next.protocol, next.job.workers).empty();
  });
  return out;
}

} // namespace

options schedule_of(const protocol& of, std::uint64_t seed, trouble how_much) {
  random_stream draw = random_stream::keyed(seed, 7919, static_cast<int>(how_much));
  options out;
  out.seed = seed;
  out.protocol.name = of.name;
  out.job.workers = 1 + static_cast<std::uint32_t>(draw.below(7));
  out.job.shards = 1 + static_cast<std::uint32_t>(draw.below(3));
  out.job.batch = 1 + static_cast<std::int64_t>(draw.below(5));
  out.job.data_size = 1 + static_cast<std::int64_t>(draw.below(60));
  out.job.evaluate_every_samples = 1 + draw.below(60);
  out.job.stop.steps = of.decentralized && !of.reduces ? 60 : 14; // of all workers together, or of each
  out.model_bytes = 1000;
  out.clips = random_stream::keyed(seed, 7927, static_cast<int>(how_much)).hit(0.3);
  if (of.takes_fan_in && draw.hit(0.4)) {
    out.protocol.fan_in = 2 + static_cast<std::uint32_t>(draw.below(2));
    out.job.workers += 3;
    if (auto nodes = random_stream::keyed(seed, 7933, static_cast<int>(how_much)); nodes.hit(0.4))
      draw_nodes(out, nodes);
  }
  if (of.may_have_backups() && out.protocol.fan_in == 0 && draw.hit(0.5))
    out.job.replicas = 2 + static_cast<std::uint32_t>(draw.below(2));
  if (out.protocol.fan_in != 0 && of.may_have_backups())
    if (auto copies = random_stream::keyed(seed, 7951, static_cast<int>(how_much)); copies.hit(0.5))
      out.job.replicas = 2 + static_cast<std::uint32_t>(copies.below(2));
  draw_parameters(out, draw);
  if (!out.protocol.parameters.contains("steps")) {
    draw_partitions(out, random_stream::keyed(seed, 7937, static_cast<int>(how_much)), static_cast<bool>(of.reduces));
    draw_sizes(out, random_stream::keyed(seed, 7949, static_cast<int>(how_much)), static_cast<bool>(of.reduces));
  }
  out.inject.step_ms = 10;
  out.inject.link = {.latency_ms = 1, .mbit = draw.hit(0.5) ? 0 : 8.0};
  out.inject.stragglers.push_back({.distribution = straggler_spec::law::jitter, .spread = 0.5});
  if (draw.hit(0.5))
    out.inject.stragglers.push_back({.worker = worker_id{0}, .factor = 5});
  out.tests.jitter = draw.hit(0.8) ? 5 * ms : 0;
  out.colocated = draw.hit(0.2);
  out.measured.apply = draw.hit(0.3) ? 3 * ms : 0;
  if (draw.hit(0.2))
    out.job.evaluate_every_ns = 1 + static_cast<nanoseconds>(draw.below(60)) * ms;
  out.tests.hop = seed % 10 == 0 ? 0.02 : 0;
  out.stall_after = 20'000 * ms;
  out.max_events = 100'000;
  if (how_much != trouble::none)
    draw_trouble(out, draw, how_much);
  return out;
}

/// In a decentralized job, steps that end while the last report is under way count too: the replicas hold them.
static bool as_many_as_wanted(const options& job, const result& found) {
  const auto entry = find_protocol(job.protocol.name);
  if (!entry->decentralized || entry->reduces)
    return found.steps == job.job.stop.steps;
  std::uint64_t pushes = 0;
  for (const auto& [who, totals] : found.workers)
    pushes += totals.pushes;
  return found.steps >= job.job.stop.steps && found.steps <= pushes;
}

verdict run_checked(const options& job, listener* also) {
  tally_numerics maths;
  each_push_ends_once once;
  rounds_are_sound rounds{job};
  limits_are_exact limits{job};
  bound_is_kept bound{given(job, "bound", 4)};
  nobody_is_left_behind misses{given(job, "max_misses", 5)};
  sets_are_of_one_sending sets{job};
  norms_are_whole norms{job};
  std::vector<checker*> checkers{&once, &rounds, &limits, &sets, &norms};
  replicas_are_one replicas{given(job, "fragments", 1) > 1 || given(job, "overlap_steps", 0) > 0};
  if (find_protocol(job.protocol.name)->reduces)
    checkers.push_back(&replicas);
  if (job.protocol.name == "ssp")
    checkers.push_back(&bound);
  if (job.protocol.name == "deadline")
    checkers.push_back(&misses);
  std::vector<listener*> listeners(checkers.begin(), checkers.end());
  if (also != nullptr)
    listeners.push_back(also);
  verdict out;
  out.outcome = simulate(job, maths, listeners);
  for (const checker* each : checkers)
    out.problems.insert(out.problems.end(), each->found().begin(), each->found().end());
  if (out.outcome.stalled)
    out.problems.push_back(out.outcome.reason);
  else if (out.outcome.failed && !deadly(job))
    out.problems.push_back(fmt::format("the job failed, and nobody has died: {}", out.outcome.reason));
  else if (!out.outcome.failed && !as_many_as_wanted(job, out.outcome))
    out.problems.push_back(fmt::format("it ended at version {}", out.outcome.steps));
  out.used = rounds.used();
  return out;
}

options shrink(options job) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (options& next : smaller(job))
      if (!run_checked(next).problems.empty()) {
        job = std::move(next);
        shorter = true;
        break;
      }
  }
  return job;
}

std::string describe(const options& job) {
  text_trace trace{400};
  const verdict found = run_checked(job, &trace);
  std::string out = fmt::format("{} with {} workers, {} times {} shards, fan-in {}, batches of {} of {} samples, {} steps{}\n",
                                job.protocol.name, job.job.workers, job.job.replicas, job.job.shards, job.protocol.fan_in,
                                job.job.batch, job.job.data_size, job.job.stop.steps, job.clips ? ", clipped" : "");
  if (!job.blocks.empty())
    out += fmt::format("  nodes of {} workers\n", fmt::join(job.blocks, ", "));
  for (const partition_times& part : job.overlap)
    out += fmt::format("  a partition up to {}, needed at {}, ready at {}\n", part.end, part.needed, part.ready);
  if (!job.job.search.sizes.empty())
    out += fmt::format("  sizes are tried from {} on\n", job.job.partition_kib);
  for (const auto& [name, value] : job.protocol.parameters)
    if (const auto* whole = std::get_if<std::int64_t>(&value))
      out += fmt::format("  {} = {}\n", name, *whole);
  for (const fault_spec& fault : job.inject.faults)
    out += fmt::format("  {}\n", to_text(fault));
  for (const late_join& late : job.late_joins)
    out += fmt::format("  worker {} joins at {} s\n", late.worker.value, seconds(late.at));
  for (const holder_death& death : job.holder_deaths)
    out += fmt::format("  holder {} dies at {} s\n", death.holder.value, seconds(death.at));
  for (const backup_join& join : job.backup_joins)
    out += fmt::format("  shard {} gets a new backup at {} s\n", join.shard.value, seconds(join.at));
  for (const coordinator_death& death : job.coordinator_deaths)
    out += fmt::format("  the coordinator dies at {} s, and the next one is there after {} s\n", seconds(death.at),
                       seconds(death.next_after));
  return out
         + fmt::format("what is wrong:\n  {}\nthe end of its trace:\n{}\n", fmt::join(found.problems, "\n  "),
                       fmt::join(trace.lines(), "\n"));
}

} // namespace troupe::protocols::sim
