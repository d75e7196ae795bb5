// SPDX-License-Identifier: BSD-3-Clause
// A private authority by OpenSSL's library.
#include "apps/certs/authority.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/sockets/certified.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using number_ptr = std::unique_ptr<BIGNUM, freed_by<BN_free>>;

constexpr std::time_t day_s = 24 * 60 * 60;
// Clocks of hosts differ, so a certificate is valid from a little before it was made.
constexpr std::time_t head_start_s = 60 * 60;
// 2026-01-01: this program is newer, so an earlier clock was never set.
constexpr std::time_t earliest_now = 1767225600;
constexpr mode_t for_everybody = 0644, for_the_owner = 0600;

/// Name, validity and extensions of a certificate to be signed.
struct template_of {
  std::string name;
  std::string unit; ///< organizational; empty: none
  std::time_t from = 0, until = 0;
  std::vector<std::pair<int, std::string>> extensions;
};

/// An error of OpenSSL, which only a lack of memory or of randomness can cause.
certificate_error failed(const char* step) {
  const std::string why =
      ERR_reason_error_string(ERR_peek_last_error()) != nullptr ? ERR_reason_error_string(ERR_peek_last_error()) : "?";
  ERR_clear_error();
  return {fmt::format("OpenSSL cannot {}: {}", step, why)};
}

bool extend(X509* made, X509* signer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, signer, made, nullptr, nullptr, 0);
  const extension_ptr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(made, extension.get(), -1) == 1;
}

/// `signer` is null for one that signs itself.
certified<x509_ptr> sign(const template_of& contents, EVP_PKEY* key, X509* signer, EVP_PKEY* signing_key) {
  x509_ptr made(X509_new());
  const number_ptr serial(BN_new());
  X509_NAME* const subject = X509_get_subject_name(made.get());
  const auto* const name = reinterpret_cast<const unsigned char*>(contents.name.c_str());
  const std::string& unit = contents.unit;
  const auto* const unit_bytes = reinterpret_cast<const unsigned char*>(unit.c_str());
  const bool filled = X509_set_version(made.get(), 2) == 1 && BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1
                      && BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made.get())) != nullptr
                      && ASN1_TIME_set(X509_getm_notBefore(made.get()), contents.from) != nullptr
                      && ASN1_TIME_set(X509_getm_notAfter(made.get()), contents.until) != nullptr
                      && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1
                      && (unit.empty() || X509_NAME_add_entry_by_txt(subject, "OU", MBSTRING_UTF8, unit_bytes, -1, -1, 0) == 1)
                      && X509_set_issuer_name(made.get(), signer != nullptr ? X509_get_subject_name(signer) : subject) == 1
                      && X509_set_pubkey(made.get(), key) == 1;
  if (!filled)
    return failed("fill a certificate");
  for (const auto& [nid, value] : contents.extensions)
    if (!extend(made.get(), signer != nullptr ? signer : made.get(), nid, value))
      return failed("extend a certificate");
  if (X509_sign(made.get(), signing_key, EVP_sha256()) == 0)
    return failed("sign a certificate");
  return made;
}

// -- files

std::string path_in(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / file).string();
}

