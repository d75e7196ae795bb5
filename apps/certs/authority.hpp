// SPDX-License-Identifier: BSD-3-Clause
// A private authority in a folder, and the certificates that it signs for nodes.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "apps/certs/certificate.hpp"

namespace troupe::apps {

/// Files that were written, and what they hold.
struct issued {
  std::string name;        ///< the authority's or the node's
  std::string ca;          ///< the authority's certificate
  std::string certificate; ///< what was made; the authority's own is `ca`
  std::string key;         ///< mode 0600
  std::time_t until = 0;
  std::vector<std::string> warnings;
};

struct authority_options {
  std::string folder; ///< made if it is not there
  std::string name;
  int days = 3650;
};

struct node_certificate_options {
  std::string folder;             ///< the authority's
  std::string node;               ///< letters, digits, '.', '-' and '_'
  std::vector<std::string> hosts; ///< names and addresses by which others reach it
  std::string out;                ///< where the files go; empty: the authority's folder
  int days = 365;                 ///< cut at the authority's own end
};

/// Makes ca.pem and ca.key. Never writes over an authority that is there: every certificate it signed would be void.
certified<issued> make_authority(const authority_options& options, std::time_t now);

/// Makes NODE.pem and NODE.key, good for a server and for a client: a node is both. `out` then has a copy of ca.pem, too: all
/// that the node needs. Keys are ECDSA over P-256: OpenSSL under CAF and under the lanes takes Ed25519 as well, but browsers
/// take no such certificates, and these are for the web page and the metrics, too.
certified<issued> issue_certificate(const node_certificate_options& options, std::time_t now);

} // namespace troupe::apps
