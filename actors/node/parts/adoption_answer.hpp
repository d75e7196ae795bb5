// SPDX-License-Identifier: BSD-3-Clause
// What a node answers to a coordinator that takes its job over.
#pragma once

#include "actors/messages/node.hpp"
#include "actors/node/parts/local_roles.hpp"
#include "actors/roles/activity.hpp"

namespace troupe::actors {

/// `known` with what the lead and the evaluator say, if they are here. They work off what came before, so each has a deadline;
/// one that is too late is left out. On the thread of `self`.
caf::result<adopted_part> answer_adoption(measured_pointer<node_control> self, const local_roles& roles, adopted_part known);

} // namespace troupe::actors