template <class Write>
std::string pem_text(const Write& write) {
  const bio_ptr memory(BIO_new(BIO_s_mem()));
  write(memory.get());
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(std::max(bytes, 0L))};
}
std::string pem_text(X509* certificate) {
  return pem_text([&](BIO* to) { PEM_write_bio_X509(to, certificate); });
}
std::string pem_text(EVP_PKEY* key) {
  return pem_text([&](BIO* to) { PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

/// Returns the reason of a failure, or an empty text. The file has `mode` from its creation; never overwrites a file.
std::string write_new(const std::string& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0)
    return fmt::format("{} cannot be written: {}", path, std::strerror(errno));
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  const int why = errno;
  ::close(file);
  if (written)
    return {};
  ::unlink(path.c_str());
  return fmt::format("{} cannot be written: {}", path, std::strerror(why));
}

/// Both or none.
std::string write_pair(const std::string& certificate, X509* made, const std::string& key, EVP_PKEY* secret) {
  if (auto why = write_new(key, pem_text(secret), for_the_owner); !why.empty())
    return why;
  auto why = write_new(certificate, pem_text(made), for_everybody);
  if (!why.empty())
    ::unlink(key.c_str());
  return why;
}

std::string make_folder(const std::string& folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why || !fs::is_directory(folder))
    return fmt::format("{} is no folder and cannot be made one: {}; name another", folder,
                       why ? why.message() : "a file of that name is there");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("{} cannot be written to: {}; name another folder, or change its owner", folder, std::strerror(errno));
  return {};
}

/// Describes what already is where a certificate is to be written; empty: nothing.
std::string what_is_at(const std::string& path) {
  if (!fs::exists(fs::symlink_status(path)))
    return {};
  const auto there = read_certificate(path);
  return there ? fmt::format("{} is the certificate of \"{}\", good until {}", path, name_of(there->get()),
                             date_text(valid_until(there->get())))
               : fmt::format("{} is there", path);
}

std::optional<certificate_error> unset_clock(std::time_t now) {
  if (now >= earliest_now)
    return {};
  return certificate_error{
      fmt::format("this machine's clock says {}; a certificate made now would be worthless: set the clock", date_text(now))};
}

// -- the authority

struct authority {
  x509_ptr certificate;
  key_ptr key;
  std::vector<std::string> warnings;
};

certified<authority> open_authority(const std::string& folder, std::time_t now) {
  const std::string certificate = path_in(folder, "ca.pem"), key = path_in(folder, "ca.key");
  if (!fs::exists(certificate) && !fs::exists(key))
    return certificate_error{fmt::format("there is no authority in {}; `troupe certs init {}` makes one", folder, folder)};
  auto found = read_certificate(certificate);
  if (!found)
    return found.error();
  auto secret = read_key(key);
  if (!secret)
    return secret.error();
  if (X509_check_private_key(found->get(), secret->get()) != 1) {
    ERR_clear_error();
    return certificate_error{fmt::format("{} is not the key of {}; restore the pair, or make a new authority", key, certificate)};
  }
  if (auto why = wrong_time(certificate, found->get(), now))
    return certificate_error{*why};
  authority opened{std::move(*found), std::move(*secret), {}};
  if (const auto mode = readable_by_others(key))
    opened.warnings.push_back(fmt::format("{} has mode {}: others may read it and sign nodes; chmod 600 {}", key, *mode, key));
  return opened;
}

// -- what it has issued and revoked

constexpr const char* issued_file = "issued.txt";

std::string serial_of(const X509* certificate) {
  const number_ptr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* const text = BN_bn2hex(number.get());
  std::string out = text;
  OPENSSL_free(text);
  return out;
}

/// So that a certificate can be revoked whose file is on a host that was lost. Returns the reason of a failure, or an empty text.
std::string record_issued(const std::string& folder, const std::string& node, const X509* certificate) {
  const auto path = path_in(folder, issued_file);
  std::ofstream out{path, std::ios::app};
  out << serial_of(certificate) << ' ' << node << '\n';
  out.close();
  return out ? "" : fmt::format("{} cannot be written; to revoke this certificate its file will be needed", path);
}

std::vector<std::string> serials_of(const std::string& folder, const std::string& node) {
  std::vector<std::string> out;
  std::ifstream in{path_in(folder, issued_file)};
  for (std::string serial, name; in >> serial >> name;)
    if (name == node)
      out.push_back(serial);
  return out;
}

/// False: it is in the list already.
bool add_revoked(X509_CRL* list, const std::string& serial, std::time_t now) {
  BIGNUM* parsed = nullptr;
  BN_hex2bn(&parsed, serial.c_str());
  const number_ptr number(parsed);
  const std::unique_ptr<ASN1_INTEGER, freed_by<ASN1_INTEGER_free>> wanted(BN_to_ASN1_INTEGER(number.get(), nullptr));
  X509_REVOKED* there = nullptr;
  if (X509_CRL_get0_by_serial(list, &there, wanted.get()) != 0)
    return false;
  X509_REVOKED* const entry = X509_REVOKED_new();
  const std::unique_ptr<ASN1_TIME, freed_by<ASN1_TIME_free>> when(ASN1_TIME_set(nullptr, now));
  X509_REVOKED_set_serialNumber(entry, wanted.get());
  X509_REVOKED_set_revocationDate(entry, when.get());
  return X509_CRL_add0_revoked(list, entry) == 1;
}

bool sign_list(X509_CRL* list, const authority& by, std::time_t now) {
  using time_ptr = std::unique_ptr<ASN1_TIME, freed_by<ASN1_TIME_free>>;
  const time_ptr from(ASN1_TIME_set(nullptr, now - head_start_s)),
      until(ASN1_TIME_set(nullptr, valid_until(by.certificate.get())));
  return X509_CRL_set_version(list, 1) == 1 && X509_CRL_set_issuer_name(list, X509_get_subject_name(by.certificate.get())) == 1
         && X509_CRL_set1_lastUpdate(list, from.get()) == 1 && X509_CRL_set1_nextUpdate(list, until.get()) == 1
         && X509_CRL_sort(list) == 1 && X509_CRL_sign(list, by.key.get(), EVP_sha256()) != 0;
}

/// Whoever reads it meanwhile reads the old one or the new one. Returns the reason of a failure, or an empty text.
std::string replace(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  ::unlink(beside.c_str());
  if (auto why = write_new(beside, text, for_everybody); !why.empty())
    return why;
  if (::rename(beside.c_str(), path.c_str()) == 0)
    return {};
  return fmt::format("{} cannot be written: {}", path, std::strerror(errno));
}

bool good_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  };
  // 64 bytes are the most that a common name may have.
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, plain) && name.front() != '.' && name.front() != '-';
}

