// SPDX-License-Identifier: BSD-3-Clause
// What an operator may change of a job that runs.
#pragma once

#include <string>
#include <vector>

#include <caf/expected.hpp>

#include "actors/job.hpp"
#include "actors/messages/role.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// The decision that makes the job's machine change `optimizer.lr` or the period as wanted; `running`: the protocol that runs
/// now. The job as it would be is checked as the job was. The error is a sentence for the operator.
caf::expected<protocols::decision> requested_change(const change_order& msg, const job& job,
                                                    const protocols::protocol_spec& running,
                                                    const std::vector<protocols::protocol>& added);

} // namespace troupe::actors
