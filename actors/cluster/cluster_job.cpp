// SPDX-License-Identifier: BSD-3-Clause
// What is shown of a job, and handed out of its result in pieces.
#include "actors/cluster/cluster_job.hpp"

#include <algorithm>
#include <chrono>

namespace troupe::actors {

job_view cluster_job::view(caf::actor_clock::time_point now) const {
  job_view out{number, submission.job.name, submission.job.protocol.name, state(),
               std::chrono::duration<double>(now - since).count()};
  if (meter) {
    out.steps = meter->steps;
    out.samples = meter->samples;
    out.epochs = static_cast<double>(out.samples) / static_cast<double>(meter->data_size);
  }
  return out;
}

std::vector<std::uint32_t> cluster_job::nodes(const std::vector<cluster_member>& members) const {
  std::vector<std::uint32_t> out;
  for (std::size_t place = 0; place < gang.size(); ++place)
    if (place < begins_with || members[gang[place]].job == number)
      out.push_back(gang[place]);
  return out;
}

weights_piece cluster_job::weights(std::uint64_t offset, std::uint64_t most) const {
  const auto all = result.parameters.span<const float>();
  const auto begin = std::min<std::uint64_t>(offset, all.size());
  const auto piece = all.subspan(begin, std::min(all.size() - begin, most));
  return {{piece.begin(), piece.end()}};
}

node_trace_piece cluster_job::trace(const node_trace_query& query) const {
  const auto& traces = ended || !recorded ? result.trace : *recorded;
  if (query.node >= traces.size())
    return {.nodes = static_cast<std::uint32_t>(traces.size())};
  const auto& node = traces[query.node];
  const auto begin = node.events.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(query.offset, node.events.size()));
  const auto end = begin + fitting(begin, node.events.end());
  return {node.name, {{begin, end}, node.dropped, end == node.events.end()}, static_cast<std::uint32_t>(traces.size())};
}

} // namespace troupe::actors
