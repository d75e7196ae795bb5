// SPDX-License-Identifier: BSD-3-Clause
// Broken files that say themselves what is wrong with them: `# expect LINE:COLUMN: what; remedy`, `# set key=value`. In what they
// expect, {protocols} stands for the names of the catalog.
#pragma once

#include <string>
#include <vector>

#include "apps/config/job_file.hpp"

namespace troupe::config::testing {

struct broken_file {
  std::string path; ///< whole
  std::string name; ///< "bad_jobs/wrong_type", for messages
  std::vector<setting> sets;
  std::vector<std::string> expected; ///< every problem as text, in order, without the file's path
};

/// All files of tests/apps/`folder`, by name. Never empty: an empty corpus would pass any parser.
std::vector<broken_file> read_corpus(const std::string& folder);

/// Problems as text without `path` and its colon.
std::vector<std::string> without_path(const refusal& why, const std::string& path);

/// A file in the test's temporary folder, gone with the object.
class temporary_file {
public:
  explicit temporary_file(const std::string& text);
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file();
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace troupe::config::testing
