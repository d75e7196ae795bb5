// SPDX-License-Identifier: BSD-3-Clause
// Allreduce as a job file names it: its parameters, and what goes together.
#include <utility>

#include <fmt/format.h>

#include "protocols/allreduce.hpp"
#include "protocols/allreduce_rule.hpp"
#include "protocols/outer_step.hpp"

namespace troupe::protocols {

namespace {

/// Empty if they go together.
std::string problem_of(const allreduce_worker::options& how, bool averages, const std::string& outer) {
  const std::uint32_t apart = how.steps / how.fragments;
  if (how.steps == 1 && !averages)
    return "outer is of local steps, and protocol.steps is 1; give more steps, or leave outer out";
  if (how.steps == 1 && (how.fragments > 1 || how.overlap > 0))
    return "fragments and overlap_steps are of local steps, and protocol.steps is 1; give more steps, or leave them out";
  if (how.fragments > segment_range::most_parts)
    return fmt::format("fragments are at most {}, and {} are given", segment_range::most_parts, how.fragments);
  if (how.steps % how.fragments != 0)
    return fmt::format("each of {} fragments is summed once in `steps` steps, at equal distances, and {} is no multiple of that",
                       how.fragments, how.steps);
  if (how.overlap >= apart)
    return fmt::format("overlap_steps = {} is not below steps / fragments = {}: so many steps after one sum, the next begins",
                       how.overlap, apart);
  return outer;
}

} // namespace

protocol allreduce_protocol() {
  const auto algorithm = choice_parameter("algorithm", "auto", {"auto", "direct", "ring", "halving", "tree", "broadcast"},
                                          "how gradients are summed; auto: by a table of workers and bytes");
  const auto steps =
      integer_parameter("steps", 1, 1, "H: local steps between sums; 1: gradients are summed, more: what the steps moved by");
  const outer_parameters outer;
  const auto fragments = integer_parameter("fragments", 1, 1, "parts of the parameters, each summed once in `steps`, in turn");
  const auto overlap = integer_parameter("overlap_steps", 0, 0, "local steps that are taken while a sum is made");
  const auto merge = real_parameter("merge", 0.5, {.least = 0, .most = 1, .open_most = true},
                                    "what its own parameters count for where such a sum comes, beside the new ones");
  const auto group = integer_parameter(
      "group", 0, 0, "workers that are summed first, of so many numbers in a row; 0: those of a node, 1: each for itself");
  const auto options_of = [=](const protocol_spec& spec) {
    return allreduce_worker::options{.which = collective::algorithm_named(algorithm.of(spec)),
                                     .steps = static_cast<std::uint32_t>(steps.of(spec)),
                                     .outer = outer.of(spec),
                                     .fragments = static_cast<std::uint32_t>(fragments.of(spec)),
                                     .overlap = static_cast<std::uint32_t>(overlap.of(spec)),
                                     .merge = merge.of(spec),
                                     .group = static_cast<std::uint32_t>(group.of(spec))};
  };
  return {.name = "allreduce",
          .summary = "synchronous SGD, or local SGD, without a shard: workers sum gradients or movements among themselves",
          .round_is_full = "the sum of all workers' gradients has come to all; weighted by samples",
          .recipients = "nobody: each worker has them, and sends parts of the sum to its peers",
          .pays_when = "all are equally fast, and a shard's link is too slow for all of them",
          .decentralized = true,
          .resumable = true,
          .parameters = {algorithm, group, steps, outer.outer, outer.lr, outer.momentum, fragments, overlap, merge},
          .validate = [=](const protocol_spec& spec,
                          std::uint32_t) { return problem_of(options_of(spec), outer.averages(spec), outer.problem(spec)); },
          .reduces =
              [=](const protocol_spec& spec, std::uint32_t count, const std::vector<std::uint32_t>& blocks, std::uint64_t bytes) {
                std::vector<worker_id> workers;
                for (std::uint32_t i = 0; i < count; ++i)
                  workers.push_back({i});
                const auto among = topology_of(workers, static_cast<std::uint32_t>(group.of(spec)), blocks);
                const auto by = collective::algorithm_named(algorithm.of(spec));
                const auto parts = static_cast<std::uint32_t>(fragments.of(spec));
                return sum_shape{by.value_or(collective::algorithm_for(among.parties(), bytes / parts)), among, parts};
              },
          .asks_for_nodes = [=](const protocol_spec& spec) { return group.of(spec) == 0; },
          .steps_by = [=](const protocol_spec& spec) { return steps.of(spec) > 1 ? outer.of(spec) : step_rule{}; },
          .keeps =
              [=](const protocol_spec& spec) {
                return footprint{.replica = steps.of(spec) > 1,
                                 .replica_goes_on = fragments.of(spec) > 1 || overlap.of(spec) > 0,
                                 .outer_momentum = steps.of(spec) > 1 && !outer.averages(spec)};
              },
          .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<allreduce_rule>(); },
          .make_worker = [options_of](const protocol_spec& spec, member self,
                                      std::uint64_t) { return std::make_unique<allreduce_worker>(self, options_of(spec)); }};
}

} // namespace troupe::protocols
