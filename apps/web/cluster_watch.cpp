// SPDX-License-Identifier: BSD-3-Clause
// Asking, and asking again.
#include "apps/web/cluster_watch.hpp"

#include <chrono>

#include <caf/actor_cast.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/errors.hpp"
#include "actors/type_ids.hpp"

namespace troupe::apps::web {

namespace {

using namespace std::chrono_literals;

constexpr auto pause = 1s;
constexpr auto patience = 5s;

using asker_actor = caf::typed_actor<caf::result<void>(caf::tick_atom)>;

class asker_state {
public:
  static inline const char* name = "troupe.web";

  asker_state(asker_actor::stateful_pointer<asker_state> self, actors::cluster_actor cluster, std::shared_ptr<feed> to)
      : self_(self), cluster_(std::move(cluster)), feed_(std::move(to)) {}

  asker_actor::behavior_type make_behavior() {
    look();
    return {[this](caf::tick_atom) { look(); }};
  }

private:
  void look() {
    self_->request(cluster_, patience, actors::cluster_query{})
      .then(
        [this](actors::cluster_view& view) {
          self_->request(cluster_, patience, actors::inspect_query{})
            .then(
              [this, view = std::move(view)](actors::cluster_report& all) mutable {
                feed_->on_snapshot({std::move(view), std::move(all)});
                again();
              },
              [this](const caf::error& e) { failed(e); });
        },
        [this](const caf::error& e) { failed(e); });
  }

  void failed(const caf::error& e) {
    feed_->on_silence("the cluster does not answer: " + actors::explain(e));
    again();
  }

  void again() { self_->delayed_send(self_, pause, caf::tick_atom_v); }

  asker_actor::stateful_pointer<asker_state> self_;
  actors::cluster_actor cluster_;
  std::shared_ptr<feed> feed_;
};

} // namespace

cluster_watch::cluster_watch(caf::actor_system& system, actors::cluster_actor cluster, std::shared_ptr<feed> to)
    : asker_(caf::actor_cast<caf::actor>(system.spawn<asker_actor::stateful_impl<asker_state>>(std::move(cluster), std::move(to)))) {}

cluster_watch::~cluster_watch() { caf::anon_send_exit(asker_, caf::exit_reason::user_shutdown); }

} // namespace troupe::apps::web
