// SPDX-License-Identifier: BSD-3-Clause
// The registry, and Prometheus' text format.
#include "actors/monitoring/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <variant>

#include <caf/telemetry/collector/prometheus.hpp>
#include <caf/telemetry/metric_registry.hpp>
#include <fmt/format.h>

#include "actors/monitoring/process.hpp"

namespace troupe::actors {

namespace {

/// Longer names would only cost storage with every series.
constexpr std::size_t most_label_bytes = 128;
/// CAF names a gauge like a counter. The mailbox sizes contain the same information.
constexpr std::string_view misnamed = "caf_system_queued_messages_total";

template <class State>
struct family {
  const char *name, *type, *meaning;
  std::optional<double> (*value)(const State&); ///< nullopt: none yet
};

using job_state = metrics_registry::job_state;
template <auto Member>
std::optional<double> of_progress(const job_state& job) {
  return job.now ? std::optional{static_cast<double>((*job.now).*Member)} : std::nullopt;
}
template <auto Member>
std::optional<double> of_evaluation(const job_state& job) {
  return job.evaluated ? std::optional{(*job.evaluated).*Member} : std::nullopt;
}

constexpr std::array<family<job_state>, 8> job_families{{
    {"troupe_job_steps_total", "counter", "Versions of the parameters.", of_progress<&progress::step>},
    {"troupe_job_samples_total", "counter", "Samples in applied updates.", of_progress<&progress::samples>},
    {"troupe_job_training_seconds_total", "counter", "Training time; holds do not count.", of_progress<&progress::seconds>},
    {"troupe_job_epochs", "gauge", "Passes over the training data.", of_progress<&progress::epoch>},
    {"troupe_job_round_loss", "gauge", "Mean loss of the last round.", of_progress<&progress::train_loss>},
    {"troupe_job_train_loss", "gauge", "Training loss at the last evaluation.", of_evaluation<&evaluation_point::train_loss>},
    {"troupe_job_test_loss", "gauge", "Test loss at the last evaluation.", of_evaluation<&evaluation_point::test_loss>},
    {"troupe_job_test_accuracy_ratio", "gauge", "Part of the test samples that the last evaluation got right.",
     of_evaluation<&evaluation_point::test_accuracy>},
}};

using lane_state = metrics_registry::lane_state;
template <auto Member>
std::optional<double> of_lane(const lane_state& lane) {
  return static_cast<double>(lane.*Member);
}

constexpr std::array<family<lane_state>, 3> lane_families{{
    {"troupe_lane_sent_bytes_total", "counter", "Sent over the lane to a peer.", of_lane<&lane_state::sent>},
    {"troupe_lane_received_bytes_total", "counter", "Received over the lane from a peer.", of_lane<&lane_state::received>},
    {"troupe_lane_queued_bytes", "gauge", "Waits for the peer to take it.", of_lane<&lane_state::queued>},
}};

/// Named as in Prometheus' own client libraries.
constexpr std::array<family<std::monostate>, 2> process_families{{
    {"process_resident_memory_bytes", "gauge", "Memory of the process.",
     [](const std::monostate&) -> std::optional<double> { return static_cast<double>(resident_bytes()); }},
    {"process_cpu_seconds_total", "counter", "CPU time of the process, user and system.",
     [](const std::monostate&) -> std::optional<double> { return cpu_seconds(); }},
}};

std::string number(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// Families with their series; a family without one is left out.
template <class Families, class State>
void write(std::string& out, const Families& families, const std::map<std::string, State>& states) {
  for (const auto& each : families) {
    std::string series;
    for (const auto& [labels, state] : states)
      if (const auto value = each.value(state))
        fmt::format_to(std::back_inserter(series), "{}{} {}\n", each.name, labels, number(*value));
    if (!series.empty())
      fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n{3}", each.name, each.meaning, each.type, series);
  }
}

/// CAF's lines, without the misnamed metric and without the times after the values.
void write(std::string& out, const caf::telemetry::metric_registry& of_caf) {
  caf::telemetry::collector::prometheus collector;
  const auto collected = collector.collect_from(of_caf);
  for (std::string_view rest{collected.data(), collected.size()}; !rest.empty();) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find(misnamed) != line.npos)
      continue;
    if (!line.starts_with('#'))
      line = line.substr(0, line.rfind(' '));
    out.append(line).append("\n");
  }
}

/// Bytes of the first character of a text; 0 if it is not UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (at(i) & 0xC0U) == 0x80U; };
  const auto first = at(0), second = at(1);
  if (first < 0x80)
    return 1;
  if (first >= 0xC2 && first <= 0xDF)
    return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) // neither overlong nor a UTF-16 surrogate
    return follows(1) && follows(2) && (first != 0xE0 || second >= 0xA0) && (first != 0xED || second < 0xA0) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1) && follows(2) && follows(3) && (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second < 0x90) ? 4
                                                                                                                           : 0;
  return 0;
}

} // namespace

