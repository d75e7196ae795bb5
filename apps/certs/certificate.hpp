// SPDX-License-Identifier: BSD-3-Clause
// Certificates and keys in PEM files: reads and checks them.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <boost/system/result.hpp>

#include "apps/certs/openssl.hpp"

namespace troupe::apps {

/// Why a file is not what it should be: "lab/a.pem is no certificate in PEM form; ...".
struct certificate_error {
  std::string message;
};
[[noreturn]] void throw_exception_from_error(const certificate_error& e, const boost::source_location& where);

template <class T>
using certified = boost::system::result<T, certificate_error>;

/// The first certificate of a PEM file.
certified<x509_ptr> read_certificate(const std::string& path);
/// All of them, at least one: a file of authorities may hold several.
certified<std::vector<x509_ptr>> read_certificates(const std::string& path);
/// The lists of revoked certificates in a PEM file, at least one.
certified<std::vector<crl_ptr>> read_revocations(const std::string& path);
/// An unencrypted private key: nodes start unattended and cannot ask for a passphrase.
certified<key_ptr> read_key(const std::string& path);

/// Its subject's common name.
std::string name_of(X509* certificate);
/// Whether it lets its owner look and give orders, but not be a node.
bool is_consoles(X509* certificate);
/// Seconds since 1970.
std::time_t valid_from(X509* certificate);
std::time_t valid_until(X509* certificate);
/// "2026-11-21 21:15 UTC".
std::string date_text(std::time_t when);

/// Why a certificate is not valid at `now`; nothing: it is.
std::optional<std::string> wrong_time(const std::string& path, X509* certificate, std::time_t now);
/// The mode of a key file that others than its owner may read, as "0644"; nothing where only the owner may.
std::optional<std::string> readable_by_others(const std::string& path);

/// One of a node's files and its error.
struct file_problem {
  enum class file { ca, certificate, key, crl } which;
  std::string message;
};
struct node_files {
  std::string ca, certificate, key;
  std::string crl{}; ///< may be empty
};
/// Everything that would keep these files from making a TLS connection: unreadable, no PEM, expired, a key of another
/// certificate, a certificate of another authority or a revoked one. Empty: none.
std::vector<file_problem> check_node_files(const node_files& files, std::time_t now);

} // namespace troupe::apps
