// SPDX-License-Identifier: BSD-3-Clause
// A connection to a cluster, and whoever asks through it.
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

/// What the console's commands are given. Of one thread; whoever asks waits for the answer.
class session {
public:
  /// `person`: somebody at a terminal, who is asked before something ends and sees live views redrawn.
  session(cluster_connection& connection, bool person) : connection_(connection), asker_(connection.system()), person_(person) {}

  /// Sends the cluster a message and waits for what it says: an error when that takes longer than `patience`. A coordinator that
  /// was gone and is back is found again.
  template <class Result, class Message>
  caf::expected<Result> ask(Message msg, std::chrono::seconds patience = std::chrono::seconds{10}) {
    caf::expected<Result> out{caf::error{caf::sec::runtime_error}};
    if (!connection_.lives())
      return unreachable();
    auto failed = [&](caf::error& why) { out = std::move(why); };
    auto request = asker_->request(connection_.cluster(), patience, std::move(msg));
    if constexpr (std::is_void_v<Result>)
      request.receive([&] { out = caf::unit; }, failed);
    else
      request.receive([&](Result& said) { out = std::move(said); }, failed);
    return out;
  }
  /// Does not wait.
  template <class Message>
  void tell(Message msg) {
    if (connection_.lives())
      asker_->send(connection_.cluster(), std::move(msg));
  }

  /// The cluster as it is now.
  caf::expected<snapshot> look();
  /// The cluster as it was about a second before, and as it is now. Waits that long, but where the last look does.
  caf::expected<std::pair<snapshot, snapshot>> look_twice();
  /// The look before the last one, for what may change from one to the next. Null: there is none, or it is long ago.
  const snapshot* before() const;

  bool person() const { return person_; }
  /// Whether a person says yes; without one, yes.
  bool agreed(const std::string& question) const;
  const screen& shows_on() const { return screen_; }
  /// Of a terminal that may have another size than a moment ago.
  void measure() { screen_ = current_screen(); }

private:
  caf::error unreachable() const { return caf::make_error(caf::sec::cannot_connect_to_node, connection_.why_not()); }

  cluster_connection& connection_;
  caf::scoped_actor asker_;
  bool person_;
  screen screen_ = current_screen();
  std::deque<snapshot> looks_; ///< the last two
};

} // namespace troupe::apps::console
