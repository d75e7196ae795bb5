// SPDX-License-Identifier: BSD-3-Clause
// What subcommands print: refusals, tables, and the one line of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "apps/commands.hpp"
#include "apps/config/problem.hpp"

namespace troupe::apps {

/// Prints every problem to stderr, one a line.
exit_code refuse(const config::refusal& why);
/// What people should know and need not mend, to stderr: `note: ` and one a line.
void print_notes(const config::problems& notes);
/// Problems as JSON, for commands that report them as their result.
boost::json::array errors_json(const config::refusal& why);

/// One object on a line of its own: the last thing that goes to stdout.
void print_json(const boost::json::object& object);
/// `value`, or null where it is not finite, for which JSON has no word.
boost::json::value finite_or_null(double value);
/// The same, and null where it does not apply.
boost::json::value number_or_null(bool applies, double value);

/// How many letters a text in UTF-8 has.
std::size_t letters(std::string_view text);

/// Rows as columns with two blanks between; the first row is the head.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// "1 worker", "3 workers".
std::string counted(std::uint64_t count, const std::string& noun);

/// What is wrong with a file that is to be written later, found now; empty: nothing.
std::string cannot_write(const std::string& path);

/// "7.5 MB", "12.0 kB": powers of ten.
std::string bytes_text(double bytes);

} // namespace troupe::apps
