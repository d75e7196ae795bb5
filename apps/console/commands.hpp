// SPDX-License-Identifier: BSD-3-Clause
// The console's commands: one table of what each is called, means, answers, and does.
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
  /// With arguments that hold for the first job of a cluster of nodes a to d; a test carries out every one of them.
  std::string example;
  /// The keys of its object, as `help` shows them: "actors: [{id role}] silent: [{node reason}]". `[...]` is a list of what is in
  /// it,
  /// `{...}` an object with exactly these keys, any of which may be null; `{}` alone is one whose keys are the cluster's.
  std::string json;
  /// What is carried out once, with the rest of the line.
  std::function<answer(session&, const std::string& rest)> carry_out;
  /// What Tab offers behind its name.
  std::function<words(session&)> offers = {};
  bool live = false;    ///< at a terminal it is redrawn until a key is pressed
  bool changes = false; ///< it does something to the cluster: nothing to watch

  std::string name() const { return usage.substr(0, usage.find(' ')); }
};

/// Those that look, those that change something (control.hpp), and those about the console itself, in the order of `help`.
const std::vector<command>& commands();

/// Carries out a line. `quit` and `exit` are whoever reads lines to notice.
answer carry_out(session& with, const std::string& line);

/// What may stand at the end of a line whose words before are these: names of commands, or what the first of them wants. Blanks
/// in them are written as colons.
words completions(session& with, const std::string& before);

/// Names for `offers`.
words actor_names(session& with);
words node_names(session& with);
words job_numbers(session& with);

} // namespace troupe::apps::console
