// SPDX-License-Identifier: BSD-3-Clause
// This process as a task of a Slurm step.
#pragma once

#include <string>

#include "apps/config/slurm.hpp"

namespace troupe::apps {

/// From its environment; the addresses of hosts are Slurm's where it knows them. `certs`: the folder of ca.pem, NAME.pem and
/// NAME.key; empty: none. `insecure`: anyone may join.
config::checked<config::slurm_step> this_slurm_task(const std::string& certs, bool insecure);

} // namespace troupe::apps
