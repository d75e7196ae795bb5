// SPDX-License-Identifier: BSD-3-Clause
// What the operator may ask of a running job: pauses, deaths and new lives of its roles, other settings, a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include <caf/error.hpp>
#include <caf/result.hpp>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/nodes/worker_incarnations.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// Each order is answered with a sentence about its outcome. Part of the coordinator, and used on its thread alone.
class operator_orders {
public:
  /// The coordinator.
  class owner {
  public:
    virtual ~owner() = default;
    /// The job runs, and is not about to end.
    virtual bool takes_orders() const = 0;
    virtual bool is_lost(const std::string& role, std::uint32_t index) const = 0;
    /// Nodes that are gone.
    virtual const std::set<std::uint32_t>& lost_nodes() const = 0;
    virtual const protocols::plan& plan() const = 0;
    virtual void decide(const protocols::decision& change) = 0;
    /// Calls `then` once no other one can have this incarnation.
    virtual void decide_incarnation(std::uint32_t worker, std::uint32_t incarnation, std::function<void()> then) = 0;
    virtual void restarted(std::uint32_t worker, std::uint32_t incarnation) = 0;
    virtual void could_not_restart(std::uint32_t worker, const std::string& reason) = 0;
    virtual void record_everywhere(const record_order& msg) = 0;
  };

  operator_orders(measured_pointer<coordinator_control> self, const coordinator_setup& setup, const job_places& places,
                  worker_incarnations& incarnations, const tracer_ptr& trace, owner& by)
      : self_(self), setup_(setup), places_(places), incarnations_(incarnations), trace_(trace), by_(by) {}

  caf::result<std::string> carry_out(const actor_order& msg);
  caf::result<std::string> change(const change_order& msg);
  caf::result<traces_ptr> record(const record_order& msg);
  /// As the operator's `restart` of a worker that was lost, for it did not progress.
  void restart_as_it_moves(std::uint32_t worker);
  /// log.level
  bool says_all() const { return says_all_; }

private:
  /// Why a worker is not restarted; default-constructed: it is.
  using outcome = std::function<void(const caf::error&)>;
  caf::result<std::string> restart(std::uint32_t worker);
  void restart(std::uint32_t worker, const std::string& why, outcome tell);
  void begin_life(std::uint32_t worker, std::uint32_t life, const std::string& why, outcome tell);

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  const job_places& places_;
  worker_incarnations& incarnations_;
  const tracer_ptr& trace_;
  owner& by_;
  bool says_all_ = false;
};

} // namespace troupe::actors
