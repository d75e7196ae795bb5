// SPDX-License-Identifier: BSD-3-Clause
// Certificates for tests, made by the openssl command in a folder that goes when the object does.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

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
    root_ = make("authority", "/CN=authority", "");
  }
  authority(const authority&) = delete;
  authority& operator=(const authority&) = delete;
  ~authority() { std::filesystem::remove_all(folder_); }

  /// The file of the authority's own certificate, by which nodes check each other.
  const std::string& certificate() const { return root_.certificate; }
  identity sign(const std::string& name) const { return sign_as(name, "/CN=" + name); }
  identity sign_console(const std::string& name) const { return sign_as(name, "/OU=console/CN=" + name); }
  /// Signed by this authority, and over for years.
  identity sign_expired(const std::string& name) const {
    const auto made = files_of(name);
    run(fmt::format("openssl req {} -subj /CN={} -keyout {} -out {}.request", new_key, name, made.key, made.certificate));
    // The one command that lets every release of OpenSSL sign for a time that is over.
    const auto config = (folder_ / "expired.conf").string(), database = (folder_ / "expired.index").string();
    std::ofstream{database};
    std::ofstream{config} << fmt::format("[ca]\ndefault_ca = d\n[d]\ndatabase = {}\nnew_certs_dir = {}\npolicy = p\n"
                                         "rand_serial = yes\ndefault_md = sha256\n[p]\ncommonName = supplied\n",
                                         database, folder_.string());
    run(fmt::format("openssl ca -batch -notext -config {} -startdate 20200101000000Z -enddate 20200102000000Z"
                    " -cert {} -keyfile {} -in {}.request -out {}",
                    config, root_.certificate, root_.key, made.certificate, made.certificate));
    return made;
  }

  /// Writes the list of what is revoked, in one step, where `path` is; by default nothing is.
  void write_list(const std::string& path, const std::vector<identity>& revoked = {}) const {
    const auto config = (folder_ / "list.conf").string(), database = (folder_ / "list.index").string();
    std::ofstream{database};
    std::ofstream{config} << fmt::format("[ca]\ndefault_ca = d\n[d]\ndatabase = {}\ndefault_md = sha256\n", database);
    const auto ca = fmt::format("openssl ca -config {} -cert {} -keyfile {}", config, root_.certificate, root_.key);
    for (const auto& each : revoked)
      run(fmt::format("{} -revoke {}", ca, each.certificate));
    run(fmt::format("{} -gencrl -crldays 2 -out {}.new", ca, path));
    std::filesystem::rename(path + ".new", path);
  }
  /// A path in this authority's folder.
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

private:
  identity sign_as(const std::string& name, const std::string& subject) const {
    return make(name, subject, fmt::format("-CA {} -CAkey {} -addext basicConstraints=CA:FALSE", root_.certificate, root_.key));
  }
  identity make(const std::string& name, const std::string& subject, const std::string& signer) const {
    const auto made = files_of(name);
    run(fmt::format("openssl req -x509 {} -days 2 -subj {} {} -keyout {} -out {}", new_key, subject, signer, made.key,
                    made.certificate));
    return made;
  }
  identity files_of(const std::string& name) const {
    return {(folder_ / (name + ".pem")).string(), (folder_ / (name + ".key")).string()};
  }
  void run(const std::string& command) const {
    if (std::system(fmt::format("{} 2>{}/openssl.log", command, folder_.string()).c_str()) != 0)
      throw std::runtime_error{"this failed: " + command};
  }

  static constexpr const char* new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  std::filesystem::path folder_;
  identity root_;
};

} // namespace troupe::tests
