// SPDX-License-Identifier: BSD-3-Clause
// Where a value was given, in a file or on the command line, and a list of problems in that order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/config/problem.hpp"
#include "apps/config/toml.hpp"

namespace troupe::config {

/// A place in the file, or a flag of the command line.
struct place {
  position at{1, 1};
  std::string flag; ///< "--set data.batch"; empty: in the file
  int turn = 0;     ///< of the flag, from 1; 0: in the file
};

/// Problems as they are found; taken in the order of the file, then of the command line.
class problem_list {
public:
  explicit problem_list(std::string file) : file_(std::move(file)) {}

  /// "job.toml:3:7" or "--set data.batch".
  std::string where(const place& p) const;
  void add(const place& p, std::string message) { found_.emplace_back(p, std::move(message)); }
  bool empty() const { return found_.empty(); }
  /// The first 50, the last of which tells how many more there are.
  refusal take();

private:
  std::string file_;
  std::vector<std::pair<place, std::string>> found_;
};

/// The whole text of a file, or why it cannot be read.
checked<std::string> read_config_file(const std::string& path);

/// Reads and parses a file.
checked<toml_table> parse_config_file(const std::string& path);

} // namespace troupe::config
