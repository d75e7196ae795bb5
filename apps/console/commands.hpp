// SPDX-License-Identifier: BSD-3-Clause
// The console's commands: one table with the name, meaning, JSON and function of each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/console/session.hpp"

namespace troupe::apps::console {

using words = std::vector<std::string>;

struct command {
  std::string usage;   ///< "show ACTOR": its first word is its name
  std::string meaning; ///< a line
  /// Valid for the first job of a cluster of nodes a to d; a test runs every example.
  std::string example;
  /// The keys of its object, as `help` shows them: "actors: [{id role}] silent: [{node reason}]". `[...]` is a list, `{...}` an
  /// object with exactly these keys, any of which may be null; the keys of `{}` are the cluster's.
  std::string json;
  /// Carries it out once, given the rest of the line.
  std::function<answer(session&, const std::string& rest)> carry_out;
  /// What Tab offers after its name.
  std::function<words(session&)> offers = {};
  bool live = false;    ///< on a terminal it is redrawn until a key is pressed
  bool changes = false; ///< it changes the cluster, so it cannot be watched

  std::string name() const { return usage.substr(0, usage.find(' ')); }
};

/// Commands that only look, those that change something (control.hpp), and those about the console, in the order of `help`.
const std::vector<command>& commands();

/// Carries out a line. `quit` and `exit` are handled by the reader of lines.
answer carry_out(session& client, const std::string& line);

/// Completions of a line that begins with `before`: names of commands, or arguments of the first of them. Blanks in them are
/// written as colons.
words completions(session& client, const std::string& before);

/// Names for `offers`.
words actor_names(session& client);
words node_names(session& client);
words job_numbers(session& client);

} // namespace troupe::apps::console
