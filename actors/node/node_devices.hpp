// SPDX-License-Identifier: BSD-3-Clause
// Which of a node's devices a job may use.
#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// The devices in a cluster file's list for a node that match a job's `wanted`: for "cuda" every GPU, for "cpu" and "cuda:N" that
/// device; a listed "cuda" matches any "cuda:N". A node without a list is assumed to have any device. Empty: none matches.
std::vector<std::string> matching_devices(const std::vector<std::string>& listed, const std::string& wanted);

/// Whether shards may use `wanted` there; "cpu" is always allowed.
bool takes_shards(const std::vector<std::string>& listed, const std::string& wanted);

} // namespace troupe::actors
