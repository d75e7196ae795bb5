// SPDX-License-Identifier: BSD-3-Clause
// A run of the C library: a job on a thread of its own, followed and computed by the caller's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "apps/job_setup.hpp"
#include "apps/library/foreign_queue.hpp"
#include "apps/run_job.hpp"

namespace troupe::apps {

/// A model that the caller computes.
struct foreign_shape {
  parameter_layout layout;
  std::vector<float> initial; ///< flat
  std::int64_t samples = 1, tests = 1;
};

struct library_options {
  std::string job; ///< a file; empty: none
  std::vector<std::string> sets;
  std::optional<foreign_shape> model;
  std::vector<std::string> program; ///< of children; with a model, the caller's own
  std::string node;                 ///< of a child: what its environment says of it; empty: this is the first process
  bool loud = false;
};

/// Thread-safe but for its beginning and end. Its thread blocks every signal. A fork of the process has none of its threads, and
/// may only ask `is_ours`.
class library_run {
public:
  /// Checks the job, and starts it. Throws std::runtime_error with all that is wrong.
  explicit library_run(library_options options);
  ~library_run();
  library_run(const library_run&) = delete;
  library_run& operator=(const library_run&) = delete;

  bool over();
  /// A line of the log; none: it is over, or `patience` has passed.
  std::optional<std::string> next_line(std::chrono::milliseconds patience);
  foreign_queue& tasks() { return *tasks_; }
  void stop() { signals_.interrupt(); }
  /// This process leaves the job. `why` is in the log of the first one; where this is that, on standard error.
  void leave(const std::string& why);

  /// JSON; empty until it is over, and where this process joined.
  const std::string& result();
  const parameter_layout& layout() const { return layout_; }
  /// Flat; null until there are some.
  const float* parameters();
  /// Whether this is the process that made it.
  bool is_ours() const;

private:
  struct temporary_file {
    std::string path{};
    ~temporary_file();
  };

  void prepare(const library_options& options);
  void start_from(const foreign_shape& model, std::vector<config::setting>& sets);
  void run(const library_options& options);
  void add_line(const std::string& line);
  void end(std::optional<job_outcome> outcome);

  pid_t process_;
  std::shared_ptr<foreign_queue> tasks_ = std::make_shared<foreign_queue>();
  signal_waiter signals_{signal_waiter::without_signals{}};
  actors::extensions added_;
  std::optional<prepared_job> job_; ///< of the first process
  parameter_layout layout_;
  std::string last_words_; ///< a file, where this process joined
  temporary_file initial_; ///< has the initial parameters of a foreign model
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::vector<std::string> history_; ///< evaluations, as JSON
  bool over_ = false;
  std::optional<job_outcome> outcome_;
  std::string result_;
  std::thread thread_;
};

} // namespace troupe::apps
