// SPDX-License-Identifier: BSD-3-Clause
// From argv to the options of one subcommand.
#pragma once

#include <variant>

#include "apps/commands.hpp"

namespace troupe::apps {

/// The options of the subcommand that was asked for, or what to exit with: help was printed to stdout, or what is wrong with
/// the usage to stderr. `added` goes along with the options.
std::variant<command_options, exit_code> parse_command_line(int argc, const char* const* argv,
                                                            const actors::extensions& added = {});

} // namespace troupe::apps
