// SPDX-License-Identifier: BSD-3-Clause
// The whole `troupe` command as a value, and what a program of one's own adds to it.
#pragma once

#include "actors/extensions.hpp"

namespace troupe {

using actors::data_source;
using actors::model_kind;
using actors::parameters;

/// A program with all of the subcommands of `troupe`, whose jobs may name models, data sources and protocols of its own. All
/// nodes of a cluster, and whoever submits a job to it, run the same program. apps/examples/ has programs; link Troupe::apps.
class application {
public:
  /// For `[model] kind`, `[data] source` and `[protocol] name` of a job file. A name that is taken is refused by `main`, before
  /// anything else is done.
  void add_model(model_kind kind) { added_.models.push_back(std::move(kind)); }
  void add_data(data_source source) { added_.sources.push_back(std::move(source)); }
  void add_protocol(protocols::protocol entry) { added_.protocols.push_back(std::move(entry)); }

  /// Runs the subcommand that the command line names, and returns what the program is to exit with. Nothing is thrown: what
  /// nobody caught is said on stderr. Call it once, from `main`: it takes up SIGINT and SIGTERM, and may start this program
  /// again, as nodes of a cluster.
  int main(int argc, const char* const* argv) const;

private:
  actors::extensions added_;
};

} // namespace troupe
