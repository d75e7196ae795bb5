// SPDX-License-Identifier: BSD-3-Clause
// How nodes authenticate each other: certificates, or the user of a process. Free of CAF, Asio and OpenSSL, because both planes
// include it.
#pragma once

#include <string>

namespace troupe::actors::net {

/// PEM files, all three or none. With them both planes speak TLS and accept peers with a certificate of the same authority. A
/// lane, which carries all tensors, is opened only to the node named in its certificate. On the control plane a node's name is
/// not verified: CAF's TLS does not expose the peer's certificate.
struct security {
  std::string ca;          ///< the authority's certificate
  std::string certificate; ///< this node's, signed by it
  std::string key;         ///< of that certificate
  /// Without certificates: whether listeners take connections of this process's user and of root alone. For loopback.
  bool own_user = false;
  bool enabled() const { return !ca.empty(); }
};

} // namespace troupe::actors::net
