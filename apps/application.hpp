// SPDX-License-Identifier: BSD-3-Clause
// The whole `troupe` command as a value, and what a custom program adds to it.
#pragma once

#include "actors/extensions.hpp"

namespace troupe {

using actors::data_source;
using actors::model_kind;
using actors::parameters;

/// A program with all subcommands of `troupe`, whose jobs may also name the models, data sources and protocols that it adds. All
/// nodes of a cluster, and its clients, run the same program. apps/examples/ has programs; link Troupe::apps.
class application {
public:
  /// For `[model] kind`, `[data] source` and `[protocol] name` of a job file. `main` refuses a name that is taken before it does
  /// anything else.
  void add_model(model_kind kind) { added_.models.push_back(std::move(kind)); }
  void add_data(data_source source) { added_.sources.push_back(std::move(source)); }
  void add_protocol(protocols::protocol entry) { added_.protocols.push_back(std::move(entry)); }

  /// Runs the subcommand of the command line and returns the program's exit code. Nothing is thrown: uncaught exceptions are
  /// printed to stderr. Call it once, from `main`: it handles SIGINT and SIGTERM, and may start this program again, as nodes of a
  /// cluster.
  int main(int argc, const char* const* argv) const;

private:
  actors::extensions added_;
};

} // namespace troupe
