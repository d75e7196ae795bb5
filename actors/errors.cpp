// SPDX-License-Identifier: BSD-3-Clause
// Reasons in words.
#include "actors/errors.hpp"

#include <algorithm>

#include <caf/exit_reason.hpp>
#include <caf/message.hpp>

#include "actors/messages/dialect.hpp"

namespace troupe::actors {

namespace {

/// The name of a reason without a text of ours: "some name" for caf::sec::some_name(...).
std::string name_of(const caf::error& reason) {
  auto name = caf::to_string(reason);
  if (const auto end = name.find('('); end != std::string::npos)
    name.resize(end);
  if (const auto scope = name.rfind(':'); scope != std::string::npos)
    name.erase(0, scope + 1);
  std::ranges::replace(name, '_', ' ');
  return name;
}

} // namespace

std::string explain(const caf::error& reason) {
  using caf::exit_reason, caf::sec;
  if (!reason) // it has no context either, not even an empty one
    return "it has ended";
  if (auto text = reason.context(); text.match_elements<std::string>())
    return text.get_as<std::string>(0);
  const auto is_one_of = [&reason](auto... codes) { return ((reason == codes) || ...); };
  if (reason == sec::request_timeout)
    return "no answer in time";
  if (is_one_of(exit_reason::remote_link_unreachable, sec::connection_closed, sec::connection_timeout))
    return "connection lost";
  if (reason == sec::cannot_connect_to_node)
    return "no connection: nobody listens there (`troupe node` starts it), no such host, or one end does not take the other's "
           "certificate";
  if (reason == sec::incompatible_application_ids)
    return fmt::format("refused while connecting: another cluster, or another build of Troupe than {} here", message_dialect());
  if (reason == sec::disconnect_during_handshake)
    return "refused while connecting: it has just ended, it takes its own user's connections only (on loopback, without "
           "certificates), or one end does not take the other's certificate";
  if (is_one_of(sec::malformed_basp_message, sec::unexpected_actor_messaging_interface))
    return "what answers there is no Troupe cluster; is it another program's port, or a lane's?";
  if (reason == sec::cannot_open_port)
    return "the port cannot be opened; is the address one of this machine's, and does no other program listen there?";
  if (is_one_of(exit_reason::normal, exit_reason::user_shutdown, exit_reason::unknown, sec::request_receiver_down))
    return "it has ended";
  if (is_one_of(exit_reason::kill, exit_reason::out_of_workers))
    return "it was ended at once";
  if (reason == sec::broken_promise)
    return "it gave no answer";
  return name_of(reason);
}

} // namespace troupe::actors
