// SPDX-License-Identifier: BSD-3-Clause
// Certificates and keys in PEM files.
#include "apps/certs/certificate.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "actors/sockets/certified.hpp"

namespace troupe::apps {
namespace {

using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_ptr = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;

std::time_t seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

/// A file's bytes for OpenSSL. A folder could be opened but not read, so it is refused here.
certified<bio_ptr> open_file(const std::string& path) {
  struct stat about {};
  const bool there = ::stat(path.c_str(), &about) == 0;
  if (there && S_ISDIR(about.st_mode))
    return certificate_error{fmt::format("{} is a folder; a PEM file is wanted", path)};
  bio_ptr file(there ? BIO_new_file(path.c_str(), "r") : nullptr);
  const int why = errno;
  ERR_clear_error();
  if (!file)
    return certificate_error{fmt::format("{} cannot be read: {}; `troupe certs` makes such files", path, std::strerror(why))};
  return file;
}

/// No passphrase: OpenSSL would ask on the terminal.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

std::string kind_of(const std::string& path) {
  bio_ptr file(BIO_new_file(path.c_str(), "r"));
  char *name = nullptr, *header = nullptr;
  unsigned char* data = nullptr;
  long bytes = 0;
  const bool found = file && PEM_read_bio(file.get(), &name, &header, &data, &bytes) == 1;
  const std::string kind = found ? fmt::format("holds a {}", name) : "is not in PEM form";
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(data);
  ERR_clear_error();
  return kind;
}

/// Why no authority of these has signed a node's certificate, whatever the time, or one has revoked it; nothing: it is good.
std::optional<std::string> not_signed(const std::vector<x509_ptr>& authorities, const std::vector<crl_ptr>& revoked,
                                      X509* certificate) {
  const store_ptr trusted(X509_STORE_new());
  const store_context_ptr check(X509_STORE_CTX_new());
  for (const auto& each : authorities)
    X509_STORE_add_cert(trusted.get(), each.get());
  for (const auto& each : revoked)
    X509_STORE_add_crl(trusted.get(), each.get());
  X509_STORE_CTX_init(check.get(), trusted.get(), certificate, nullptr);
  X509_STORE_CTX_set_flags(check.get(), X509_V_FLAG_NO_CHECK_TIME | (revoked.empty() ? 0UL : X509_V_FLAG_CRL_CHECK));
  const bool good = X509_verify_cert(check.get()) == 1;
  const int why = X509_STORE_CTX_get_error(check.get());
  ERR_clear_error();
  if (good || why == X509_V_ERR_UNABLE_TO_GET_CRL) // an authority that has revoked nothing need not say so
    return {};
  return X509_verify_cert_error_string(why);
}

std::optional<std::string> wrong_authorities(const std::string& ca, const std::vector<x509_ptr>& all, std::time_t now) {
  std::optional<std::string> late;
  bool one_is_good = false;
  for (const auto& each : all) {
    if (X509_check_ca(each.get()) == 0)
      return fmt::format("{} is the certificate of \"{}\", which is no authority; name the authority's ca.pem", ca,
                         name_of(each.get()));
    const auto wrong = wrong_time(ca, each.get(), now);
    one_is_good = one_is_good || !wrong;
    late = late ? late : wrong;
  }
  return one_is_good ? std::nullopt : late; // of several, old ones may be over
}

} // namespace

void throw_exception_from_error(const certificate_error& e, const boost::source_location&) {
  throw std::runtime_error(e.message);
}

certified<x509_ptr> read_certificate(const std::string& path) {
  auto found = read_certificates(path);
  if (!found)
    return found.error();
  return std::move(found->front());
}

certified<std::vector<x509_ptr>> read_certificates(const std::string& path) {
  const auto file = open_file(path);
  if (!file)
    return file.error();
  std::vector<x509_ptr> found;
  while (X509* const next = PEM_read_bio_X509(file->get(), nullptr, no_passphrase, nullptr))
    found.emplace_back(next);
  ERR_clear_error();
  if (found.empty())
    return certificate_error{fmt::format("{} {}; a certificate is wanted", path, kind_of(path))};
  return found;
}

certified<std::vector<crl_ptr>> read_revocations(const std::string& path) {
  const auto file = open_file(path);
  if (!file)
    return file.error();
  std::vector<crl_ptr> found;
  while (X509_CRL* const next = PEM_read_bio_X509_CRL(file->get(), nullptr, no_passphrase, nullptr))
    found.emplace_back(next);
  ERR_clear_error();
  if (found.empty())
    return certificate_error{
        fmt::format("{} {}; a list of revoked certificates is wanted, as `troupe certs revoke` makes it", path, kind_of(path))};
  return found;
}

certified<key_ptr> read_key(const std::string& path) {
  const auto file = open_file(path);
  if (!file)
    return file.error();
  key_ptr found(PEM_read_bio_PrivateKey(file->get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (!found)
    return certificate_error{fmt::format("{} {}; a private key without a passphrase is wanted", path, kind_of(path))};
  return found;
}

std::string name_of(X509* certificate) {
  return actors::net::certified(certificate).name;
}
bool is_consoles(X509* certificate) {
  return actors::net::certified(certificate).role == actors::net::certified_role::console;
}

std::time_t valid_from(X509* certificate) {
  return seconds(X509_get0_notBefore(certificate));
}
std::time_t valid_until(X509* certificate) {
  return seconds(X509_get0_notAfter(certificate));
}

std::string date_text(std::time_t when) {
  std::tm parts{};
  ::gmtime_r(&when, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min);
}

std::optional<std::string> wrong_time(const std::string& path, X509* certificate, std::time_t now) {
  if (now > valid_until(certificate))
    return fmt::format("{} expired at {}; issue another", path, date_text(valid_until(certificate)));
  if (now < valid_from(certificate))
    return fmt::format("{} is good from {} and this machine's clock says {}; set the clock", path,
                       date_text(valid_from(certificate)), date_text(now));
  return {};
}

std::optional<std::string> readable_by_others(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || (about.st_mode & 077U) == 0)
    return {};
  return fmt::format("{:04o}", about.st_mode & 07777U);
}

std::vector<file_problem> check_node_files(const node_files& files, std::time_t now) {
  using file = file_problem::file;
  const auto& [ca, certificate, key, crl] = files;
  std::vector<file_problem> wrong;
  const auto authorities = read_certificates(ca);
  const auto own = read_certificate(certificate);
  const auto secret = read_key(key);
  const auto revoked = crl.empty() ? certified<std::vector<crl_ptr>>{std::vector<crl_ptr>{}} : read_revocations(crl);
  if (!authorities)
    wrong.push_back({file::ca, authorities.error().message});
  else if (const auto why = wrong_authorities(ca, *authorities, now))
    wrong.push_back({file::ca, *why});
  if (!revoked)
    wrong.push_back({file::crl, revoked.error().message});
  if (!own)
    wrong.push_back({file::certificate, own.error().message});
  else if (const auto late = wrong_time(certificate, own->get(), now))
    wrong.push_back({file::certificate, *late});
  else if (authorities && wrong.empty())
    if (const auto why = not_signed(*authorities, *revoked, own->get()))
      wrong.push_back({file::certificate, fmt::format("{} is not signed by {} (\"{}\"): {}; issue it with `troupe certs issue`",
                                                      certificate, ca, name_of(authorities->front().get()), *why)});
  if (!secret)
    wrong.push_back({file::key, secret.error().message});
  else if (own && X509_check_private_key(own->get(), secret->get()) != 1)
    wrong.push_back({file::key, fmt::format("{} is not the key of {}; name the one that was issued with it", key, certificate)});
  ERR_clear_error();
  return wrong;
}

} // namespace troupe::apps
