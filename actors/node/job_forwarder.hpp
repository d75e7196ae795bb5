// SPDX-License-Identifier: BSD-3-Clause
// Forwards the reports of a job's coordinator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/cluster.hpp"
#include "actors/monitoring/metrics.hpp"
#include "actors/run_observer.hpp"

namespace troupe::actors {

/// A job's progress; written by its coordinator's thread.
struct job_meter {
  std::atomic<std::uint64_t> steps{0}, samples{0};
  std::atomic<std::int64_t> data_size{1};
};

/// Forwards a coordinator's reports to the client that submitted the job, to the cluster `owner`, and to the metrics.
class job_forwarder final : public run_observer {
public:
  job_forwarder(std::uint64_t number, client_actor client, std::vector<std::string> nodes, std::shared_ptr<job_meter> meter,
                job_metrics metrics, cluster_control owner, bool goes_on);

  void on_started(std::int64_t data_size) override;
  void on_progress(const progress& p) override;
  void on_evaluation(const evaluation_point& e) override;
  void on_event(const std::string& text) override;
  void on_finished(job_result result) override;

private:
  void tell_progress();
  bool has_many_rounds() const;

  job_metrics metrics_;
  std::uint64_t number_;
  client_actor client_;
  std::vector<std::string> nodes_;
  std::shared_ptr<job_meter> meter_;
  cluster_control owner_;
  bool goes_on_; ///< the job had begun before
  std::int64_t told_ns_ = 0;
  std::optional<progress> untold_; ///< the newest, if not yet forwarded
};

} // namespace troupe::actors
