// SPDX-License-Identifier: BSD-3-Clause
// A connection to a cluster, and the user of it.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/expected.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/messages/cluster.hpp"
#include "apps/cluster_connection.hpp"
#include "apps/console/snapshot.hpp"
#include "apps/console/terminal.hpp"

namespace troupe::apps::console {

/// What the console's commands work with. Used by one thread, which waits for each answer.
class session {
public:
  /// `interactive`: a user at a terminal, who confirms before anything ends and sees live views redrawn.
  session(cluster_connection& connection, bool interactive)
      : connection_(connection), asker_(connection.system()), interactive_(interactive) {}

  /// Sends the cluster a message and waits for the answer; an error after `patience`. Reconnects to a coordinator that has come
  /// back.
  template <class Result, class Message>
  caf::expected<Result> ask(Message msg, std::chrono::seconds patience = std::chrono::seconds{10}) {
    caf::expected<Result> out{caf::error{caf::sec::runtime_error}};
    if (!connection_.alive())
      return unreachable();
    auto failed = [&](caf::error& why) { out = std::move(why); };
    auto request = asker_->request(connection_.cluster(), patience, std::move(msg));
    if constexpr (std::is_void_v<Result>)
      request.receive([&] { out = caf::unit; }, failed);
    else
      request.receive([&](Result& said) { out = std::move(said); }, failed);
    return out;
  }
  /// Sends without waiting for an answer.
  template <class Message>
  void tell(Message msg) {
    if (connection_.alive())
      asker_->send(connection_.cluster(), std::move(msg));
  }

  /// The cluster as it is now.
  caf::expected<snapshot> look();
  /// The cluster about a second ago, and now. Waits a second unless the last look is recent enough.
  caf::expected<std::pair<snapshot, snapshot>> look_twice();
  /// The look before the last one, for changes between the two. Null: there is none, or it is too old.
  const snapshot* before() const;

  bool interactive() const { return interactive_; }
  /// Whether an interactive user says yes; true without one.
  bool agreed(const std::string& question) const;
  const screen& shows_on() const { return screen_; }
  /// Reads the terminal's size again.
  void measure() { screen_ = current_screen(); }

private:
  caf::error unreachable() const { return caf::make_error(caf::sec::cannot_connect_to_node, connection_.why_not()); }

  cluster_connection& connection_;
  caf::scoped_actor asker_;
  bool interactive_;
  screen screen_ = current_screen();
  std::deque<snapshot> looks_; ///< the last two
};

} // namespace troupe::apps::console
