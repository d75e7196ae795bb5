// SPDX-License-Identifier: BSD-3-Clause
// What a node reports before a job: its version and devices, and whether it has the job's data.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "tensor/data/data_set.hpp"

namespace troupe::actors {

/// To a node: answered at once, so that its clock was read in the middle of the round trip.
struct wall_clock_query {};
struct clock_reading {
  std::int64_t wall_ns = 0; ///< since 1970
};

/// To a node: answered when it has read the data files. To a cluster: it asks all of its nodes.
struct probe_query {
  data_spec data = {};
  bool accelerators = false;    ///< look for GPUs, which loads their library
  std::string checkpoints = {}; ///< the folder; empty: none
  bool workers_write = false;   ///< to that; else nodes that may hold shards alone
};

struct device_probe {
  std::string name = {};
  bool usable = true;
  std::string reason = {}; ///< why not
  std::uint64_t memory_bytes = 0, free_bytes = 0;
  friend bool operator==(const device_probe&, const device_probe&) = default;
};

/// A file of the job's data as the node sees it.
struct file_probe {
  std::string path = {};
  std::uint64_t bytes = 0;
  std::string sha256 = {}; ///< 64 hex digits
  std::string wrong = {};  ///< why it cannot be read; empty if it can
  friend bool operator==(const file_probe&, const file_probe&) = default;
};

/// The folder of a job's checkpoints as the node sees it.
struct folder_probe {
  std::string path = {};
  std::string mark = {};  ///< of the folder: nodes that share it see the same one; empty: it could get none
  std::string wrong = {}; ///< why nothing can be written there; empty: something can
  friend bool operator==(const folder_probe&, const folder_probe&) = default;
};

/// The message about `file` if the file at that path on another node has other contents.
std::string difference(const file_probe& file, const file_probe& there, const std::string& node);

struct node_probe {
  std::string node = {}, host = {}; ///< of the cluster's file; these and the next five are filled in by the cluster
  bool here = false;                ///< has joined
  std::string silent = {};          ///< why it did not answer; empty if it did
  std::uint64_t job = 0;            ///< that it works for; 0: none
  double round_trip_s = 0;          ///< the shortest of a few; 0 for the coordinator's node
  double clock_ahead_s = 0;         ///< relative to the coordinator's; accurate to half the round trip
  std::string version = {};         ///< of Troupe
  std::uint32_t lane_version = 0;   ///< protocol version of lanes
  std::int32_t pid = 0;
  std::uint16_t lane_port = 0;            ///< 0: any
  std::string lane_port_wrong = {};       ///< why a job could not use it
  std::vector<device_probe> devices = {}; ///< the host first
  std::vector<file_probe> files = {};     ///< in the order of reading; empty: the data are generated
  folder_probe checkpoints = {};          ///< without a path: none was asked about
  friend bool operator==(const node_probe&, const node_probe&) = default;
};

struct cluster_probe {
  std::string name;
  std::vector<node_probe> nodes; ///< in the file's order, the coordinator's first; absent ones included
};

/// The files that a job would read. Takes seconds; after a stop request it ends with the present block.
std::vector<file_probe> look_at_data(const data_spec& data, const std::stop_token& ends = {});

/// SHA-256 by path, of those that could be read.
std::map<std::string, std::string> digests_of(const std::vector<file_probe>& files);

/// Makes the folder where it is missing. Who looks first leaves the mark, a link ".mark" to no file. Blocks as long as the file
/// system does.
folder_probe look_at_folder(const std::string& path);
/// Why a job cannot have its checkpoints there, as far as one can tell without leaving anything; empty: it can.
std::string why_not_writable(const std::string& folder);
/// The message about `folder` if a node cannot write there, or `there`, the same path on another node, is another folder.
/// Empty: neither.
std::string fault_of(const folder_probe& folder, const folder_probe& there, const std::string& node);

/// Now, since 1970.
std::int64_t wall_clock_ns();

/// Probes this process, including look_at_data; does not fill in the cluster's fields and the lane port.
node_probe look_around(const probe_query& query, const std::stop_token& ends = {});

} // namespace troupe::actors
