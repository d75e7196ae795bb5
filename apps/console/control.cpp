// SPDX-License-Identifier: BSD-3-Clause
// Ending jobs, draining nodes.
#include "apps/console/control.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "apps/config/suggest.hpp"

namespace troupe::apps::console {

namespace {

/// A complaint where there is no node of that name; none: there is one.
std::optional<answer> no_such_node(session& client, const std::string& node) {
  const auto names = node_names(client);
  if (names.empty() || std::ranges::count(names, node) > 0)
    return {}; // no names: the cluster does not answer, and the next request reports that
  return wrong(
      fmt::format("there is no node \"{}\"{}; `nodes` lists them", node, config::did_you_mean(config::nearest(node, names))));
}

answer drain(session& client, const std::string& node) {
  if (auto none = no_such_node(client, node))
    return *none;
  if (!client.agreed(fmt::format("take node {} out of its job?", node)))
    return {"nothing was done\n", {{"done", false}, {"node", node}}};
  const auto left = client.ask<void>(actors::leave_cluster{node});
  if (left)
    return {fmt::format("node {0} is drained; `undrain {0}` takes it back\n", node), {{"done", true}, {"node", node}}};
  if (left.error() == caf::sec::request_timeout)
    return {fmt::format("node {} holds what its job needs; it leaves when that ends\n", node), {{"done", false}, {"node", node}}};
  return wrong(actors::explain(left.error()));
}

answer undrain(session& client, const std::string& node) {
  if (auto none = no_such_node(client, node))
    return *none;
  const auto stays = client.ask<void>(actors::undrain_node{node});
  return stays ? answer{fmt::format("node {} gets jobs again\n", node), {{"done", true}, {"node", node}}}
               : wrong(actors::explain(stays.error()));
}

answer stop(session& client, const std::string& job) {
  const auto seen = client.look();
  if (!seen)
    return no_answer(seen.error());
  for (const auto& each : seen->cluster.jobs)
    if (std::to_string(each.number) == job || each.name == job) {
      if (!client.agreed(fmt::format("stop job {} ({}, step {})?", each.number, each.name, each.steps)))
        return {"nothing was done\n", {{"done", false}, {"job", each.number}}};
      client.tell(actors::cancel_job{each.number});
      return {fmt::format("job {} ends\n", each.number), {{"done", true}, {"job", each.number}}};
    }
  return wrong(fmt::format("there is no job \"{}\"; `jobs` lists them", job));
}

} // namespace

std::vector<command> control_commands() {
  return {
      {.usage = "drain NODE",
       .meaning = "take a node's workers out of their job and place nothing there any more",
       .example = "drain d",
       .json = "done node",
       .carry_out = drain,
       .offers = node_names,
       .changes = true},
      {.usage = "undrain NODE",
       .meaning = "take a drained node back",
       .example = "undrain d",
       .json = "done node",
       .carry_out = undrain,
       .offers = node_names,
       .changes = true},
      {.usage = "stop JOB",
       .meaning = "end a job in order; its results so far go to the client that submitted it or attaches to it",
       .example = "stop 1",
       .json = "done job",
       .carry_out = stop,
       .offers = job_numbers,
       .changes = true},
  };
}

} // namespace troupe::apps::console
