// SPDX-License-Identifier: BSD-3-Clause
// What a cluster says of itself and of its jobs, and what it hands out of their results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/cluster/cluster_job.hpp"
#include "actors/cluster/cluster_member.hpp"
#include "actors/cluster/history.hpp"
#include "actors/messages/cluster.hpp"

namespace troupe::actors {

/// Part of the cluster's actor, and used on its thread alone. It sees what the cluster keeps; only what is recorded of a job is
/// noted there.
class cluster_answers {
public:
  struct sources {
    const std::string& name;
    const std::vector<cluster_member>& members;
    std::map<std::uint64_t, cluster_job>& jobs;
    const history_book& past;
  };
  cluster_answers(cluster_control::pointer self, const sources& from) : self_(self), from_(from) {}

  /// `orphan_s`: as in cluster_view.
  cluster_view view(double orphan_s) const;
  std::vector<member_view> members() const;
  caf::result<history> history_of(std::uint64_t job) const;
  caf::result<weights_piece> weights_of(const weights_query& msg) const;
  caf::result<node_trace_piece> trace_of(const node_trace_query& msg) const;
  caf::result<recording> record(const record_order& msg) const;
  caf::result<shards_view> shards_of(std::uint64_t number) const;

private:
  cluster_job* find(std::uint64_t number) const;

  cluster_control::pointer self_;
  sources from_;
};

} // namespace troupe::actors
