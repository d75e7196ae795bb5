// SPDX-License-Identifier: BSD-3-Clause
// Where a script runs.
#include "apps/library/script_cluster.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/config/kubernetes.hpp"
#include "apps/environment.hpp"
#include "apps/slurm_task.hpp"

namespace troupe::apps {

namespace {

template <class T>
T value_of(config::checked<T> read) {
  if (!read)
    throw std::runtime_error(read.error().text());
  return std::move(*read);
}

script_cluster of_file(const std::string& file, const std::string& node) {
  if (node.empty())
    throw std::runtime_error(
        fmt::format("{}: say which of its nodes this process is: node = \"NAME\", or TROUPE_NODE_NAME=NAME in "
                    "its environment",
                    file));
  script_cluster out{value_of(config::load_cluster(file, node)), node};
  if (out.nodes.find(node) == nullptr) {
    std::vector<std::string> names;
    for (const auto& each : out.nodes.nodes)
      names.push_back(each.name);
    throw std::runtime_error(fmt::format("{}: it has no node \"{}\"; there are {}", file, node, fmt::join(names, ", ")));
  }
  if (!out.nodes.journal.empty())
    throw std::runtime_error(fmt::format("{}: it has a journal, and the cluster of a script ends with its job: there is nothing "
                                         "to go on with; leave cluster.journal out",
                                         file));
  return out;
}

/// Every process computes, and the first one has the shard.
script_cluster of_slurm(const script_place& where) {
  auto step = value_of(this_slurm_task(where.certs, where.insecure));
  for (auto& node : step.nodes.nodes)
    node.worker = true;
  return {std::move(step.nodes), std::move(step.self)};
}

script_cluster of_kubernetes(const script_place& where) {
  auto pod = value_of(config::cluster_of_kubernetes(environment_variable, where.certs, where.insecure));
  return {std::move(pod.nodes), std::move(pod.self)};
}

} // namespace

script_cluster find_script_cluster(const script_place& where, const std::string& node) {
  const bool told = where.of == "slurm" || where.of == "kubernetes";
  if (told && !node.empty())
    throw std::runtime_error(
        fmt::format("node = \"{}\" is for a cluster file: {} tells each process which it is; leave it out", node, where.of));
  if (!told && (!where.certs.empty() || where.insecure))
    throw std::runtime_error(
        "certs and insecure are for Slurm and Kubernetes; a cluster file says who may join, in its section [security]");
  return where.of == "slurm" ? of_slurm(where) : told ? of_kubernetes(where) : of_file(where.of, node);
}

config::cluster find_cluster_of_nodes(const std::string& file) {
  if (file == "slurm" || file == "kubernetes")
    throw std::runtime_error(
        fmt::format("a job file runs on the cluster of `troupe node` processes, and cluster = \"{}\" is for a "
                    "script's own steps; give the file of a running cluster",
                    file));
  return value_of(config::load_cluster(file));
}

} // namespace troupe::apps
