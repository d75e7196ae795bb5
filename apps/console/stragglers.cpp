// SPDX-License-Identifier: BSD-3-Clause
// Tells unusual times from usual ones.
#include "apps/console/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "apps/median.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

constexpr std::size_t fewest_with_a_spread = 4;

/// What a worker's round is made of, in milliseconds.
struct worker_times {
  actors::actor_report actor;
  double compute = 0, network = 0, queue = 0; ///< compute 0: it has not made a step
};

double field_of(const actors::actor_report& actor, const char* name) {
  const auto known = actor.fields.find(name);
  return known == actor.fields.end() ? 0 : std::strtod(known->second.c_str(), nullptr);
}

/// The slowest round trip between a worker's node and one that holds parameters; 0: they are on the same node.
double round_trip_ms(const snapshot& seen, const actors::actor_report& worker, const std::set<std::string>& with_shards) {
  double slowest = 0;
  for (const auto& node : seen.reports.nodes)
    if (node.node == worker.node && node.job == worker.job)
      for (const auto& link : node.links)
        if (with_shards.contains(link.peer))
          slowest = std::max({slowest, link.round_trip_s * 1e3, link.stalled_s * 1e3});
  return slowest;
}

std::vector<worker_times> times_of_workers(const snapshot& seen) {
  const auto all = seen.actors();
  std::set<std::string> with_shards;
  for (const auto& actor : all)
    if (actor.role == "shard" || actor.role == "aggregator")
      with_shards.insert(actor.node);
  std::vector<worker_times> out;
  for (const auto& actor : all)
    if (actor.role == "worker")
      out.push_back({actor, field_of(actor, "compute_ms"), round_trip_ms(seen, actor, with_shards), field_of(actor, "queue_ms")});
  return out;
}

/// The usual time of one part of the round, and its limit.
struct usual {
  double median = 0, mad = 0;
  double baseline = 0; ///< what a slow time is a multiple of: the median, or the fastest
  double limit = std::numeric_limits<double>::infinity();
};

usual usual_of(const std::vector<worker_times>& workers, double worker_times::*part) {
  std::vector<double> times, steps, deviations;
  for (const auto& each : workers)
    if (!each.actor.stuck && each.compute > 0) {
      times.push_back(each.*part);
      steps.push_back(each.compute);
    }
  if (times.empty())
    return {};
  usual out{.median = median(times)};
  for (double ms : times)
    deviations.push_back(std::abs(ms - out.median));
  out.mad = median(deviations);
  if (times.size() < fewest_with_a_spread) {
    out.baseline = std::ranges::min(times);
    out.limit =
        out.baseline + 0.5 * std::max(out.baseline, std::ranges::min(steps)); // a lane on the same node is no measure of others
  } else {                                                                    // as the deadline protocol has it
    out.baseline = out.median;
    out.limit = out.median + std::max(3 * out.mad, 0.1 * out.median);
  }
  return out;
}

/// The usual times of the whole round, and verdicts by them.
struct measure {
  usual compute, network, queue;
  bool spread; ///< there are enough workers for a deviation

  explicit measure(const std::vector<worker_times>& workers)
      : compute(usual_of(workers, &worker_times::compute)), network(usual_of(workers, &worker_times::network)),
        queue(usual_of(workers, &worker_times::queue)),
        spread(std::ranges::count_if(workers, [](const auto& each) { return !each.actor.stuck && each.compute > 0; })
               >= std::ptrdiff_t{fewest_with_a_spread}) {}

  std::string rule() const {
    return spread ? "more than three MADs, and a tenth, above the median"
                  : "1.5 times as long as the fastest: too few workers for a spread";
  }

  /// Empty: nothing is unusual.
  std::string verdict(const worker_times& worker) const {
    if (worker.actor.stuck)
      return worker.actor.state;
    const auto under_way = worker.actor.state == "computes" ? worker.actor.since_s * 1000 : 0;
    const auto computes = std::max(worker.compute, under_way);
    if (beyond(computes, compute))
      return "slow to compute: " + in_words(computes, compute);
    if (beyond(worker.network, network))
      return "behind a slow lane: " + in_words(worker.network, network);
    if (beyond(worker.queue, queue))
      return "waits for its data: " + in_words(worker.queue, queue);
    return {};
  }

private:
  /// Less than a tenth of a step does not matter, however unusual it is.
  bool beyond(double ms, const usual& usual_part) const { return ms > usual_part.limit && ms > 0.1 * compute.baseline; }
  std::string in_words(double ms, const usual& usual_part) const {
    return usual_part.baseline > 0 ? fmt::format("{:.1f} times the {}", ms / usual_part.baseline, spread ? "median" : "fastest")
                                   : fmt::format("{:.2f} ms", ms);
  }
};

} // namespace

answer stragglers(const snapshot& seen) {
  const auto workers = times_of_workers(seen);
  if (workers.empty())
    return {"no workers\n", {{"workers", boost::json::array{}}}};
  const measure usually{workers};
  std::vector<std::vector<std::string>> rows{{"worker", "node", "compute", "network", "queue", "verdict"}};
  boost::json::array list;
  const auto ms_text = [](double ms) { return fmt::format("{:.2f} ms", ms); };
  for (const auto& each : workers) {
    const auto verdict = usually.verdict(each);
    rows.push_back(
        {name_of(each.actor, seen), each.actor.node, ms_text(each.compute), ms_text(each.network), ms_text(each.queue), verdict});
    list.push_back({{"id", name_of(each.actor, seen)},
                    {"node", each.actor.node},
                    {"compute_ms", each.compute},
                    {"network_ms", each.network},
                    {"queue_ms", each.queue},
                    {"verdict", verdict}});
  }
  const auto& [compute, network, queue] = std::tie(usually.compute, usually.network, usually.queue);
  rows.push_back({"median", "", ms_text(compute.median), ms_text(network.median), ms_text(queue.median), ""});
  rows.push_back({"MAD", "", ms_text(compute.mad), ms_text(network.mad), ms_text(queue.mad), ""});
  return {table(rows) + fmt::format("slow is {}\n", usually.rule()),
          {{"workers", std::move(list)}, {"median_ms", compute.median}, {"mad_ms", compute.mad}, {"rule", usually.rule()}}};
}

} // namespace troupe::apps::console
