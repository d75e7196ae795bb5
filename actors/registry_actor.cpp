// SPDX-License-Identifier: BSD-3-Clause
// The registry's handlers.
#include "actors/registry_actor.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/version.hpp"

namespace troupe::actors {

registry_state::registry_state(registry_actor::stateful_pointer<registry_state> self, std::vector<std::string> names,
                               std::shared_ptr<registry_observer> observer)
    : self_(self), names_(std::move(names)), nodes_(names_.size()), observer_(std::move(observer)) {
  self->set_down_handler([this](const caf::down_msg& msg) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i] && nodes_[i].address() == msg.source) {
        nodes_[i] = nullptr;
        observer_->on_left(i, explain(msg.reason));
      }
  });
}

registry_actor::behavior_type registry_state::make_behavior() {
  auto refuse = [](std::string why) { return caf::make_error(caf::sec::runtime_error, std::move(why)); };
  return {
    [this, refuse](const node_hello& hello, const node_actor& node) -> caf::result<std::uint32_t> {
      if (hello.version != version)
        return refuse(fmt::format("this cluster runs Troupe {}, node \"{}\" runs {}", version, hello.name, hello.version));
      auto found = std::find(names_.begin() + 1, names_.end(), hello.name);
      if (found == names_.end())
        return refuse(fmt::format("no node \"{}\" in this cluster; its file names {}", hello.name, fmt::join(names_, ", ")));
      auto number = static_cast<std::uint32_t>(found - names_.begin());
      if (nodes_[number])
        return refuse(fmt::format("a node \"{}\" has joined already", hello.name));
      nodes_[number] = node;
      self_->monitor(node);
      observer_->on_joined(number, hello, node);
      return number;
    },
  };
}

} // namespace troupe::actors
