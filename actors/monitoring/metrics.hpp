// SPDX-License-Identifier: BSD-3-Clause
// A node's metrics for Prometheus: its jobs, lanes and process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <caf/fwd.hpp>

#include "actors/net/lane.hpp"
#include "actors/run_observer.hpp"

namespace troupe::actors {

/// The metrics of one node: actors write them, a server reads them. config/README.md has a table of them. Thread-safe.
///
/// Only the `most_jobs` most recently active jobs are kept, so that a long-lived node does not accumulate series.
class metrics_registry {
public:
  static constexpr std::size_t most_jobs = 32;

  /// `job`: its labels, as job_metrics writes them.
  void on_progress(const std::string& job, const progress& p);
  void on_evaluation(const std::string& job, const evaluation_point& e);
  /// Changes since the last call in what the lane to a peer sent, received and queued.
  void on_lane(const std::string& peer, std::uint64_t sent, std::uint64_t received, std::int64_t queued);

  /// All metrics, including CAF's, in Prometheus' text format. Values carry no time, so a series that is no longer served ends at
  /// once instead of minutes later.
  std::string text(const caf::telemetry::metric_registry& of_caf) const;

  struct job_state {
    std::optional<progress> now;
    std::optional<evaluation_point> evaluated;
    std::uint64_t spoke = 0;
  };
  struct lane_state {
    std::uint64_t sent = 0, received = 0;
    std::int64_t queued = 0;
  };

private:
  job_state& speaks(const std::string& job);

  mutable std::mutex mutex_;
  std::uint64_t words_ = 0;
  std::map<std::string, job_state> jobs_;
  std::map<std::string, lane_state> lanes_;
};

/// The metrics of one job; the registry may be null.
class job_metrics {
public:
  job_metrics(std::shared_ptr<metrics_registry> registry, std::uint64_t number, std::string_view name);
  void on_progress(const progress& p) const;
  void on_evaluation(const evaluation_point& e) const;

private:
  std::shared_ptr<metrics_registry> registry_;
  std::string labels_;
};

/// The lanes of one hub, by name of the peer. Each job of a node has its own hub; the registry has their sum.
class lane_metrics {
public:
  explicit lane_metrics(std::shared_ptr<metrics_registry> registry) : registry_(std::move(registry)) {}
  lane_metrics(const lane_metrics&) = delete;
  lane_metrics& operator=(const lane_metrics&) = delete;
  /// Subtracts what was queued.
  ~lane_metrics() { on_lanes({}); }
  /// The present state of all lanes. Smaller counts than before mean that a lane was reopened.
  void on_lanes(std::map<std::string, net::lane_stats> now);

private:
  std::shared_ptr<metrics_registry> registry_;
  std::map<std::string, net::lane_stats> seen_;
};

/// `value` for use between the quotes of a label: escaped, made valid UTF-8, and cut if long.
std::string label_text(std::string_view value);

} // namespace troupe::actors
