// SPDX-License-Identifier: BSD-3-Clause
// What a node shows to others and by what it knows them. No CAF, Asio or OpenSSL in it: both planes include it.
#pragma once

#include <string>

namespace troupe::actors::net {

/// PEM files, all three or none: with them both planes speak TLS and let in whoever shows a certificate of the same authority. A
/// lane, over which all data and parameters go, is opened only to the node whose name stands in its certificate. On the control
/// plane a node is who it says it is: CAF's TLS keeps the peer's certificate to itself.
struct security {
  std::string ca;          ///< the authority's certificate
  std::string certificate; ///< this node's, signed by it
  std::string key;         ///< of that certificate
  bool enabled() const { return !ca.empty(); }
};

} // namespace troupe::actors::net
