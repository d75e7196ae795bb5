// SPDX-License-Identifier: BSD-3-Clause
// `troupe compare`: one job under several protocols or codecs, as a table, an object and a plot.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <optional>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/config/spec_text.hpp"
#include "apps/job_setup.hpp"
#include "apps/plot/plot.hpp"
#include "apps/report.hpp"
#include "apps/run_job.hpp"
#include "apps/signals.hpp"
#include "apps/simulate_job.hpp"

namespace troupe::apps {

namespace {

namespace json = boost::json;

/// The job under one protocol or codec.
struct contestant {
  std::string label; ///< as asked: "local:steps=5"
  config::loaded_job job;
};

/// How one of them went.
struct outcome {
  bool interrupted = false;
  std::string failure; ///< why; empty: it did not fail
  json::object keys;   ///< those of `run --json`, or of `simulate --json`
  curve evaluations;
};

/// Runs one of them, really or in the simulator. Does not throw: an exception becomes a failure.
using runner = std::function<outcome(const contestant&)>;

/// A row of the comparison.
struct row {
  std::string label;
  outcome how;
};

runner real_runner(const prepared_job& prepared, bool quiet, signal_waiter& signals) {
  return [&prepared, quiet, &signals](const contestant& c) -> outcome {
    job_outcome ran;
    try {
      ran = run_job(c.job, prepared.network, {.quiet = quiet}, signals);
    } catch (const std::exception& e) { // this one could not start here; the next may
      ran = failed_outcome(e.what());
    }
    return {ran.result.interrupted, ran.result.failed ? ran.result.reason : "", to_json(c.job, ran), ran.evaluations};
  };
}

runner simulated_runner(const prepared_job& prepared) {
  return [&prepared](const contestant& c) -> outcome {
    try {
      const simulation played = c.job.numerics == "quadratic" ? simulate_quadratic(c.job, {})
                                                              : simulate_model(c.job, prepared.data, prepared.network, {});
      const bool failed = played.result.failed || played.result.stalled;
      return {played.result.interrupted, failed ? played.result.reason : "", to_json(c.job, played), played.evaluations};
    } catch (const std::exception& e) {
      return {false, e.what(), {}, {}};
    }
  };
}

/// The labels in the list of --protocols or --codecs, or its errors.
config::checked<std::vector<std::string>> labels_of(const std::string& flag, const std::string& list) {
  std::vector<std::string> labels = config::split_outside_brackets(list, ',');
  config::problems wrong;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i].empty())
      return config::refusal{{{flag, fmt::format("has an empty name between two commas; write {} {}", flag,
                                                 flag == "--codecs" ? "none,onebit" : "sync,local:steps=5")}}};
    else if (const auto first = std::find(labels.begin(), labels.end(), labels[i]) - labels.begin();
             static_cast<std::size_t>(first) < i)
      wrong.push_back({flag + " " + labels[i], "is listed twice; once is enough"});
  if (!wrong.empty())
    return config::refusal{std::move(wrong)};
  return labels;
}

/// "onebit:error_feedback=false" as settings of [codec].
config::checked<std::vector<config::setting>> codec_settings(const std::string& label) {
  const std::string flag = "--codecs " + label;
  const std::vector<std::string> parts = config::split_outside_brackets(label, ':');
  std::vector<config::setting> sets{{"codec.push", parts.front(), flag}};
  config::problems wrong;
  for (const std::string& part : parts)
    if (part.empty())
      wrong.push_back({flag, "has an empty part; write a codec, then keys of [codec], as in onebit:error_feedback=false"});
    else if (const auto equals = part.find('='); &part != &parts.front() && (equals == 0 || equals == std::string::npos))
      wrong.push_back({flag, fmt::format("\"{}\" is not key=value; keys of [codec] follow the name as in "
                                         "onebit:error_feedback=false",
                                         part)});
    else if (&part != &parts.front())
      sets.push_back({"codec." + part.substr(0, equals), part.substr(equals + 1), flag});
  if (!wrong.empty())
    return config::refusal{std::move(wrong)};
  return sets;
}

