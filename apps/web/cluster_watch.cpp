// SPDX-License-Identifier: BSD-3-Clause
// Asks for snapshots again and again.
#include "apps/web/cluster_watch.hpp"

#include <algorithm>
#include <chrono>

#include <caf/actor_cast.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/cluster_inspection.hpp"
#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"

namespace troupe::apps::web {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;

/// The pause between two looks. A look costs some microseconds per actor, there and here, so tens of thousands are looked at more
/// rarely. A look that took long is not a reason: then a node does not answer.
std::chrono::microseconds pause_after(const actors::cluster_report& all) {
  std::chrono::microseconds out{0};
  for (const auto& node : all.nodes)
    out += 100us * node.actors.size();
  return std::max<std::chrono::microseconds>(out, 1s);
}

using asker_actor = caf::typed_actor<caf::result<void>(caf::tick_atom)>;

class asker_state {
public:
  static inline const char* name = "troupe.web";

  asker_state(asker_actor::stateful_pointer<asker_state> self, actors::cluster_actor cluster, std::shared_ptr<feed> to)
      : self_(self), onlooker_(actors::spawn_onlooker(self->system(), std::move(cluster), patience)), feed_(std::move(to)) {}
  asker_state(const asker_state&) = delete;
  asker_state& operator=(const asker_state&) = delete;
  ~asker_state() { caf::anon_send_exit(onlooker_, caf::exit_reason::user_shutdown); }

  asker_actor::behavior_type make_behavior() {
    look();
    return {[this](caf::tick_atom) { look(); }};
  }

private:
  void look() {
    self_->request(onlooker_, caf::infinite, caf::get_atom_v)
        .then(
            [this](actors::cluster_view& view, actors::cluster_report& all) {
              const auto pause = pause_after(all);
              feed_->on_snapshot({std::move(view), std::move(all)});
              again(pause);
            },
            [this](const caf::error& e) {
              feed_->on_silence("the cluster does not answer: " + actors::explain(e));
              again(1s);
            });
  }

  void again(std::chrono::microseconds pause) { self_->delayed_send(self_, pause, caf::tick_atom_v); }

  asker_actor::stateful_pointer<asker_state> self_;
  actors::onlooker_actor onlooker_;
  std::shared_ptr<feed> feed_;
};

} // namespace

cluster_watch::cluster_watch(caf::actor_system& system, actors::cluster_actor cluster, std::shared_ptr<feed> to)
    : asker_(
        caf::actor_cast<caf::actor>(system.spawn<asker_actor::stateful_impl<asker_state>>(std::move(cluster), std::move(to)))) {}

cluster_watch::~cluster_watch() {
  caf::anon_send_exit(asker_, caf::exit_reason::user_shutdown);
}

} // namespace troupe::apps::web
