// SPDX-License-Identifier: BSD-3-Clause
// One job in virtual time, from its start to its result: what `simulate` and `compare --simulate` share.
#pragma once

#include <string>

#include <boost/json/fwd.hpp>

#include "apps/config/job_file.hpp"
#include "apps/curve.hpp"
#include "protocols/sim/simulate.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

/// How a simulation went. One that could not go on has failed, with the reason; interrupt_noted() ends one where it is.
struct simulation {
  protocols::sim::result result;
  double wall_seconds = 0;
  curve evaluations;
};

/// Runs a job whose data and model are there (numerics = "model"). Throws std::runtime_error where the initial weights cannot be
/// read. `data` and `network` are the prepared job's.
simulation simulate_model(const config::loaded_job& loaded, const data_pair& data, const model& network,
                          const protocols::sim::calibration& measured);

/// Runs a job with the closed-form quadratic (numerics = "quadratic"): no data is read. Tensors take the time that those of the
/// job's model would, where the model is known without the data; else none.
simulation simulate_quadratic(config::loaded_job loaded, const protocols::sim::calibration& measured);

/// The keys of `simulate --json`; `error` says why it failed.
boost::json::object to_json(const config::loaded_job& loaded, const simulation& how);

} // namespace troupe::apps