/// The job as one label asks for it, or the errors in that.
config::checked<contestant> contestant_of(const compare_options& options, std::vector<config::setting> sets,
                                          const std::string& label) {
  std::string protocol = label; // empty: the job's own
  if (!options.codecs.empty()) {
    const auto further = codec_settings(label);
    if (!further)
      return further.error();
    sets.insert(sets.end(), further->begin(), further->end());
    protocol.clear();
  }
  auto loaded = config::load_job(options.job.file, sets, protocol, options.job.added);
  if (!loaded)
    return loaded.error();
  return contestant{label, std::move(*loaded)};
}

/// The job under each requested protocol or codec, or the errors of all of them.
config::checked<std::vector<contestant>> contestants_of(const compare_options& options) {
  const auto labels =
      options.codecs.empty() ? labels_of("--protocols", options.protocols) : labels_of("--codecs", options.codecs);
  if (!labels)
    return labels.error();
  auto sets = options.job.sets;
  sets.push_back({"checkpoint.dir", "", "compare"}); // one run would go over another's
  const auto own = config::load_job(options.job.file, sets, {}, options.job.added);
  if (!own)
    return own.error(); // once, and not again for each label
  print_notes(own->left_out);
  if (auto wrong = config::only_simulated(*own); !wrong.empty() && !options.simulate)
    return config::refusal{std::move(wrong)};
  std::vector<contestant> all;
  config::refusal wrong;
  for (const std::string& label : *labels)
    if (auto one = contestant_of(options, sets, label)) {
      all.push_back(std::move(*one));
    } else {
      const config::refusal why = one.error();
      wrong.all.insert(wrong.all.end(), why.all.begin(), why.all.end());
    }
  if (!wrong.all.empty())
    return wrong;
  return all;
}

double number(const json::object& keys, const char* key) {
  const json::value* v = keys.if_contains(key);
  return v != nullptr && v->is_number() ? v->to_number<double>() : std::nan("");
}

std::string cell(const char* form, double value, const char* nothing = "-") {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : nothing;
}

std::string table_of(const std::string& compared, const std::vector<row>& rows, double target) {
  // Without a target the time of the whole run is compared; a simulated run calls it virtual.
  const auto seconds = [](const outcome& o) {
    return number(o.keys, o.keys.contains("seconds") ? "seconds" : "virtual_seconds");
  };
  const auto time = [&](const outcome& o) { return target > 0 ? number(o.keys, "time_to_target_s") : seconds(o); };
  std::vector<std::vector<std::string>> cells{{compared, target > 0 ? fmt::format("to {}", target) : "time", "relative",
                                               "train loss", "accuracy", "steps", "steps/s", "sent", "staleness mean/max"}};
  const double first = rows.empty() || !rows.front().how.failure.empty() ? std::nan("") : time(rows.front().how);
  for (const auto& [label, how] : rows) {
    if (!how.failure.empty()) {
      cells.push_back({label, "failed", "-", "-", "-", "-", "-", "-", how.failure});
      continue;
    }
    const double sent = number(how.keys, "bytes_sent");
    cells.push_back(
        {label, cell("{:.2f} s", time(how), target > 0 ? "not reached" : "-"), cell("{:.2f}", time(how) / first),
         cell("{:.4f}", number(how.keys, "train_loss")), cell("{:.4f}", number(how.keys, "test_accuracy")),
         cell("{:.0f}", number(how.keys, "steps")), cell("{:.1f}", number(how.keys, "steps") / seconds(how)),
         std::isfinite(sent) ? bytes_text(sent) : "-",
         cell("{:.2f}", number(how.keys, "staleness_mean")) + " / " + cell("{:.0f}", number(how.keys, "staleness_max"))});
  }
  return table(cells);
}

json::object comparison_json(const std::vector<row>& rows) {
  json::array runs;
  for (const auto& [label, how] : rows) {
    json::object one = how.keys;
    one["label"] = label;
    one["error"] = how.failure.empty() ? json::value(nullptr) : json::value(how.failure);
    json::array points;
    for (const curve_point& p : how.evaluations)
      points.push_back({finite_or_null(p.seconds), finite_or_null(p.train_loss), finite_or_null(p.test_accuracy)});
    one["curve"] = std::move(points);
    runs.push_back(std::move(one));
  }
  return {{"runs", std::move(runs)}};
}

