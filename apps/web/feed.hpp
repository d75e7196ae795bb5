// SPDX-License-Identifier: BSD-3-Clause
// What the web page is told about a run.
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
#include "apps/web/habits.hpp"
#include "apps/web/thinned_curve.hpp"

namespace troupe::apps::web {

/// Listens to a run on its way to another observer, hears once a second from the cluster, and publishes all there is to know as
/// one object: whoever opens the page late misses nothing. What it keeps is bounded. Thread-safe.
class feed final : public actors::run_observer {
public:
  /// `publish` is given one line of JSON and must not wait. `next` may be null.
  feed(const actors::job& what, std::shared_ptr<actors::run_observer> next, std::function<void(std::string)> publish);

  void on_started(std::int64_t data_size) override;
  void on_progress(const actors::progress& p) override;
  void on_evaluation(const actors::evaluation_point& e) override;
  void on_event(const std::string& text) override;
  void on_finished(actors::job_result result) override;

  /// The job's number in a cluster that may have several; of the others nothing is shown. 0: there is but one.
  void follow(std::uint64_t number);
  /// What the cluster says of itself. Publishes.
  void on_snapshot(console::snapshot at);
  /// Why the cluster says nothing. Publishes.
  void on_silence(const std::string& why);

private:
  double now_s() const;
  void publish() const;
  void bring_back_the_silent(console::snapshot& at);
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
  habits habits_;
  std::map<std::string, std::vector<actors::actor_report>> seen_; ///< by node
  boost::json::object cluster_, result_;
};

/// A feed to `page`, which outlives it.
std::shared_ptr<feed> feed_for(actors::net::web_server& page, const actors::job& what,
                               std::shared_ptr<actors::run_observer> next);

/// The page itself: HTML with its style and script inside.
extern const char* const page;

} // namespace troupe::apps::web
