// SPDX-License-Identifier: BSD-3-Clause
// A cluster at one moment, and the console's answers about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <caf/error.hpp>

#include "actors/messages/cluster.hpp"
#include "apps/console/answer.hpp"

namespace troupe::apps::console {

/// Everything that a command may use.
struct snapshot {
  actors::cluster_view cluster;
  actors::cluster_report reports;
  double at_s = 0; ///< when it was taken, by the console's clock

  /// All actors, sorted by job, role and number.
  std::vector<actors::actor_report> actors() const;
};

/// "worker 2", or "3/worker 2" where the cluster runs several jobs.
std::string name_of(const actors::actor_report& actor, const snapshot& seen);
/// The id for the ways users write it: "worker:2", "worker2", "coordinator".
std::string actor_id(std::string name);
/// Finds an actor by its name, which may lack the job where only one runs, and may be written "worker:2". Null: none.
const actors::actor_report* find_actor(const std::vector<actors::actor_report>& all, const snapshot& seen,
                                       const std::string& name);

/// An actor as JSON, the same in every command.
boost::json::object json_of(const actors::actor_report& actor, const snapshot& seen);
/// Names in a line: many of one role as "22 workers (0-20, 22)".
std::string names_text(const std::vector<std::string>& ids);
/// Whether no actor has that name. False where one may be on a node that does not answer.
bool is_nobody(const snapshot& seen, const std::string& name);
/// There is no actor of that name; suggests another.
answer no_such(const snapshot& seen, const std::string& name);
/// The cluster does not answer, or refuses.
answer no_answer(const caf::error& why);
/// "7.5 s", "75 s".
std::string seconds_text(double seconds);

/// One line per actor; `only`: a role or a node, empty: all.
answer ps(const snapshot& seen, const std::string& only);
answer show(const snapshot& seen, const std::string& actor);
/// The chain of waits from this actor down to its cause. `rounds_per_s`: of its job, where known: while rounds close, actors that
/// wait for each other are only between two messages.
answer why(const snapshot& seen, const std::string& actor, std::optional<double> rounds_per_s = {});
answer nodes(const snapshot& seen);
/// Running jobs, the queue, and how the last jobs ended.
answer jobs(const actors::cluster_view& cluster, const actors::history& past);

} // namespace troupe::apps::console
