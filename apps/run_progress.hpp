// SPDX-License-Identifier: BSD-3-Clause
// How far a run is, and its evaluations as JSON.
#pragma once

#include <algorithm>

#include <boost/json.hpp>

#include "actors/run_observer.hpp"
#include "apps/config/job_file.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

/// The done fraction of the limit that will be met first, as far as is known; 0 where the job has no limit.
inline double fraction_done(const actors::job& job, const actors::progress& now) {
  double done = 0;
  auto consider = [&](double value, double limit) {
    if (limit > 0)
      done = std::max(done, value / limit);
  };
  consider(now.epoch, job.stop.epochs);
  consider(static_cast<double>(now.step), static_cast<double>(job.stop.steps));
  consider(static_cast<double>(now.samples), static_cast<double>(job.stop.samples));
  consider(now.seconds, job.stop.seconds);
  return std::min(done, 1.0);
}

/// The keys that logs, the console and the web page share.
inline boost::json::object to_json(const actors::evaluation_point& e) {
  boost::json::object out{{"step", e.step},
                          {"samples", e.samples},
                          {"seconds", e.seconds},
                          {"train_loss", finite_or_null(e.train_loss)},
                          {"test_loss", finite_or_null(e.test_loss)},
                          {"test_accuracy", finite_or_null(e.test_accuracy)}};
  if (e.validation_loss)
    out["validation_loss"] = finite_or_null(*e.validation_loss);
  return out;
}

} // namespace troupe::apps
