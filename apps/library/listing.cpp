// SPDX-License-Identifier: BSD-3-Clause
// Protocols from their catalog, optimizers from the keys of a job file.
#include "apps/library/listing.hpp"

#include <set>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "apps/config/job_file.hpp"
#include "apps/protocols.hpp"

namespace troupe::apps {

namespace {

constexpr std::string_view section = "optimizer.";

/// The keys of its section that have a meaning with this optimizer, under one of the schedules.
boost::json::array parameters_of(const std::string& optimizer) {
  boost::json::array out;
  std::set<std::string> seen{"optimizer.name"};
  for (const auto& schedule : config::facts_of_key("optimizer.schedule").choices) {
    const auto loaded = config::load_job("/dev/null", {{"model.layers", R"(["linear 10"])", {}},
                                                       {"optimizer.name", optimizer, {}},
                                                       {"optimizer.schedule", schedule, {}},
                                                       {"stop.epochs", "1", {}}});
    for (const auto& [key, value, from, where] : loaded.value().values)
      if (key.starts_with(section) && from != "does not apply" && seen.insert(key).second)
        out.push_back({{"name", key.substr(section.size())},
                       {"default", from == "default" ? config::to_json(value) : boost::json::value(nullptr)},
                       {"meaning", config::facts_of_key(key).meaning}});
  }
  return out;
}

} // namespace

boost::json::object listing() {
  boost::json::array optimizers;
  for (const auto& name : config::facts_of_key("optimizer.name").choices)
    optimizers.push_back({{"name", name}, {"parameters", parameters_of(name)}});
  return {{"protocols", protocols_json({})}, {"optimizers", std::move(optimizers)}};
}

} // namespace troupe::apps
