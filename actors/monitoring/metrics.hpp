// SPDX-License-Identifier: BSD-3-Clause
// What the jobs, the lanes and the process of a node tell Prometheus.
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

/// The numbers of one node, which actors write and whoever serves them reads. config/README.md has a table of them. Thread-safe.
///
/// Of jobs the `most_jobs` that spoke last are kept, so that a node that lives for years does not tell of each that it has seen.
class metrics_board {
public:
  static constexpr std::size_t most_jobs = 32;

  /// `job`: its labels, as job_metrics writes them.
  void on_progress(const std::string& job, const progress& p);
  void on_evaluation(const std::string& job, const evaluation_point& e);
  /// What has gone over the lane to a peer, and waits for it, since the last call.
  void on_lane(const std::string& peer, std::uint64_t sent, std::uint64_t received, std::int64_t queued);

  /// Everything, with what CAF counts, in Prometheus' text format. No value carries a time, so a series that is served no more
  /// ends at once; with one it would be shown for minutes.
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

/// What one job has come to, for a board that may be null.
class job_metrics {
public:
  job_metrics(std::shared_ptr<metrics_board> board, std::uint64_t number, std::string_view name);
  void on_progress(const progress& p) const;
  void on_evaluation(const evaluation_point& e) const;

private:
  std::shared_ptr<metrics_board> board_;
  std::string labels_;
};

/// The lanes of one hub, by name of the peer: several jobs of a node have hubs of their own, and the board has their sum.
class lane_metrics {
public:
  explicit lane_metrics(std::shared_ptr<metrics_board> board) : board_(std::move(board)) {}
  lane_metrics(const lane_metrics&) = delete;
  lane_metrics& operator=(const lane_metrics&) = delete;
  /// Nothing waits any more.
  ~lane_metrics() { on_lanes({}); }
  /// All of them, as they are now. One that counts less than before has begun anew.
  void on_lanes(std::map<std::string, net::lane_stats> now);

private:
  std::shared_ptr<metrics_board> board_;
  std::map<std::string, net::lane_stats> seen_;
};

/// `value` as it may stand between the quotes of a label: escaped, in UTF-8 whatever it was, and cut where it is long.
std::string label_text(std::string_view value);

} // namespace troupe::actors
