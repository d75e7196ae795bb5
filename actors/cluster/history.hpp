// SPDX-License-Identifier: BSD-3-Clause
// What a cluster remembers of its jobs, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/run_observer.hpp"

namespace troupe::actors {

/// Something that the cluster or a job said.
struct cluster_event {
  std::uint64_t number = 0; ///< counts from 1 on, in the order in which the cluster heard
  std::int64_t at_ms = 0;   ///< since 1970, UTC
  std::uint64_t job = 0;    ///< 0: the cluster
  std::string text = {};
  friend bool operator==(const cluster_event&, const cluster_event&) = default;
};

/// A job that the cluster still knows.
struct job_title {
  std::uint64_t number = 0;
  std::string name, protocol;
  std::string state{}; ///< as in job_view, or "has ended", with the reason where there is one
  bool ended = false;
  std::optional<progress> now{};               ///< how far it is, or was
  std::optional<evaluation_point> evaluated{}; ///< the last time
};

/// To a cluster. Job 0: the events of all jobs and of the cluster, and no curves.
struct history_query {
  std::uint64_t job = 0;
};
struct history {
  std::vector<job_title> jobs = {};               ///< all that are known, in the order of their coming
  std::vector<progress> steps = {};               ///< of the job that was asked for: the first, the last, some in between
  std::vector<evaluation_point> evaluations = {}; ///< likewise
  std::vector<cluster_event> events = {};         ///< the last ones, in their order
};

/// The first, the last, and evenly many in between: no more than `Most` + 1 however many were added. `Most` is even.
template <class T, std::size_t Most>
class thinned {
  static_assert(Most >= 2 && Most % 2 == 0);

public:
  void add(const T& x) {
    if (count_++ % stride_ == 0) {
      if (kept_.size() == Most) { // every other one goes; count_ - 1 is a multiple of the new stride too
        for (std::size_t i = 0; i < Most / 2; ++i)
          kept_[i] = kept_[2 * i];
        kept_.resize(Most / 2);
        stride_ *= 2;
      }
      kept_.push_back(x);
      last_kept_ = true;
    } else {
      last_kept_ = false;
    }
    last_ = x;
  }
  std::vector<T> all() const {
    auto out = kept_;
    if (!last_kept_)
      out.push_back(last_);
    return out;
  }

private:
  std::vector<T> kept_;
  T last_{};
  bool last_kept_ = true; ///< or there is none
  std::uint64_t count_ = 0, stride_ = 1;
};

/// The curves and the last events of every job that goes on and of the last few that ended. An answer fits a message of the
/// control plane (system.cpp).
class history_book {
public:
  static constexpr std::size_t most_ended = 8, most_events = 300, most_text = 500;

  void open(std::uint64_t job, const std::string& name, const std::string& protocol);
  /// `job` may be 0, the cluster; of one that is not known it is said by the cluster. A longer text is cut.
  void say(std::uint64_t job, std::string text, std::int64_t at_ms);
  void add(std::uint64_t job, const progress& p);
  void add(std::uint64_t job, const evaluation_point& e);
  /// `how`: "has ended".
  void close(std::uint64_t job, const std::string& how);

  bool knows(std::uint64_t job) const { return job == 0 || jobs_.contains(job); }
  /// Of a job that is known. A job that goes on has no state here.
  history of(std::uint64_t job) const;

private:
  using events = std::deque<cluster_event>;
  struct record {
    job_title title{};
    thinned<progress, 1024> steps{};
    thinned<evaluation_point, 512> evaluations{};
    events said{};
  };

  std::uint64_t last_event_ = 0;
  events said_; ///< by the cluster
  std::map<std::uint64_t, record> jobs_;
  std::deque<std::uint64_t> ended_; ///< of jobs_, in the order of their ends
};

} // namespace troupe::actors
