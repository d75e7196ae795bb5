// SPDX-License-Identifier: BSD-3-Clause
// A cluster at one moment, and what the console's commands say about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <caf/error.hpp>

#include "actors/messages/cluster.hpp"
#include "apps/console/answer.hpp"

namespace troupe::apps::console {

/// Everything that a command may look at.
struct snapshot {
  actors::cluster_view cluster;
  actors::cluster_report reports;
  double at_s = 0; ///< when it was taken, by a clock of the console's own

  /// All actors, sorted by job, role and number.
  std::vector<actors::actor_report> actors() const;
};

/// "worker 2", or "3/worker 2" where the cluster runs several jobs.
std::string name_of(const actors::actor_report& actor, const snapshot& at);
/// The same from how people write it: "worker:2", "worker2", "coordinator".
std::string actor_id(std::string name);
/// Finds an actor by its name, which may lack the job where only one runs, and may be written "worker:2". Null: none.
const actors::actor_report* find_actor(const std::vector<actors::actor_report>& all, const snapshot& at, const std::string& name);

/// An actor as JSON, of which every command that names one shows the same.
boost::json::object json_of(const actors::actor_report& actor, const snapshot& at);
/// Names in a line: many of one role as "22 workers (0-20, 22)".
std::string names_text(const std::vector<std::string>& ids);
/// Nobody has that name. Not known (false) where it may be on a node that does not answer.
bool is_nobody(const snapshot& at, const std::string& name);
/// There is none of that name; perhaps another was meant.
answer no_such(const snapshot& at, const std::string& name);
/// The cluster does not answer, or refuses.
answer no_answer(const caf::error& why);
/// "7.5 s", "75 s".
std::string seconds_text(double seconds);

/// One line about each actor; `only`: a role or a node, empty: all.
answer ps(const snapshot& at, const std::string& only);
answer show(const snapshot& at, const std::string& actor);
/// The chain of waits from this actor down to what holds everybody up. `rounds_per_s`: of its job, where that is known: while
/// rounds are closed, those that wait for each other are between two messages.
answer why(const snapshot& at, const std::string& actor, std::optional<double> rounds_per_s = {});
answer nodes(const snapshot& at);
/// Those that run, the queue, and how the last that ended did.
answer jobs(const actors::cluster_view& cluster, const actors::history& past);

} // namespace troupe::apps::console
