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
#include "apps/library/foreign_kind.hpp"
#include "apps/library/foreign_queue.hpp"
#include "apps/library/script_cluster.hpp"
#include "apps/run_job.hpp"

namespace troupe::apps {

/// A model that the caller computes.
struct foreign_shape {
  foreign_facts facts;
  std::vector<float> initial; ///< flat
  bool own_optimizer = false; ///< the caller takes workers' local steps
};

struct library_options {
  std::string job; ///< a file; empty: none
  std::vector<std::string> sets;
  std::optional<foreign_shape> model;
  std::vector<std::string> program; ///< of children; with a model, the caller's own
  /// Of a child: what its environment says of it; empty: this is the first process. With a cluster: this process's node.
  std::string node;
  bool loud = false;
  script_place cluster{};             ///< with a model: of which this is a process; without one, a file of where the job runs
  std::chrono::seconds patience{600}; ///< of processes that wait for each other
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
  /// This process leaves the job. `why` is in the log of the first one; where this is that, on standard error. It is over once it
  /// may go: its shards stay until the job ends.
  void leave(const std::string& why);
  /// Once it is over: why this process, which joined, had to end before its time. Empty: all is well.
  std::string cut_short();

  /// Whether another process has the job.
  bool joined() const { return !job_; }
  /// JSON; empty until it is over, and where this process joined.
  const std::string& result();
  const parameter_layout& layout() const { return layout_; }
  /// Flat; null until there are some.
  const float* parameters();
  /// Whether this is the process that made it.
  bool is_ours() const;

private:
  void prepare(const library_options& options);
  void run(const library_options& options);
  void run_here(const library_options& options);
  void run_joined(const library_options& options);
  std::string parting();
  void add_line(const std::string& line);
  void end(std::optional<job_outcome> outcome);

  pid_t process_;
  std::shared_ptr<foreign_queue> tasks_ = std::make_shared<foreign_queue>();
  signal_waiter signals_{signal_waiter::without_signals{}};
  actors::extensions added_;
  std::optional<prepared_job> job_; ///< of the first process
  std::vector<role_memory> roles_;  ///< of a job that a cluster of nodes runs
  parameter_layout layout_;
  std::optional<script_cluster> cluster_; ///< whose process this is, unless it is the first of its own
  bool is_child_ = false;                 ///< of the first process
  std::string last_words_;                ///< a file, where this process is a child
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::vector<std::string> history_; ///< evaluations, as JSON
  bool over_ = false;
  std::string parting_, cut_short_;
  std::optional<job_outcome> outcome_;
  std::string result_;
  std::thread thread_;
};

} // namespace troupe::apps