std::string label_text(std::string_view value) {
  std::string out;
  while (!value.empty() && out.size() < most_label_bytes) {
    const auto bytes = character_bytes(value);
    const auto character = value.substr(0, std::max<std::size_t>(bytes, 1));
    if (bytes == 0)
      out += "\xEF\xBF\xBD"; // the replacement character
    else if (character == "\n")
      out += "\\n";
    else if (character == "\\" || character == "\"")
      out.append("\\").append(character);
    else
      out += character;
    value.remove_prefix(character.size());
  }
  return out;
}

// -- the registry

metrics_registry::job_state& metrics_registry::speaks(const std::string& job) {
  auto& found = jobs_[job];
  found.spoke = ++words_;
  if (jobs_.size() > most_jobs)
    jobs_.erase(std::ranges::min_element(jobs_, {}, [](const auto& each) { return each.second.spoke; }));
  return found;
}

void metrics_registry::on_progress(const std::string& job, const progress& p) {
  const std::lock_guard lock(mutex_);
  speaks(job).now = p;
}

void metrics_registry::on_evaluation(const std::string& job, const evaluation_point& e) {
  const std::lock_guard lock(mutex_);
  speaks(job).evaluated = e;
}

void metrics_registry::on_lane(const std::string& peer, std::uint64_t sent, std::uint64_t received, std::int64_t queued) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[fmt::format("{{peer=\"{}\"}}", label_text(peer))];
  lane.sent += sent;
  lane.received += received;
  lane.queued += queued;
}

std::string metrics_registry::text(const caf::telemetry::metric_registry& of_caf) const {
  std::string out;
  write(out, process_families, std::map<std::string, std::monostate>{{{}, {}}});
  {
    const std::lock_guard lock(mutex_);
    write(out, job_families, jobs_);
    write(out, lane_families, lanes_);
  }
  write(out, of_caf);
  return out;
}

// -- its writers

job_metrics::job_metrics(std::shared_ptr<metrics_registry> registry, std::uint64_t number, std::string_view name)
    : registry_(std::move(registry)), labels_(fmt::format("{{number=\"{}\",name=\"{}\"}}", number, label_text(name))) {}

void job_metrics::on_progress(const progress& p) const {
  if (registry_)
    registry_->on_progress(labels_, p);
}

void job_metrics::on_evaluation(const evaluation_point& e) const {
  if (registry_)
    registry_->on_evaluation(labels_, e);
}

void lane_metrics::on_lanes(std::map<std::string, net::lane_stats> now) {
  for (const auto& [peer, before] : seen_)
    now.try_emplace(peer); // the lane is gone: nothing is queued
  for (const auto& [peer, stats] : now) {
    auto& before = seen_[peer];
    if (stats.bytes_sent < before.bytes_sent || stats.bytes_received < before.bytes_received)
      before = {.peer = stats.peer, .queued_bytes = before.queued_bytes};
    registry_->on_lane(peer, stats.bytes_sent - before.bytes_sent, stats.bytes_received - before.bytes_received,
                       static_cast<std::int64_t>(stats.queued_bytes) - static_cast<std::int64_t>(before.queued_bytes));
  }
  seen_ = std::move(now);
}

} // namespace troupe::actors
