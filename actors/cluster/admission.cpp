// SPDX-License-Identifier: BSD-3-Clause
// Versions, extensions and certificates of nodes that want to join.
#include "actors/cluster/admission.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/messages/dialect.hpp"

namespace troupe::actors {

std::optional<std::string> admission::objection(const node_hello& hello, const caf::strong_actor_ptr& sender,
                                                const caf::node_id& joins) {
  if (hello.version != message_dialect())
    return fmt::format("this cluster runs Troupe {}, node \"{}\" runs {}", message_dialect(), hello.name, hello.version);
  for (const auto& name : added_)
    if (std::ranges::find(hello.added, name) == hello.added.end())
      return fmt::format("this cluster's program has a {}, which that of node \"{}\" lacks; start all nodes from one program",
                         name, hello.name);
  if (!peers_)
    return "";
  if (!sender || sender->node() != joins)
    return fmt::format("another process asks for node \"{}\" than wants to be it", hello.name);
  const auto known = noted_.extract(joins);
  if (known.empty())
    return {};
  if (!known.mapped())
    return fmt::format("there is no connection to the process of node \"{}\" that shows its certificate", hello.name);
  return net::why_not_node(*known.mapped(), hello.name);
}

void admission::note(const caf::node_id& process, const std::string& address, std::uint16_t port) {
  noted_.insert_or_assign(process, port == 0 ? std::nullopt : peers_->at(address, port));
}

} // namespace troupe::actors
