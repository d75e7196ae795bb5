// SPDX-License-Identifier: BSD-3-Clause
// What subcommands print: refusals, tables, and the one line of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "apps/commands.hpp"
#include "apps/config/problem.hpp"

namespace troupe::apps {

/// Prints every problem to stderr, one a line.
exit_code refuse(const config::refusal& why);
/// Prints what users should know but need not fix to stderr: `note: `, one a line.
void print_notes(const config::problems& notes);
/// Problems as JSON, for commands whose result they are.
boost::json::array errors_json(const config::refusal& why);

/// Prints one object on its own line: the last line of stdout.
void print_json(const boost::json::object& object);
/// `value`, or null where it is not finite, for which JSON has no word.
boost::json::value finite_or_null(double value);
/// The same, and null where it does not apply.
boost::json::value number_or_null(bool applies, double value);
/// `value`, or null where it does not apply.
template <class T>
boost::json::value value_or_null(bool applies, const T& value) {
  return applies ? boost::json::value(value) : boost::json::value(nullptr);
}

/// How many letters a text in UTF-8 has.
std::size_t letters(std::string_view text);
/// At most the first `count` letters of a text in UTF-8.
std::string_view first_letters(std::string_view text, std::size_t count);

/// Rows as columns with two blanks between; the first row is the head.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// "1 worker", "3 workers".
std::string counted(std::uint64_t count, const std::string& noun);

/// Why a file that is to be written later cannot be written; empty: it can.
std::string cannot_write(const std::string& path);

/// "7.5 MB", "12.0 kB": powers of ten.
std::string bytes_text(double bytes);

} // namespace troupe::apps
