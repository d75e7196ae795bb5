// SPDX-License-Identifier: BSD-3-Clause
// Small data files made by hand, for the tests of the readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

namespace troupe::testing {

using bytes = std::vector<std::uint8_t>;

/// A test with a folder of its own that goes with it.
class data_files : public ::testing::Test {
protected:
  data_files() {
    auto pattern = (std::filesystem::temp_directory_path() / "troupe-data-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a folder like " + pattern);
    folder_ = pattern;
  }
  ~data_files() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path write(const std::string& name, const bytes& content) const {
    auto path = folder_ / name;
    std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(content.data()), std::ssize(content));
    return path;
  }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    return write(name, bytes{text.begin(), text.end()});
  }
  std::filesystem::path write_gz(const std::string& name, const bytes& content) const {
    auto path = folder_ / name;
    auto* file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
    gzclose(file);
    return path;
  }

  const std::filesystem::path& folder() const { return folder_; }

private:
  std::filesystem::path folder_;
};

inline bytes operator+(bytes a, const bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The header of an IDX file of unsigned bytes.
inline bytes idx_header(std::initializer_list<std::uint32_t> extents) {
  bytes header{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (auto extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8)
      header.push_back(static_cast<std::uint8_t>(extent >> shift));
  return header;
}

/// The `message` of the error in a result; a result that is none fails the test.
template <class Result>
std::string message_of(const Result& result) {
  EXPECT_FALSE(result.has_value());
  return result.has_value() ? std::string{} : result.error().message;
}

} // namespace troupe::testing
