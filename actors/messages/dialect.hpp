// SPDX-License-Identifier: BSD-3-Clause
// Whether two programs understand each other.
#pragma once

#include <string>

namespace troupe::actors {

/// Troupe's version and a digest of what its messages look like: "0.1.0 (messages 1f3a90c4)". Processes, and a journal and who
/// reads it, understand each other where these are equal; CAF would drop, or misread, a message with another list of fields.
/// Any thread.
const std::string& message_dialect();

} // namespace troupe::actors
