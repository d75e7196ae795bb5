// SPDX-License-Identifier: BSD-3-Clause
// The data of a run for the web page.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "actors/http/web_server.hpp"
#include "actors/run_observer.hpp"
#include "apps/config/job_file.hpp"
#include "apps/console/snapshot.hpp"
#include "apps/web/activity.hpp"
#include "apps/web/thinned_curve.hpp"

namespace troupe::apps::web {

/// Observes a run, forwarding to another observer, gets a snapshot of the cluster every second, and publishes everything as one
/// object, so that a page that is opened late misses nothing. Its memory is bounded. Thread-safe.
class feed final : public actors::run_observer {
public:
  /// `publish` is given one line of JSON and must not wait. `next` may be null.
  feed(const actors::job& job, std::shared_ptr<actors::run_observer> next, std::function<void(std::string)> publish);

  void on_started(std::int64_t data_size) override;
  void on_progress(const actors::progress& p) override;
  void on_evaluation(const actors::evaluation_point& e) override;
  void on_event(const std::string& text) override;
  void on_finished(actors::job_result result) override;

  /// The job's number in a cluster that may run several; the others are not shown. 0: there is only one.
  void follow(std::uint64_t number);
  /// The cluster's report. Publishes.
  void on_snapshot(console::snapshot seen);
  /// Why the cluster does not answer. Publishes.
  void on_silence(const std::string& why);

private:
  double now_s() const;
  void publish() const;
  void bring_back_the_silent(console::snapshot& seen);
  boost::json::object progress_json() const;
  boost::json::object curves_json() const;

  actors::job job_;
  std::shared_ptr<actors::run_observer> next_;
  std::function<void(std::string)> publish_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::uint64_t number_ = 0;
  std::string state_ = "starts", reason_; ///< "starts", "waits", "runs"; "done", "failed", "interrupted"
  std::optional<actors::progress> progress_;
  thinned_curve losses_{400};
  std::vector<actors::evaluation_point> evaluations_;
  std::deque<std::pair<double, std::string>> events_;
  recent_activity activity_;
  std::map<std::string, std::vector<actors::actor_report>> seen_; ///< by node
  boost::json::object cluster_, result_;
};

/// A feed to `page`, which outlives it.
std::shared_ptr<feed> feed_for(actors::net::web_server& page, const actors::job& job, std::shared_ptr<actors::run_observer> next);

/// The page itself: HTML with its style and script inside.
extern const char* const page;

} // namespace troupe::apps::web