bool is_address(const std::string& host) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

/// The error of a request, or nothing.
std::optional<certificate_error> wrong_request(const node_certificate_options& options) {
  if (!good_name(options.node) || options.node == "ca")
    return certificate_error{fmt::format("\"{}\" is no name for a node; it takes up to 64 letters, digits, '.', '-' and '_', "
                                         "and \"ca\" is the authority's own",
                                         options.node)};
  for (const std::string& host : options.hosts)
    if (!is_address(host) && !good_name(host))
      return certificate_error{fmt::format("\"{}\" is no host; --host takes a name or an address, without a port", host)};
  return {};
}

std::string alternative_names(const node_certificate_options& options) {
  std::string names = "DNS:" + options.node;
  for (const std::string& host : options.hosts)
    if (host != options.node)
      names += fmt::format(",{}:{}", is_address(host) ? "IP" : "DNS", host);
  return names;
}

/// Copies the authority's certificate beside a node's, unless it is there. Returns the reason of a failure, or an empty text.
std::string copy_ca(const std::string& path, X509* certificate) {
  if (!fs::exists(fs::symlink_status(path)))
    return write_new(path, pem_text(certificate), for_everybody);
  const auto there = read_certificate(path);
  if (there && X509_cmp(there->get(), certificate) == 0)
    return {};
  return fmt::format("{} is of another authority; name another --out", path);
}

/// Removes a folder that was created for files that could not be written.
certificate_error without_folder(const std::string& why, const std::string& folder, bool made) {
  std::error_code ignored;
  if (made)
    fs::remove(folder, ignored); // if it is empty
  return {why};
}

} // namespace

