// SPDX-License-Identifier: BSD-3-Clause
// The catalog of protocols.
#include "protocols/catalog.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/adacomm.hpp"
#include "protocols/admm.hpp"
#include "protocols/allreduce.hpp"
#include "protocols/async_sgd.hpp"
#include "protocols/automatic.hpp"
#include "protocols/backup_workers.hpp"
#include "protocols/coded.hpp"
#include "protocols/dc_async.hpp"
#include "protocols/deadline.hpp"
#include "protocols/easgd.hpp"
#include "protocols/gossip.hpp"
#include "protocols/local_sgd.hpp"
#include "protocols/ssp.hpp"
#include "protocols/sync_sgd.hpp"

namespace troupe::protocols {

std::vector<protocol> catalog(std::span<const protocol> added) {
  std::vector<protocol> all{
      sync_protocol(), backup_protocol(), deadline_protocol(),  async_protocol(), dc_async_protocol(),
      ssp_protocol(),  local_protocol(),  adacomm_protocol(),   easgd_protocol(), coded_protocol(),
      admm_protocol(), gossip_protocol(), allreduce_protocol(),
  };
  const auto built_in = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), added.begin(), added.end());
  all.insert(all.begin() + built_in, auto_protocol(all));
  return all;
}

std::optional<protocol> find_protocol(const std::string& name, std::span<const protocol> added) {
  auto all = catalog(added);
  const auto found = std::ranges::find(all, name, &protocol::name);
  return found == all.end() ? std::nullopt : std::optional{std::move(*found)};
}

std::vector<protocol_spec> planned_specs(const protocol_spec& spec, std::span<const protocol> added) {
  const auto own = find_protocol(spec.name, added);
  return own && own->candidates ? own->candidates(spec) : std::vector{spec};
}

std::vector<protocol> planned_protocols(const protocol_spec& spec, std::span<const protocol> added) {
  std::vector<protocol> out;
  for (const protocol_spec& each : planned_specs(spec, added))
    if (auto found = find_protocol(each.name, added))
      out.push_back(*std::move(found));
  return out;
}

protocol_spec initial_protocol(const protocol_spec& spec, std::span<const protocol> added) {
  return planned_specs(spec, added).front();
}

std::uint32_t initial_period(const protocol_spec& spec, std::span<const protocol> added) {
  const auto found = find_protocol(spec.name, added);
  return found ? found->period_of(spec) : 1;
}

std::vector<std::string> validate(const protocol& chosen, const protocol_spec& spec, std::uint32_t workers) {
  std::vector<std::string> problems;
  if (workers == 0)
    problems.emplace_back("a job needs at least 1 worker");
  if (spec.fan_in != 0 && !chosen.takes_fan_in)
    problems.push_back(fmt::format("protocol '{}' takes no fan_in; remove it", chosen.name));
  else if (spec.fan_in == 1)
    problems.emplace_back("fan_in must be at least 2, or 0 for no aggregators");

  for (const auto& [name, value] : spec.parameters) {
    const auto known = std::ranges::find(chosen.parameters, name, &parameter_info::name);
    if (known != chosen.parameters.end()) {
      if (const std::string wrong = known->validate ? known->validate(value) : ""; !wrong.empty())
        problems.push_back(fmt::format("{} {}", name, wrong));
      continue;
    }
    std::vector<std::string_view> names;
    for (const parameter_info& parameter : chosen.parameters)
      names.push_back(parameter.name);
    problems.push_back(fmt::format("protocol '{}' has no parameter '{}'; it takes {}", chosen.name, name,
                                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (problems.empty() && chosen.validate)
    if (std::string wrong = chosen.validate(spec, workers); !wrong.empty())
      problems.push_back(std::move(wrong));
  return problems;
}

} // namespace troupe::protocols
