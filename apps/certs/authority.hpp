// SPDX-License-Identifier: BSD-3-Clause
// A private authority in a folder, and the certificates that it signs for nodes.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"
#include "apps/certs/certificate.hpp"

namespace troupe::apps {

/// Files that were written.
struct issued {
  std::string name;        ///< the authority's or the node's
  std::string ca;          ///< the authority's certificate
  std::string certificate; ///< the new certificate; for an authority the same as `ca`
  std::string key;         ///< mode 0600
  std::time_t until = 0;
  std::vector<std::string> warnings;
};

struct authority_options {
  std::string folder; ///< created where it is missing
  std::string name;
  int days = 3650;
};

struct node_certificate_options {
  std::string folder;             ///< the authority's
  std::string node;               ///< letters, digits, '.', '-' and '_'
  std::vector<std::string> hosts; ///< names and addresses by which others reach it
  std::string out;                ///< where the files go; empty: the authority's folder
  int days = 365;                 ///< but not beyond the authority's end
  actors::net::certified_role role = actors::net::certified_role::node;
};

/// Makes ca.pem and ca.key. Never writes over an authority that is there: every certificate it signed would be void.
certified<issued> make_authority(const authority_options& options, std::time_t now);

/// Makes NODE.pem and NODE.key, valid for a server and a client, since a node is both. `out` also gets a copy of ca.pem: all that
/// the node needs. Keys are ECDSA over P-256. OpenSSL under CAF and the lanes accepts Ed25519 too, but browsers do not, and these
/// certificates also serve the web page and the metrics.
certified<issued> issue_certificate(const node_certificate_options& options, std::time_t now);

struct revocation_options {
  std::string folder;      ///< the authority's
  std::string node;        ///< revokes every certificate that was issued to this name so far; may be empty
  std::string certificate; ///< revokes that of this file; may be empty
};

/// What an authority has revoked.
struct revoked {
  std::string crl;                ///< the list, crl.pem in its folder
  std::size_t added = 0, all = 0; ///< how many certificates the list has got now, and how many it has
  std::vector<std::string> warnings;
};

/// Writes crl.pem anew, with what it had before. With neither a node nor a certificate it adds none: nodes want a list to begin
/// with. The list is good for as long as the authority is.
certified<revoked> revoke_certificates(const revocation_options& options, std::time_t now);

} // namespace troupe::apps
