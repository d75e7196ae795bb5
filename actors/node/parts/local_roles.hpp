// SPDX-License-Identifier: BSD-3-Clause
// The roles of a job that live in one process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "actors/messages/node.hpp"

namespace troupe::actors {

/// By their numbers in the job. Used on their node's thread only.
struct local_roles {
  std::map<std::uint32_t, worker_actor> workers{};
  std::map<std::uint32_t, std::uint32_t> incarnations{}; ///< of the workers
  std::map<std::uint32_t, holder_control> holders{};
  std::map<std::uint32_t, parameters_actor> shards{}; ///< of the holders
  evaluator_actor evaluator{};                        ///< null: elsewhere

  /// The role of this name, as in role_order; null: elsewhere.
  caf::actor find(const std::string& role, std::uint32_t index) const {
    const auto in = [index](const auto& all) {
      const auto found = all.find(index);
      return found == all.end() ? caf::actor{} : caf::actor_cast<caf::actor>(found->second);
    };
    if (role == "worker")
      return in(workers);
    return role == "evaluator" ? caf::actor_cast<caf::actor>(evaluator) : in(holders);
  }
  /// Which of them this actor is; none: another.
  std::optional<std::pair<role_lost::kind, std::uint32_t>> which(const caf::actor_addr& who) const {
    for (const auto& [number, worker] : workers)
      if (worker.address() == who)
        return std::pair{role_lost::kind::worker, number};
    for (const auto& [number, holder] : holders)
      if (holder.address() == who)
        return std::pair{role_lost::kind::holder, number};
    if (evaluator && evaluator.address() == who)
      return std::pair{role_lost::kind::evaluator, std::uint32_t{0}};
    return {};
  }
  /// Those that a node names to whoever leads next.
  void describe(job_standing& to) const {
    for (const auto& [number, worker] : workers)
      to.workers.push_back({{number}, {incarnations.at(number)}});
    for (const auto& [number, holder] : holders)
      to.holders.push_back(number);
    to.evaluates = static_cast<bool>(evaluator);
  }
  /// With `end(actor)` for each.
  template <class End>
  void for_each(End end) const {
    for (const auto& [number, worker] : workers)
      end(worker);
    for (const auto& [number, holder] : holders)
      end(holder);
    if (evaluator)
      end(evaluator);
  }

  /// A backup that is out may live: nobody sends it anything any more.
  void end_holder(std::uint32_t number) {
    if (const auto role = holders.extract(number))
      caf::anon_send_exit(role.mapped(), caf::exit_reason::user_shutdown);
  }

  /// The first shard; null: elsewhere.
  holder_control lead() const {
    const auto lead = holders.find(0);
    return lead == holders.end() ? holder_control{} : lead->second;
  }

  template <class Message>
  void tell_holders(const Message& msg) const {
    for (const auto& [number, holder] : holders)
      caf::anon_send(holder, msg);
  }
  template <class Message>
  void tell_workers(const Message& msg) const {
    for (const auto& [number, worker] : workers)
      caf::anon_send(worker, msg);
  }
  template <class Message>
  void tell_evaluator(const Message& msg) const {
    if (evaluator)
      caf::anon_send(evaluator, msg);
  }
  /// To those that take it.
  template <class Message>
  void tell(const Message& msg) const {
    static_assert(takes<holder_control, Message> || takes<worker_actor, Message> || takes<evaluator_actor, Message>);
    if constexpr (takes<holder_control, Message>)
      tell_holders(msg);
    if constexpr (takes<worker_actor, Message>)
      tell_workers(msg);
    if constexpr (takes<evaluator_actor, Message>)
      tell_evaluator(msg);
  }
};

} // namespace troupe::actors
