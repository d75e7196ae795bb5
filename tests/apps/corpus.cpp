// SPDX-License-Identifier: BSD-3-Clause
// Broken files that say themselves what is wrong with them.
#include "tests/apps/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "protocols/catalog.hpp"

namespace troupe::config::testing {

namespace fs = std::filesystem;

namespace {

/// With the names of the catalog for {protocols}.
std::string filled(std::string text) {
  const std::string place = "{protocols}";
  if (const auto at = text.find(place); at != std::string::npos) {
    std::string names;
    for (const auto& entry : protocols::catalog())
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", entry.name);
    text.replace(at, place.size(), names);
  }
  return text;
}

broken_file read_broken(const fs::path& path, const std::string& folder) {
  broken_file file{path.string(), folder + "/" + path.stem().string(), {}, {}};
  const std::string expect = "# expect ", set = "# set ";
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(expect))
      file.expected.push_back(filled(line.substr(expect.size())));
    else if (line.starts_with(set))
      file.sets.push_back(parse_setting(line.substr(set.size())).value());
  return file;
}

} // namespace

std::vector<broken_file> read_corpus(const std::string& folder) {
  std::vector<broken_file> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TROUPE_SOURCE_DIR) / "tests/apps" / folder))
    files.push_back(read_broken(entry.path(), folder));
  if (files.empty())
    throw std::runtime_error("no files in tests/apps/" + folder);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

std::vector<std::string> without_path(const refusal& why, const std::string& path) {
  std::vector<std::string> texts;
  for (const problem& p : why.all) {
    const std::string text = p.text();
    texts.push_back(text.starts_with(path + ":") ? text.substr(path.size() + 1) : text);
  }
  return texts;
}

temporary_file::temporary_file(const std::string& text) {
  std::string name = (fs::temp_directory_path() / "troupe-test-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0)
    throw std::runtime_error("cannot make a temporary file");
  ::close(descriptor);
  path_ = name;
  std::ofstream(path_) << text;
}

temporary_file::~temporary_file() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

} // namespace troupe::config::testing
