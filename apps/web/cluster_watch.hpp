// SPDX-License-Identifier: BSD-3-Clause
// Asks a cluster once a second what it does.
#pragma once

#include <memory>

#include <caf/actor_system.hpp>

#include "actors/messages/cluster.hpp"
#include "apps/web/feed.hpp"

namespace troupe::apps::web {

/// An actor that informs the feed until this object is destroyed. An unanswered request is not repeated before its deadline.
class cluster_watch {
public:
  cluster_watch(caf::actor_system& system, actors::cluster_actor cluster, std::shared_ptr<feed> to);
  cluster_watch(const cluster_watch&) = delete;
  cluster_watch& operator=(const cluster_watch&) = delete;
  ~cluster_watch();

private:
  caf::actor asker_;
};

} // namespace troupe::apps::web
