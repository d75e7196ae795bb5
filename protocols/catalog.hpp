// SPDX-License-Identifier: BSD-3-Clause
// The catalog: all protocols, each of which is a value in a file of its own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// All protocols, in the order in which they are listed for people; last those that a program has added. Built on each call.
std::vector<protocol> catalog(std::span<const protocol> added = {});
/// Names that are designed but not built yet, so that a job that asks for one is told so.
std::span<const std::string_view> announced();

/// The protocol of this name, of the catalog or among those that a program has added to it; or nothing.
std::optional<protocol> find_protocol(const std::string& name, std::span<const protocol> added = {});

/// What is wrong with a spec, as sentences with a remedy; empty: nothing.
std::vector<std::string> check(const protocol& of, const protocol_spec& spec, std::uint32_t workers);

/// What the job's plans may name: the spec itself; of auto its candidates.
std::vector<protocol_spec> planned_specs(const protocol_spec& spec, std::span<const protocol> added = {});
/// The protocols of these.
std::vector<protocol> planned_protocols(const protocol_spec& spec, std::span<const protocol> added = {});
/// The first plan's protocol.
protocol_spec initial_protocol(const protocol_spec& spec, std::span<const protocol> added = {});
/// Local steps between communications that the first plan has.
std::uint32_t initial_period(const protocol_spec& spec, std::span<const protocol> added = {});

} // namespace troupe::protocols
