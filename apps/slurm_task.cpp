// SPDX-License-Identifier: BSD-3-Clause
// Asks the environment, and Slurm for addresses.
#include "apps/slurm_task.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "apps/environment.hpp"

namespace troupe::apps {

namespace {

/// The addresses that Slurm has for the hosts of a list, asked for all at once. Host names that tests make up do not resolve.
std::map<std::string, std::string> slurm_addresses(const std::string& list) {
  std::map<std::string, std::string> found;
  auto* pipe = popen(fmt::format("scontrol show node '{}' --oneliner 2>/dev/null", list).c_str(), "r");
  if (pipe == nullptr)
    return found;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, pipe) > 0) {
    const auto value_of = [text = std::string{line}](const std::string& key) {
      const auto begin = text.find(key);
      return begin == std::string::npos ? std::string{}
                                        : text.substr(begin + key.size(), text.find(' ', begin) - begin - key.size());
    };
    if (const auto address = value_of("NodeAddr="); !address.empty())
      found[value_of("NodeName=")] = address;
  }
  std::free(line);
  pclose(pipe);
  return found;
}

} // namespace

config::checked<config::slurm_step> this_slurm_task(const std::string& certs, bool insecure) {
  auto security = config::security_of(certs, "", insecure); // until the node's name is known
  std::optional<std::map<std::string, std::string>> addresses;
  const auto address_of = [&](const std::string& host) { // host names only: the list holds nothing that a shell would interpret
    if (!addresses)
      addresses = slurm_addresses(environment_variable("SLURM_STEP_NODELIST"));
    const auto known = addresses->find(host);
    return known == addresses->end() ? host : known->second;
  };
  auto step = config::cluster_of_slurm(environment_variable, address_of, security);
  if (step)
    step->nodes.security = config::security_of(certs, step->self, insecure);
  return step;
}

} // namespace troupe::apps
