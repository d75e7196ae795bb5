// SPDX-License-Identifier: BSD-3-Clause
// The catalog of protocols.
#include "protocols/catalog.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/gradient_worker.hpp"
#include "protocols/sync_sgd.hpp"

namespace troupe::protocols {

std::vector<catalog_entry> catalog() {
  return {
      {.name = "sync",
       .summary = "synchronous SGD: one step on the mean gradient of all workers",
       .round_is_full = "all live workers have pushed; weighted by samples",
       .who_gets = "everyone, at each new version",
       .per_push = false,
       .takes_fan_in = true,
       .parameters = {},
       .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); },
       .make_worker = [](const protocol_spec&, member self) { return std::make_unique<gradient_worker>(self); }},
  };
}

std::span<const std::string_view> announced() {
  static constexpr std::array<std::string_view, 12> names{"backup",  "deadline", "async", "dc-async", "ssp",    "local",
                                                          "adacomm", "easgd",    "coded", "admm",     "gossip", "auto"};
  return names;
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
      if (const std::string wrong = known->check(value); !wrong.empty())
        problems.push_back(fmt::format("{} {}", name, wrong));
      continue;
    }
    std::vector<std::string_view> names;
    for (const parameter_info& parameter : entry.parameters)
      names.push_back(parameter.name);
    problems.push_back(fmt::format("protocol '{}' has no parameter '{}'; it takes {}", entry.name, name,
                                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  return problems;
}

} // namespace troupe::protocols
