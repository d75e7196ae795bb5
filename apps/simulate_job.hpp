// SPDX-License-Identifier: BSD-3-Clause
// One job in virtual time, from start to result, for `simulate` and `compare --simulate`.
#pragma once

#include <string>

#include <boost/json/fwd.hpp>

#include "apps/config/job_file.hpp"
#include "apps/curve.hpp"
#include "protocols/sim/simulate.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

/// How a simulation went. One that could not continue has failed, with the reason; interrupt_noted() ends one early.
struct simulation {
  protocols::sim::result result;
  double wall_seconds = 0;
  curve evaluations;
};

/// Runs a prepared job with its real data and model (numerics = "model"). Throws std::runtime_error where the initial weights
/// cannot be read.
simulation simulate_model(const config::loaded_job& loaded, const data_pair& data, const model& network,
                          const protocols::sim::calibration& measured);

/// Runs a job with the closed-form quadratic (numerics = "quadratic"), without reading data. Messages take as long as those of
/// the job's model, where the model is known without the data; else no time.
simulation simulate_quadratic(config::loaded_job loaded, const protocols::sim::calibration& measured);

/// The keys of `simulate --json`; `error` says why it failed.
boost::json::object to_json(const config::loaded_job& loaded, const simulation& how);

} // namespace troupe::apps
