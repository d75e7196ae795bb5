// SPDX-License-Identifier: BSD-3-Clause
// What the library knows, for bindings that make their constructors from it.
#pragma once

#include <boost/json/fwd.hpp>

namespace troupe::apps {

/// "protocols": as `troupe protocols --json` lists them. "optimizers": name, summary and parameters of each, of the keys of a job
/// file that have a meaning with it.
boost::json::object listing();

} // namespace troupe::apps
