// SPDX-License-Identifier: BSD-3-Clause
// The catalog of protocols for programs.
#pragma once

#include <boost/json/fwd.hpp>

#include "actors/extensions.hpp"

namespace troupe::apps {

/// Name, summary and parameters of each protocol: "protocols" of `troupe protocols --json`.
boost::json::array protocols_json(const actors::extensions& added);

} // namespace troupe::apps
