// SPDX-License-Identifier: BSD-3-Clause
// Cluster files: the hosts, what they may hold, how they authenticate each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"
#include "apps/config/problem.hpp"

namespace troupe::config {

/// One [[node]] of a cluster file.
struct cluster_node {
  std::string name;
  std::string host;
  std::uint16_t port = 0;         ///< 0: any free port; not for the coordinator
  std::uint16_t lane_port = 0;    ///< 0: any free port; the coordinator's node has no use for one
  std::uint16_t metrics_port = 0; ///< 0: no metrics
  bool coordinator = false, shard = false,
       worker = false;                ///< roles; without a list: shard and worker, the first node coordinator too
  std::vector<std::string> devices{}; ///< for workers, and for shards that are not on the CPU; empty: all of its host's
};

/// Who may join. Paths of PEM files, relative to the current directory; all three or none, and they fit each other.
struct cluster_security {
  std::string ca, certificate, key;
  bool insecure = false; ///< the file says that anyone may join
  std::string crl{};     ///< may be empty, with the others given too
  bool tls() const { return !ca.empty(); }
  actors::net::security files() const { return {ca, certificate, key, loopback_only(), crl}; }
  /// Neither certificates nor `insecure = true`: nodes listen on loopback only, for processes of their own user.
  bool loopback_only() const { return !tls() && !insecure; }
};

/// Of a node in a cluster that has no file: ca.pem, NODE.pem and NODE.key of a folder; an empty folder: none.
cluster_security security_of(const std::string& folder, const std::string& node, bool insecure);

/// [lanes]
struct cluster_lanes {
  std::int64_t window_kib = 128; ///< the kernel holds no more that is not sent yet
  bool shared_memory = true;     ///< payloads between processes of one host are read where they lie
  std::string congestion{};      ///< TCP's congestion control on every host; empty: each host's own
  std::size_t window_bytes() const { return static_cast<std::size_t>(window_kib) << 10U; }
  friend bool operator==(const cluster_lanes&, const cluster_lanes&) = default;
};

/// A cluster file, checked: names and addresses are unique, one node is the coordinator, or with a journal 3 or 5 are; one holds
/// shards and one workers; without [security] every host is a loopback address. A journal can be written, if its node reads the
/// file.
struct cluster {
  std::string name = "cluster";
  std::vector<cluster_node> nodes;
  cluster_security security;
  cluster_lanes lanes{};
  std::string journal{}; ///< folder on each coordinator's host where jobs outlive it; empty: they end with it
  double orphan_s = 30;  ///< with a journal: how long a job waits for its client when the coordinator begins again
  /// The node of that name, or null.
  const cluster_node* find(const std::string& node) const;
  /// The one that the others join; the first of several.
  const cluster_node& coordinator() const;
  /// One, or an odd number with a journal, one of which leads.
  std::vector<const cluster_node*> coordinators() const;
};

/// Whether this name or address reaches only its own host.
bool is_loopback(const std::string& host);

/// The reader of a cluster file that is no node of it: a client, with a certificate of that name.
inline constexpr const char* client_name = "client";

/// Reads and checks a cluster file; every problem at once. `reader`: the node that reads it, whose name "{name}" in the paths of
/// [security] stands for, so that all hosts have the same file.
checked<cluster> load_cluster(const std::string& path, const std::string& reader = client_name);

/// A cluster as the text of its file. Devices and metrics ports are left out.
std::string to_toml(const cluster& described);

} // namespace troupe::config
