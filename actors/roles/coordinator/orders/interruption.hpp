// SPDX-License-Identifier: BSD-3-Clause
// How a job is cut short.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/job_record.hpp"

namespace troupe::actors {

/// A job that is cut short ends with its newest parameters, if they come in time. They are asked for as for an evaluation, but at
/// once: a job whose round waits for somebody would not be held soon.
///
/// Part of the coordinator, and used on its thread alone.
class interruption {
public:
  /// The coordinator.
  class owner {
  public:
    virtual ~owner() = default;
    /// Neither held, nor about to end.
    virtual bool trains() const = 0;
    virtual bool is_ending() const = 0;
    virtual bool is_decentralized() const = 0;
    /// The newest parameters are for a checkpoint.
    virtual void save_newest() = 0;
    /// They are to be evaluated, and training time stands still.
    virtual void fetch_newest() = 0;
    /// Of training.
    virtual double seconds() const = 0;
    /// Steps in these replicas of which the lead has not heard.
    virtual protocols::step_count unheard_in(const collected& msg) const = 0;
    /// The job ends now.
    virtual void fail(const std::string& reason) = 0;
  };

  interruption(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_record& record, owner& by)
      : self_(self), setup_(setup), record_(record), by_(by) {}

  bool begun() const { return reason_.has_value(); }
  std::string reason_or(const std::string& otherwise) const { return reason_.value_or(otherwise); }
  void begin(const std::string& reason);
  void on(const collected& msg);
  /// What the lead has decided since it began.
  void on(const protocols::report& msg);

private:
  void overdue();

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_record& record_;
  owner& by_;
  std::optional<std::string> reason_;
  std::optional<collected> collected_;  ///< the newest parameters that have come
  std::vector<protocols::report> late_; ///< of what was decided since it began
};

} // namespace troupe::actors
