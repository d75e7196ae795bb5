// SPDX-License-Identifier: BSD-3-Clause
// What becomes of the jobs that ran when the last coordinator was lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/cluster_job.hpp"
#include "actors/cluster/cluster_member.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/node/place_roles.hpp"

namespace troupe::actors {

/// Their nodes go on, and join again with what they have. A job is taken over as it is once all of its nodes are back; after 2 s,
/// if those are back without which it cannot go on. If after 5 s they are not, or have nothing any more, it begins at its newest
/// checkpoint.
///
/// Part of the cluster's actor, and used on its thread alone.
class succession {
public:
  /// The cluster.
  class owner {
  public:
    virtual ~owner() = default;
    /// Under a coordinator of this process. `nodes`: by their numbers in the job; null actors: they have not come back.
    virtual void go_on(cluster_job& job, std::vector<member_node> nodes, const returning_job& back) = 0;
    /// It will be among those that wait.
    virtual void release(cluster_job& job) = 0;
    virtual void start_what_fits() = 0;
    virtual void say(std::uint64_t job, const std::string& text) = 0;
  };

  succession(cluster_control::pointer self, std::vector<cluster_member>& members, std::map<std::uint64_t, cluster_job>& jobs,
             owner& by)
      : self_(self), members_(members), jobs_(jobs), by_(by) {}

  /// This process leads from now on. Its own node, which may be null, is the first member.
  void begin();
  /// A member is here, with a part in a job, or without.
  void is_back(std::uint32_t member, const std::optional<job_standing>& standing);
  /// Whatever is left of it ends, and it begins where a checkpoint says. Reading one takes its time.
  void go_back(cluster_job& job, const std::string& why);
  void on(const job_goes_back& msg);

private:
  /// Whom a job of before waits for: all its nodes, those without which it cannot go on, nobody.
  enum class patience : std::uint8_t { for_all, for_the_needed, over };
  void consider(cluster_job& job);
  void consider_all(patience now);
  void take_over(cluster_job& job);

  cluster_control::pointer self_;
  std::vector<cluster_member>& members_;
  std::map<std::uint64_t, cluster_job>& jobs_;
  owner& by_;
  patience patience_ = patience::for_all;
};

} // namespace troupe::actors
