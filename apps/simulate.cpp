// SPDX-License-Identifier: BSD-3-Clause
// `troupe simulate`: a job in virtual time.
#include <cstdio>
#include <exception>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/calibration.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"
#include "apps/simulate_job.hpp"

namespace troupe::apps {

namespace {

void print_simulation(const simulation& how, const std::string& numerics) {
  const protocols::sim::result& r = how.result;
  for (const std::string& note : r.notes)
    fmt::print("{}\n", note);
  fmt::print("{:.3f} s of virtual time in {:.2f} s: {} events, {:.0f} a second\n", static_cast<double>(r.virtual_time) * 1e-9,
             how.wall_seconds, r.events, static_cast<double>(r.events) / std::max(how.wall_seconds, 1e-9));
  if (r.virtual_time == 0)
    fmt::print(
        "steps take no time: the job does not say how long one takes; give --set inject.step_ms=10 or --calibrate TRACE\n");
  fmt::print("{} steps, {} gradients, {} discarded, {} samples; staleness in versions: mean {:.2f}, maximum {}\n", r.steps,
             r.gradients, r.discarded, r.samples, r.staleness_mean(), r.staleness_max());
  if (!r.curve.empty() && numerics == "model")
    fmt::print("test accuracy {:.4f}, test loss {:.4f}, train loss {:.4f}\n", r.curve.back().found.test_accuracy,
               r.curve.back().found.test_loss, r.curve.back().found.train_loss);
  else if (!r.curve.empty())
    fmt::print("train loss {:.6g}\n", r.curve.back().found.train_loss);
  if (r.target_reached)
    fmt::print("target reached after {:.3f} s\n", static_cast<double>(r.time_to_target) * 1e-9);
  fmt::print("digest {:016x}\n", r.digest);
}

} // namespace

int execute(const simulate_options& options) {
  note_interrupts();
  auto loaded = load_job(options.job);
  if (!loaded)
    return refuse(loaded.error());
  print_notes(loaded->left_out);
  if (options.seconds > 0 || options.steps > 0)
    loaded->job.stop = {.steps = options.steps, .seconds = options.seconds};
  protocols::sim::calibration measured;
  if (!options.calibrate.empty()) {
    auto read = read_calibration(options.calibrate);
    if (!read)
      return refuse(read.error());
    measured = std::move(*read);
  }
  simulation how;
  try {
    if (loaded->numerics == "quadratic") {
      how = simulate_quadratic(*loaded, measured);
    } else {
      auto prepared = prepare_job(*loaded);
      if (!prepared)
        return refuse(prepared.error());
      how = simulate_model(prepared->config, prepared->data, prepared->network, measured);
    }
  } catch (const std::exception& e) {
    how.result.failed = true;
    how.result.reason = e.what();
  }
  const bool failed = (how.result.failed || how.result.stalled) && !how.result.interrupted;
  if (options.json)
    print_json(to_json(*loaded, how));
  else if (!failed)
    print_simulation(how, loaded->numerics);
  if (failed) {
    fmt::print(stderr, "troupe: the job failed: {}; --seed {} repeats it\n", how.result.reason, loaded->job.seed);
    return exit_failed;
  }
  if (!how.result.interrupted)
    return exit_done;
  fmt::print(stderr, "troupe: interrupted after {}\n", counted(how.result.steps, "step"));
  return exit_interrupted;
}

} // namespace troupe::apps
