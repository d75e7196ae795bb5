// SPDX-License-Identifier: BSD-3-Clause
// A job's trace as a file that trace viewers open.
#pragma once

#include <string>
#include <vector>

#include "actors/job.hpp"
#include "actors/monitoring/trace.hpp"
#include "tensor/error.hpp"

namespace troupe::actors {

/// Identifies the format, in the file's "otherData".
inline constexpr std::string_view trace_format = "troupe trace 1";

/// Writes Chrome trace events: a process for each node, a thread for each role, an event a line. Times begin with the first
/// event. The file appears under its name only when it is whole; on failure (errc::io, naming the file and the reason) nothing is
/// left.
result<void> write_trace(const std::string& path, const job& job, const std::vector<node_trace>& nodes);

} // namespace troupe::actors
