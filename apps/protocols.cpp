// SPDX-License-Identifier: BSD-3-Clause
// `troupe protocols`: the catalog, as people and programs read it.
#include "apps/protocols.hpp"

#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/config/value.hpp"
#include "apps/report.hpp"
#include "protocols/catalog.hpp"

namespace troupe::apps {

namespace {

boost::json::object to_json(const protocols::protocol& entry) {
  boost::json::array parameters;
  for (const auto& p : entry.parameters)
    parameters.push_back(
        {{"name", p.name}, {"default", config::to_json(config::as_value(p.default_value))}, {"meaning", p.meaning}});
  return {{"name", entry.name},
          {"summary", entry.summary},
          {"round_is_full", entry.round_is_full},
          {"who_gets", entry.recipients},
          {"per_push", entry.per_push},
          {"fan_in", entry.takes_fan_in},
          {"parameters", std::move(parameters)}};
}

void print(const protocols::protocol& entry) {
  fmt::print("{}: {}\n  a round is full: {}\n  who gets parameters: {}\n", entry.name, entry.summary, entry.round_is_full,
             entry.recipients);
  for (const auto& p : entry.parameters)
    fmt::print("  protocol.{} = {}: {}\n", p.name, config::to_text(config::as_value(p.default_value)), p.meaning);
  if (entry.takes_fan_in)
    fmt::print(
        "  protocol.fan_in = 0: workers or aggregators under one aggregator; node: one for the workers of each node; 0: none\n");
}

} // namespace

boost::json::array protocols_json(const actors::extensions& added) {
  boost::json::array entries;
  for (const auto& entry : protocols::catalog(added.protocols))
    entries.push_back(to_json(entry));
  return entries;
}

int print_protocols(const plain_options& options) {
  if (options.json) {
    print_json({{"protocols", protocols_json(options.added)}});
    return exit_done;
  }
  for (const auto& entry : protocols::catalog(options.added.protocols))
    print(entry);
  return exit_done;
}

} // namespace troupe::apps
