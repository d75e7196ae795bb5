// SPDX-License-Identifier: BSD-3-Clause
// Progress of a running job: a live block on a terminal, plain lines elsewhere, objects in a log file.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/job.hpp"
#include "actors/run_observer.hpp"
#include "apps/curve.hpp"
#include "apps/signals.hpp"
#include "apps/terminal_echo.hpp"

namespace troupe::apps {

/// Everything goes to stderr. Called on the coordinator's thread; the main thread waits on `signals` and then takes the result.
class run_display final : public actors::run_observer {
public:
  /// `log` is a JSONL file or empty; throws std::runtime_error when it cannot be written. `lines` is given the same.
  run_display(const actors::job& job, bool quiet, const std::string& log, signal_waiter& signals,
              std::function<void(const std::string&)> lines = {});
  ~run_display() override;

  void on_started(std::int64_t data_size) override;
  void on_progress(const actors::progress& p) override;
  void on_evaluation(const actors::evaluation_point& e) override;
  void on_event(const std::string& text) override;
  void on_finished(actors::job_result result) override;

  /// Whether the job has begun and has not ended.
  bool job_runs();
  /// The result, once there is one.
  std::optional<actors::job_result> take_result();
  /// Every evaluation so far.
  curve evaluations();
  /// Drops keys typed before a Ctrl-C, so that the shell does not get them.
  void drop_typed();
  /// Restores the terminal, for a process that ends without destructors. Call it on the main thread.
  void leave_terminal();

private:
  using clock = std::chrono::steady_clock;

  void draw();
  void erase();
  void write_log(const std::string& line);
  double fraction_done() const;
  std::string bar_line(std::size_t columns) const;
  std::string time_left() const;

  actors::job job_;
  std::int64_t data_size_ = 1;
  bool quiet_, terminal_;
  signal_waiter& signals_;
  std::FILE* log_ = nullptr;
  std::function<void(const std::string&)> lines_;
  std::mutex mutex_;
  bool runs_ = false;
  std::optional<actors::job_result> result_;
  std::optional<actors::progress> progress_;
  std::optional<actors::evaluation_point> evaluation_;
  curve evaluations_;
  clock::time_point drawn_{};
  std::size_t lines_drawn_ = 0;
  std::optional<echo_off> unechoed_; ///< while it draws in place
};

} // namespace troupe::apps
