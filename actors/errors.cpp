// SPDX-License-Identifier: BSD-3-Clause
// Reasons in words.
#include "actors/errors.hpp"

#include <caf/exit_reason.hpp>
#include <caf/message.hpp>

#include "actors/version.hpp"

namespace troupe::actors {

std::string explain(const caf::error& reason) {
  if (auto text = reason.context(); text.match_elements<std::string>())
    return text.get_as<std::string>(0);
  if (reason == caf::sec::request_timeout)
    return "no answer in time";
  if (reason == caf::exit_reason::remote_link_unreachable || reason == caf::sec::connection_closed
      || reason == caf::sec::connection_timeout)
    return "connection lost";
  if (reason == caf::sec::cannot_connect_to_node)
    return "no connection: nobody listens there, or one end does not take the other's certificate";
  if (reason == caf::sec::incompatible_application_ids)
    return fmt::format("refused while connecting: another cluster, or another version of Troupe than {} here", version);
  if (reason == caf::sec::disconnect_during_handshake)
    return "refused while connecting: it has just ended, or one end does not take the other's certificate";
  if (reason == caf::sec::cannot_open_port)
    return "the port cannot be opened; does another program listen there?";
  return caf::to_string(reason);
}

} // namespace troupe::actors
