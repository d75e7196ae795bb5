// SPDX-License-Identifier: BSD-3-Clause
// Which of a node's devices a job may have.
#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// Of the devices that a cluster file lists for a node, those that `wanted` of a job may be: for "cuda" every GPU, for "cpu" and
/// "cuda:N" that one, which a listed "cuda" is, too. A node without a list has whatever is wanted, as far as anybody knows.
/// Empty: none.
std::vector<std::string> matching_devices(const std::vector<std::string>& listed, const std::string& wanted);

/// Whether shards may be there on `wanted`: any host has memory for them.
bool takes_shards(const std::vector<std::string>& listed, const std::string& wanted);

} // namespace troupe::actors
