// SPDX-License-Identifier: BSD-3-Clause
// How another coordinator goes on with a job that runs: from what is decided about it, and from what its lead says.
#pragma once

#include <map>
#include <vector>

#include "protocols/coordinator.hpp"
#include "protocols/lead_report.hpp"
#include "protocols/ledger.hpp"

namespace troupe::protocols {

/// The coordinator's state with which a job goes on; coordinator::take_office comes next. `newest`: each worker's newest
/// incarnation, whether it takes part or not.
///
/// What a coordinator remembers beside decisions is in the lead's report, or begins anew: a controller, counts of rounds without
/// an update, whose losses ended the job. An evaluation that was open is repeated.
coordinator_state taken_over(const coordinator_options& options, const ledger::course& decided,
                             const std::map<worker_id, incarnation>& newest, const lead_report& lead);

/// Whose places are taken, as whoever has missed it is told.
std::vector<takes_over> promotions(const tree_shape& shape, const ledger::course& decided);

} // namespace troupe::protocols
