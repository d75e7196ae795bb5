// SPDX-License-Identifier: BSD-3-Clause
// A node that a cluster's file names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/typed_response_promise.hpp>

#include "actors/messages/cluster.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

/// Kept by the cluster's actor, and used on its thread alone.
struct cluster_member {
  node_description description;
  node_actor actor{}; ///< null: not here, or the coordinator's own
  std::int32_t pid = 0;
  std::uint64_t job = 0; ///< that it serves; 0: none
  bool leaving = false;
  bool ends = false;                                          ///< it leaves because its process ends
  std::int64_t leaving_ns = 0;                                ///< since when
  std::vector<caf::typed_response_promise<void>> may_leave{}; ///< of all who asked
  /// What became of it when it was here, and when: "is gone: connection lost, at 12:03:05"; empty: it never was.
  std::string last{};

  /// `own`: it is the process of the cluster itself.
  member_view view(bool own) const {
    const auto leaving_s = leaving ? static_cast<double>(steady_ns() - leaving_ns) * 1e-9 : 0.0;
    return {description, own || actor, leaving, pid, job, actor, last, leaving_s};
  }
};

} // namespace troupe::actors
