// SPDX-License-Identifier: BSD-3-Clause
// `troupe node`: one node of a cluster.
#include <cstdio>

#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

int node_command(const node_options& options) {
  const auto cluster = config::load_cluster(options.cluster);
  if (!cluster)
    return refuse(cluster.error());
  if (cluster->find(options.name) == nullptr)
    return refuse({{{options.cluster, fmt::format("there is no node \"{}\"; it names others", options.name)}}});
  fmt::print(stderr, "troupe: nodes are not there yet in this build\n");
  return exit_failed;
}

} // namespace troupe::apps
