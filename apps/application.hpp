// SPDX-License-Identifier: BSD-3-Clause
// The whole `troupe` command as a value.
#pragma once

namespace troupe {

/// A program with all of the subcommands of `troupe`.
class application {
public:
  /// Runs the subcommand that the command line names, and returns what the program is to exit with. Nothing is thrown: what nobody
  /// caught is said on stderr. Call it once, from `main`: it takes up SIGINT and SIGTERM, and may start this program again, as nodes
  /// of a cluster.
  int main(int argc, const char* const* argv) const;
};

} // namespace troupe
