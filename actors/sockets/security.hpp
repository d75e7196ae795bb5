// SPDX-License-Identifier: BSD-3-Clause
// How nodes authenticate each other: certificates, or the user of a process. Free of CAF, Asio and OpenSSL, because both planes
// include it.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors::net {

/// PEM files, all three or none. With them both planes speak TLS and accept peers with a certificate of the same authority. The
/// files are read again when they change (tls_source). A node joins under the name in its certificate, and a lane is opened to
/// the node named there.
struct security {
  std::string ca;          ///< certificates of one authority or of several, each as good as the others
  std::string certificate; ///< this node's, signed by it
  std::string key;         ///< of that certificate
  /// Without certificates: whether listeners take connections of this process's user and of root alone. For loopback.
  bool own_user = false;
  std::string crl{}; ///< certificates that are revoked, as lists of their authorities; may be empty: none are
  bool enabled() const { return !ca.empty(); }
};

/// What a certificate lets its owner be; the organizational unit of its subject says it.
enum class certified_role : std::uint8_t {
  node,   ///< "node", or no such word: joins a cluster, carries lanes, and all that a console may
  console ///< "console": looks and gives orders
};

/// Whom a certificate was issued to.
struct certified_peer {
  std::string name; ///< the common name of its subject
  certified_role role = certified_role::node;
};

/// Why the owner of a certificate may not be this node; empty: it may. An empty `node` stands for any. As words that follow
/// "connection from HOST: ".
std::string why_not_node(const certified_peer& owner, const std::string& node);

} // namespace troupe::actors::net
