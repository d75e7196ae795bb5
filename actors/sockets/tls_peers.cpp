// SPDX-License-Identifier: BSD-3-Clause
// The table of the control plane's TLS connections.
#include "actors/sockets/tls_peers.hpp"

#include <array>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "actors/sockets/certified.hpp"
#include "actors/sockets/tls.hpp"

namespace troupe::actors::net {
namespace {

/// As CAF writes it, who is asked for a node's address.
std::optional<std::pair<std::string, std::uint16_t>> remote_end(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
    return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = &reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
  in_port_t port = reinterpret_cast<const sockaddr_in&>(peer).sin_port;
  if (peer.ss_family == AF_INET6) {
    address = &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    port = reinterpret_cast<const sockaddr_in6&>(peer).sin6_port;
  }
  if (::inet_ntop(peer.ss_family, address, text.data(), text.size()) == nullptr)
    return {};
  return std::pair{std::string{text.data()}, ntohs(port)};
}

} // namespace

void tls_peers::met(ssl_st* connection) {
  const int descriptor = SSL_get_fd(connection);
  const std::shared_ptr<X509> certificate(SSL_get1_peer_certificate(connection), &X509_free);
  const auto end = remote_end(descriptor);
  if (!certificate || !end)
    return;
  const std::lock_guard lock(mutex_);
  peers_.insert_or_assign(descriptor, peer{end->first, end->second, certified(certificate.get()), certificate});
}

void tls_peers::parted(ssl_st* connection) {
  const std::lock_guard lock(mutex_);
  peers_.erase(SSL_get_fd(connection));
}

std::optional<certified_peer> tls_peers::at(const std::string& address, std::uint16_t port) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [descriptor, each] : peers_)
    if (each.port == port && each.address == address)
      return each.who;
  return {};
}

std::vector<std::string> tls_peers::end_revoked(const tls_context& by) {
  std::vector<std::string> ended;
  const std::lock_guard lock(mutex_);
  for (const auto& [descriptor, each] : peers_)
    if (by.revokes(each.certificate.get())) {
      ::shutdown(descriptor, SHUT_RDWR); // whose it is still: `parted` comes before it is closed
      ended.push_back(each.who.name);
    }
  return ended;
}

std::string why_not_node(const certified_peer& owner, const std::string& node) {
  const std::string named = node.empty() ? "NAME" : node;
  if (owner.role == certified_role::console)
    return fmt::format("its certificate, \"{}\", is a console's: it may look and give orders, and be no node{}; "
                       "`troupe certs issue FOLDER --node {}` makes a node's",
                       owner.name, node.empty() ? "" : fmt::format(" (it says that it is \"{}\")", node), named);
  if (!node.empty() && owner.name != node)
    return fmt::format(
        "its certificate was issued to \"{}\", and it says that it is node \"{}\"; start it under its own name, or "
        "make a certificate by `troupe certs issue FOLDER --node {}`",
        owner.name, node, named);
  return {};
}

} // namespace troupe::actors::net
