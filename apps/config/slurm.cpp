// SPDX-License-Identifier: BSD-3-Clause
// Reads the variables that srun sets.
#include "apps/config/slurm.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "apps/config/spec_text.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::config {

namespace {

constexpr std::uint64_t most_hosts = 65'536;

/// -1: not a number.
std::int64_t number(std::string_view text) {
  return text.starts_with('-') ? -1 : parse_number<std::int64_t>(text).value_or(-1);
}

/// Expands "n[1-3,07]" into `out`; false: it is malformed.
bool expand_item(std::string_view item, std::vector<std::string>& out) {
  const auto open = item.find('[');
  if (open == std::string_view::npos) {
    out.emplace_back(item);
    return !item.empty() && item.find(']') == std::string_view::npos;
  }
  const auto close = item.find(']', open);
  if (close == std::string_view::npos)
    return false;
  const auto prefix = item.substr(0, open);
  for (const std::string& range : split_outside_brackets(item.substr(open + 1, close - open - 1), ',')) {
    const auto dash = range.find('-');
    const auto from = range.substr(0, dash), to = dash == std::string::npos ? from : range.substr(dash + 1);
    const auto first = number(from), last = number(to);
    if (first < 0 || last < first || last - first >= static_cast<std::int64_t>(most_hosts))
      return false;
    for (auto i = first; i <= last; ++i)
      if (!expand_item(fmt::format("{}{:0{}}{}", prefix, i, from.size(), item.substr(close + 1)), out) || out.size() > most_hosts)
        return false;
  }
  return true;
}

} // namespace

std::vector<std::string> expand_hostlist(std::string_view list) {
  std::vector<std::string> hosts;
  for (const auto& item : split_outside_brackets(list, ','))
    if (!expand_item(item, hosts))
      return {};
  return hosts;
}

std::vector<std::uint32_t> expand_counts(std::string_view list) {
  std::vector<std::uint32_t> counts;
  for (const auto& item : split_outside_brackets(list, ',')) {
    const auto times = item.find("(x");
    const auto count = number(item.substr(0, times));
    const auto repeat = times == std::string::npos ? 1
                        : item.ends_with(')')      ? number(item.substr(times + 2, item.size() - times - 3))
                                                   : -1;
    if (count < 0 || repeat < 1 || count > static_cast<std::int64_t>(most_hosts)
        || counts.size() + static_cast<std::uint64_t>(repeat) > most_hosts)
      return {};
    counts.insert(counts.end(), static_cast<std::size_t>(repeat), static_cast<std::uint32_t>(count));
  }
  return counts;
}

checked<slurm_step> cluster_of_slurm(const std::function<std::string(const char*)>& variable,
                                     const std::function<std::string(const std::string&)>& address_of,
                                     const cluster_security& security) {
  const auto wrong = [](std::string message) { return refusal{{{"--slurm", std::move(message)}}}; };
  const auto job = number(variable("SLURM_JOB_ID")), step = number(variable("SLURM_STEP_ID")),
             task = number(variable("SLURM_PROCID"));
  const auto list = variable("SLURM_STEP_NODELIST"), tasks = variable("SLURM_STEP_TASKS_PER_NODE");
  if (job < 0 || step < 0 || task < 0 || list.empty() || tasks.empty())
    return wrong("this is not a task of a Slurm step (SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, SLURM_STEP_NODELIST and "
                 "SLURM_STEP_TASKS_PER_NODE are not all set); start it with srun");
  const auto hosts = expand_hostlist(list);
  const auto counts = expand_counts(tasks);
  const auto is_name = [](const std::string& host) {
    return std::ranges::all_of(host, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; });
  };
  if (!std::ranges::all_of(hosts, is_name)) // they go into files and commands
    return wrong(fmt::format("SLURM_STEP_NODELIST=\"{}\" has an item that is not a host's name", list));
  if (hosts.empty() || hosts.size() != counts.size())
    return wrong(fmt::format("SLURM_STEP_NODELIST=\"{}\" and SLURM_STEP_TASKS_PER_NODE=\"{}\" do not go together", list, tasks));
  slurm_step out;
  out.nodes.name = fmt::format("slurm-{}-{}", job, step);
  out.nodes.security = security;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto address = address_of(hosts[h]);
    if (security.loopback_only() && !is_loopback(address))
      return wrong(fmt::format(
          "{} is at {}, which is no loopback address; give the nodes certificates (--certs FOLDER), or --insecure where "
          "this network is private (certs and insecure of a script)",
          hosts[h], address));
    for (std::uint32_t k = 0; k < counts[h]; ++k) {
      cluster_node node;
      node.name = counts[h] == 1 ? hosts[h] : fmt::format("{}-{}", hosts[h], k);
      node.host = address;
      node.coordinator = out.nodes.nodes.empty();
      node.shard = true;
      node.worker = !node.coordinator;
      out.nodes.nodes.push_back(std::move(node));
    }
  }
  if (task >= static_cast<std::int64_t>(out.nodes.nodes.size()))
    return wrong(fmt::format("SLURM_PROCID={} and {} tasks do not go together", task, out.nodes.nodes.size()));
  if (out.nodes.nodes.size() == 1)
    out.nodes.nodes.front().worker = true;
  out.nodes.nodes.front().port = static_cast<std::uint16_t>(20'000 + (job * 16 + step) % 20'000);
  out.self = out.nodes.nodes[static_cast<std::size_t>(task)].name;
  return out;
}

} // namespace troupe::config
