// SPDX-License-Identifier: BSD-3-Clause
// Certificates for tests, made by the openssl command in a folder that goes when the object does.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace troupe::tests {

/// PEM files of one node.
struct identity {
  std::string certificate, key;
};

/// A certificate authority that signs nodes. Not thread-safe.
class authority {
public:
  authority() {
    auto pattern = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error{"no temporary folder " + pattern};
    folder_ = pattern;
    root_ = make("authority", "");
  }
  authority(const authority&) = delete;
  authority& operator=(const authority&) = delete;
  ~authority() { std::filesystem::remove_all(folder_); }

  /// The file of the authority's own certificate, by which nodes check each other.
  const std::string& certificate() const { return root_.certificate; }
  identity sign(const std::string& name) const {
    return make(name, fmt::format("-CA {} -CAkey {} -addext basicConstraints=CA:FALSE", root_.certificate, root_.key));
  }

private:
  identity make(const std::string& name, const std::string& signer) const {
    identity made{(folder_ / (name + ".pem")).string(), (folder_ / (name + ".key")).string()};
    const auto command = fmt::format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                                     "-subj /CN={} {} -keyout {} -out {} 2>{}/openssl.log",
                                     name, signer, made.key, made.certificate, folder_.string());
    if (std::system(command.c_str()) != 0)
      throw std::runtime_error{"this failed: " + command};
    return made;
  }

  std::filesystem::path folder_;
  identity root_;
};

} // namespace troupe::tests
