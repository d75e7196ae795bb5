// SPDX-License-Identifier: BSD-3-Clause
// Reads the variables of a pod of an indexed Job.
#include "apps/config/kubernetes.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/parse_number.hpp"

namespace troupe::config {

namespace {

constexpr std::int64_t most_pods = 65'536, usual_port = 7400, last_port = 65'535;

bool is_host_name(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-'; });
}

} // namespace

checked<kubernetes_pod> cluster_of_kubernetes(const std::function<std::string(const char*)>& variable, const std::string& certs,
                                              bool insecure) {
  const auto wrong = [](std::string message) { return refusal{{{"kubernetes", std::move(message)}}}; };
  const auto number_of = [&](const char* name, std::int64_t least, std::int64_t most) {
    const auto text = variable(name);
    const auto found = parse_number<std::int64_t>(text);
    return found && *found >= least && *found <= most ? std::optional{*found} : std::nullopt;
  };
  std::vector<std::string> missing;
  for (const char* name : {"JOB_COMPLETION_INDEX", "HOSTNAME", "TROUPE_SERVICE", "TROUPE_NODES"})
    if (variable(name).empty())
      missing.emplace_back(name);
  if (!missing.empty())
    return wrong(fmt::format("{} {} not set: a pod of a Job with completionMode: Indexed has the first two, and its description "
                             "sets TROUPE_SERVICE to the headless service (its subdomain) and TROUPE_NODES to its completions",
                             fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
  const auto host = variable("HOSTNAME"), service = variable("TROUPE_SERVICE"), index_text = variable("JOB_COMPLETION_INDEX");
  const auto nodes = number_of("TROUPE_NODES", 1, most_pods);
  if (!nodes)
    return wrong(fmt::format("TROUPE_NODES=\"{}\" is no number of pods; give the Job's completions", variable("TROUPE_NODES")));
  const auto index = number_of("JOB_COMPLETION_INDEX", 0, *nodes - 1);
  if (!index)
    return wrong(
        fmt::format("JOB_COMPLETION_INDEX={} and TROUPE_NODES={} do not go together: pods count from 0; give TROUPE_NODES "
                    "the Job's completions",
                    index_text, *nodes));
  if (!host.ends_with("-" + index_text))
    return wrong(
        fmt::format("HOSTNAME={} does not end in -{}, as that of pod {} of an indexed Job does", host, index_text, index_text));
  if (!is_host_name(host) || !is_host_name(service))
    return wrong(fmt::format("HOSTNAME={} or TROUPE_SERVICE={} is no host's name", host, service));
  const auto port = variable("TROUPE_PORT").empty() ? std::optional{usual_port} : number_of("TROUPE_PORT", 1, last_port);
  if (!port)
    return wrong(fmt::format("TROUPE_PORT=\"{}\" is no port; give one from 1 to 65535", variable("TROUPE_PORT")));
  if (certs.empty() && !insecure)
    return wrong(
        "pods have other addresses than loopback; give them certificates (certs = FOLDER), or say insecure = true where a "
        "network policy keeps others out");
  const auto job = host.substr(0, host.size() - index_text.size() - 1);
  kubernetes_pod out;
  out.nodes.name = "kubernetes-" + job;
  out.nodes.security = security_of(certs, host, insecure && certs.empty());
  out.self = host;
  for (std::int64_t i = 0; i < *nodes; ++i) {
    cluster_node node{.name = fmt::format("{}-{}", job, i), .host = fmt::format("{}-{}.{}", job, i, service)};
    node.coordinator = i == 0;
    node.shard = node.worker = true;
    out.nodes.nodes.push_back(std::move(node));
  }
  out.nodes.nodes.front().port = static_cast<std::uint16_t>(*port);
  return out;
}

} // namespace troupe::config