/// Writes the plot, completely or not at all; returns what went wrong.
std::string write_plot(const std::string& path, const std::vector<row>& rows, const actors::job& job, bool simulated) {
  plot_data data{.title = job.name,
                 .time_label = simulated ? "virtual time (s)" : "training time (s)",
                 .target_accuracy = job.stop.target_accuracy};
  for (const auto& [label, how] : rows) {
    const double reached = number(how.keys, "time_to_target_s");
    data.curves.push_back({label, how.evaluations, std::isfinite(reached) ? std::optional(reached) : std::nullopt});
  }
  const auto unfinished = path + ".unfinished";
  std::ofstream file(unfinished);
  file << plot_svg(data);
  file.close();
  if (file && std::rename(unfinished.c_str(), path.c_str()) == 0)
    return "";
  std::remove(unfinished.c_str());
  return fmt::format("cannot write {}; is the disk full?", path);
}

/// Runs them one after the other; one that fails does not stop the others, Ctrl-C does.
std::vector<row> run_all(const std::vector<contestant>& contestants, const runner& run, bool quiet,
                         const std::function<bool()>& interrupted) {
  std::vector<row> rows;
  for (const contestant& c : contestants) {
    if (!quiet)
      fmt::print(stderr, "compare: {} ({} of {})\n", c.label, rows.size() + 1, contestants.size());
    outcome how = run(c);
    if (how.interrupted)
      break;
    if (!how.failure.empty())
      fmt::print(stderr, "troupe: {} failed: {}\n", c.label, how.failure);
    rows.push_back({c.label, std::move(how)});
    if (interrupted()) // while it ended
      break;
  }
  return rows;
}

} // namespace

int execute(const compare_options& options) {
  if (options.simulate)
    note_interrupts(); // real runs wait for Ctrl-C
  if (!options.plot.empty() && !options.plot.ends_with(".svg"))
    return refuse({{{"--plot", fmt::format("{} is not the name of an SVG file; let it end in .svg", options.plot)}}});
  if (!options.plot.empty())
    if (auto why = cannot_write(options.plot); !why.empty())
      return refuse({{{"--plot", why}}});
  auto contestants = contestants_of(options);
  if (!contestants)
    return refuse(contestants.error());
  auto prepared = prepare_job(contestants->front().job);
  if (!prepared)
    return refuse(prepared.error());
  for (contestant& c : *contestants)
    complete_model(c.job, prepared->data.train->classes());
  if (!options.simulate) {
    std::vector<const config::loaded_job*> jobs;
    for (const contestant& c : *contestants)
      jobs.push_back(&c.job);
    if (auto wrong = config::process_limits(prepared->config); !wrong.empty())
      return refuse({std::move(wrong)});
    if (auto wrong = memory_shortages(jobs, prepared->network, prepared->data); !wrong.empty())
      return refuse({std::move(wrong)});
    prepared->data = {}; // each node reads its own
  }

  std::optional<signal_waiter> signals;
  if (!options.simulate)
    signals.emplace();
  const auto interrupted = [&signals] { return signals ? signals->interrupted() : interrupt_noted(); };
  const runner run = options.simulate ? simulated_runner(*prepared) : real_runner(*prepared, options.quiet, *signals);
  const std::vector<row> rows = run_all(*contestants, run, options.quiet, interrupted);

  const actors::job& job = prepared->config.job;
  std::string plot_failure;
  if (!options.plot.empty())
    plot_failure = write_plot(options.plot, rows, job, options.simulate);
  if (!plot_failure.empty())
    fmt::print(stderr, "troupe: {}\n", plot_failure);
  if (options.json)
    print_json(comparison_json(rows));
  else
    fmt::print("{}", table_of(options.codecs.empty() ? "protocol" : "codec", rows, job.stop.target_accuracy));
  if (interrupted()) {
    fmt::print(stderr, "troupe: interrupted after {} of {} runs\n", rows.size(), contestants->size());
    return exit_interrupted;
  }
  const bool failed = std::any_of(rows.begin(), rows.end(), [](const row& r) { return !r.how.failure.empty(); });
  return failed || !plot_failure.empty() ? exit_failed : exit_done;
}

} // namespace troupe::apps