certified<issued> make_authority(const authority_options& options, std::time_t now) {
  if (auto why = unset_clock(now))
    return *why;
  if (options.name.empty() || options.name.size() > 64)
    return certificate_error{fmt::format("\"{}\" is no name for an authority; it takes 1 to 64 bytes", options.name)};
  const bool makes = !fs::exists(options.folder);
  if (auto why = make_folder(options.folder); !why.empty())
    return certificate_error{why};
  issued made{options.name,
              path_in(options.folder, "ca.pem"),
              path_in(options.folder, "ca.pem"),
              path_in(options.folder, "ca.key"),
              now + options.days * day_s,
              {}};
  for (const std::string& path : {made.ca, made.key})
    if (const std::string there = what_is_at(path); !there.empty())
      return certificate_error{fmt::format("{}; another authority would void every certificate that it signed: `troupe certs "
                                           "issue {}` uses it, another folder takes a new one",
                                           there, options.folder)};
  const key_ptr key(EVP_EC_gen("P-256"));
  if (!key)
    return failed("make a key");
  const auto certificate = sign({options.name,
                                 "",
                                 now - head_start_s,
                                 made.until,
                                 {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                  {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                  {NID_subject_key_identifier, "hash"}}},
                                key.get(), nullptr, key.get());
  if (!certificate)
    return certificate.error();
  if (auto why = write_pair(made.ca, certificate->get(), made.key, key.get()); !why.empty())
    return without_folder(why, options.folder, makes);
  return made;
}

certified<issued> issue_certificate(const node_certificate_options& options, std::time_t now) {
  if (auto why = unset_clock(now))
    return *why;
  if (auto why = wrong_request(options))
    return *why;
  auto signer = open_authority(options.folder, now);
  if (!signer)
    return signer.error();
  const std::string out = options.out.empty() ? options.folder : options.out;
  if (auto why = make_folder(out); !why.empty())
    return certificate_error{why};
  issued made{options.node,
              path_in(out, "ca.pem"),
              path_in(out, options.node + ".pem"),
              path_in(out, options.node + ".key"),
              std::min(now + options.days * day_s, valid_until(signer->certificate.get())),
              std::move(signer->warnings)};
  for (const std::string& path : {made.certificate, made.key})
    if (const std::string there = what_is_at(path); !there.empty())
      return certificate_error{fmt::format("{}; remove it and its key to issue another, or choose another name", there)};
  const key_ptr key(EVP_EC_gen("P-256"));
  if (!key)
    return failed("make a key");
  using actors::net::certified_role;
  const auto unit = options.role == certified_role::console ? actors::net::console_word : actors::net::node_word;
  const auto certificate = sign({options.node,
                                 std::string{unit},
                                 now - head_start_s,
                                 made.until,
                                 {{NID_basic_constraints, "critical,CA:FALSE"},
                                  {NID_key_usage, "critical,digitalSignature"},
                                  {NID_ext_key_usage, "serverAuth,clientAuth"},
                                  {NID_subject_alt_name, alternative_names(options)},
                                  {NID_subject_key_identifier, "hash"},
                                  {NID_authority_key_identifier, "keyid:always"}}},
                                key.get(), signer->certificate.get(), signer->key.get());
  if (!certificate)
    return certificate.error();
  if (auto why = copy_ca(made.ca, signer->certificate.get()); !why.empty())
    return certificate_error{why};
  if (auto why = write_pair(made.certificate, certificate->get(), made.key, key.get()); !why.empty())
    return certificate_error{why};
  if (auto why = record_issued(options.folder, options.node, certificate->get()); !why.empty())
    made.warnings.push_back(why);
  return made;
}

certified<revoked> revoke_certificates(const revocation_options& options, std::time_t now) {
  auto signer = open_authority(options.folder, now);
  if (!signer)
    return signer.error();
  std::vector<std::string> serials;
  if (!options.node.empty())
    serials = serials_of(options.folder, options.node);
  if (!options.node.empty() && serials.empty())
    return certificate_error{fmt::format("{} names no certificate that was issued to \"{}\"; name its file, with --certificate",
                                         path_in(options.folder, issued_file), options.node)};
  if (!options.certificate.empty()) {
    const auto found = read_certificate(options.certificate);
    if (!found)
      return found.error();
    if (X509_check_issued(signer->certificate.get(), found->get()) != X509_V_OK)
      return certificate_error{fmt::format("{} is not of this authority, which can revoke its own alone", options.certificate)};
    serials.push_back(serial_of(found->get()));
  }
  revoked out{path_in(options.folder, "crl.pem"), 0, 0, std::move(signer->warnings)};
  crl_ptr list(X509_CRL_new());
  if (fs::exists(out.crl)) {
    auto before = read_revocations(out.crl);
    if (!before)
      return before.error();
    if (X509_CRL_verify(before->front().get(), signer->key.get()) != 1) {
      ERR_clear_error();
      return certificate_error{fmt::format("{} is not a list of this authority; remove it", out.crl)};
    }
    list = std::move(before->front());
  }
  for (const std::string& serial : serials)
    out.added += add_revoked(list.get(), serial, now) ? 1 : 0;
  out.all = static_cast<std::size_t>(std::max(sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list.get())), 0));
  if (!sign_list(list.get(), *signer, now))
    return failed("sign a list of revoked certificates");
  if (auto why = replace(out.crl, pem_text([&](BIO* to) { PEM_write_bio_X509_CRL(to, list.get()); })); !why.empty())
    return certificate_error{why};
  return out;
}

} // namespace troupe::apps
