// SPDX-License-Identifier: BSD-3-Clause
// The catalog: all protocols, each a value in its own file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// All protocols, in the order in which they are listed; those that a program has added come last. Built on each call.
std::vector<protocol> catalog(std::span<const protocol> added = {});

/// The protocol of this name, built in or added; or nothing.
std::optional<protocol> find_protocol(const std::string& name, std::span<const protocol> added = {});

/// What is wrong with a spec, as sentences with a remedy; empty if it is valid.
std::vector<std::string> validate(const protocol& chosen, const protocol_spec& spec, std::uint32_t workers);

/// What the job's plans may name: the spec itself, or for auto its candidates.
std::vector<protocol_spec> planned_specs(const protocol_spec& spec, std::span<const protocol> added = {});
/// The protocols that these name.
std::vector<protocol> planned_protocols(const protocol_spec& spec, std::span<const protocol> added = {});
/// The first plan's protocol.
protocol_spec initial_protocol(const protocol_spec& spec, std::span<const protocol> added = {});
/// Local steps between communications that the first plan has.
std::uint32_t initial_period(const protocol_spec& spec, std::span<const protocol> added = {});

} // namespace troupe::protocols
