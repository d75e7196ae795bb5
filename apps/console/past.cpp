// SPDX-License-Identifier: BSD-3-Clause
// Curves and events as text.
#include "apps/console/past.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "apps/console/drawing.hpp"
#include "apps/report.hpp"
#include "apps/run_progress.hpp"

namespace troupe::apps::console {

namespace {

std::string head_of(const actors::history& past, const actors::job_title& job) {
  auto text = fmt::format("job {} ({}), {}, {}", job.number, job.name, job.protocol, job.state);
  if (!past.steps.empty()) {
    const auto& last = past.steps.back();
    text += fmt::format("; step {}, epoch {:.2f}, loss {:.4f}", last.step, last.epoch, last.train_loss);
  }
  if (!past.evaluations.empty())
    text += fmt::format(", accuracy {:.4f}", past.evaluations.back().test_accuracy);
  return text + "\n";
}

/// Local time, with the date unless it is today.
std::string time_text(std::int64_t at_ms, std::time_t now) {
  const auto then = fmt::localtime(static_cast<std::time_t>(at_ms / 1000)), today = fmt::localtime(now);
  const bool same = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
  return same ? fmt::format("{:%H:%M:%S}", then) : fmt::format("{:%Y-%m-%d %H:%M:%S}", then);
}

std::string iso_text(std::int64_t at_ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(at_ms / 1000)), at_ms % 1000);
}

} // namespace

std::uint64_t find_job(const std::vector<actors::job_title>& jobs, const std::string& job) {
  std::uint64_t newest = 0, runs = 0, named = 0;
  for (const auto& each : jobs) {
    newest = each.number;
    runs = each.state == "runs" ? each.number : runs;
    named = each.name == job || std::to_string(each.number) == job ? each.number : named;
  }
  return !job.empty() ? named : runs != 0 ? runs : newest;
}

answer no_such_job(const std::string& job) {
  return wrong(job.empty() ? "no job has run here yet"
                           : fmt::format(
                               "there is no job \"{}\", or the cluster has forgotten it; `jobs` lists those that it knows", job));
}

answer loss(const actors::history& past, std::uint64_t job, const screen& on) {
  const auto title = std::ranges::find(past.jobs, job, &actors::job_title::number);
  if (title == past.jobs.end())
    return no_such_job(std::to_string(job));
  boost::json::array rounds, evaluations;
  drawing losses{.title = "training loss against training time", .line = {}, .marks = {}},
      accuracies{.title = "test accuracy", .line = {}, .marks = {}};
  for (const auto& each : past.steps) {
    losses.line.push_back({each.seconds, each.train_loss});
    rounds.push_back({{"step", each.step},
                      {"samples", each.samples},
                      {"seconds", each.seconds},
                      {"train_loss", finite_or_null(each.train_loss)}});
  }
  for (const auto& each : past.evaluations) {
    losses.marks.push_back({each.seconds, each.train_loss});
    accuracies.marks.push_back({each.seconds, each.test_accuracy});
    accuracies.line.push_back({each.seconds, each.test_accuracy});
    evaluations.push_back(to_json(each));
  }
  auto text = head_of(past, *title);
  text += draw({losses, accuracies}, on.width, std::max<std::size_t>(on.height, 3) - 3, on.unicode);
  return {text,
          {{"job", job},
           {"name", title->name},
           {"protocol", title->protocol},
           {"state", title->state},
           {"rounds", std::move(rounds)},
           {"evaluations", std::move(evaluations)}}};
}

answer events(const actors::history& past, const screen& on) {
  const auto now = std::time(nullptr);
  const auto most = on.terminal ? std::max<std::size_t>(on.height, 4) - 3 : past.events.size(); // a prompt and a head
  std::vector<std::vector<std::string>> rows{{"time", "of", "what"}};
  boost::json::array list;
  for (std::size_t i = 0; const auto& each : past.events) {
    if (++i + most > past.events.size())
      rows.push_back({time_text(each.at_ms, now), each.job == 0 ? "cluster" : fmt::format("job {}", each.job), each.text});
    list.push_back({{"number", each.number}, {"at", iso_text(each.at_ms)}, {"job", each.job}, {"text", each.text}});
  }
  return {rows.size() == 1 ? "nothing has happened yet\n" : table(rows), {{"events", std::move(list)}}};
}

} // namespace troupe::apps::console
