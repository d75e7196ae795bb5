// SPDX-License-Identifier: BSD-3-Clause
// How far a run is.
#pragma once

#include <algorithm>

#include "actors/run_observer.hpp"
#include "apps/config/job_file.hpp"

namespace troupe::apps {

/// Of the limit that will be met first, as far as can be told; 0 where the job names none.
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

} // namespace troupe::apps
