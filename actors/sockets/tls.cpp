// SPDX-License-Identifier: BSD-3-Clause
// OpenSSL over a non-blocking socket, without signals, with its errors as text.
#include "actors/sockets/tls.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "actors/sockets/certified.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

// Before the handshake is done, when a connection should cost little.
constexpr std::size_t stranger_bytes = 4U << 10U;
// The first byte of a TLS connection: a handshake record. No lane begins with it: it would be a frame of over 20 segments.
constexpr unsigned char handshake_record = 0x16;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

/// A system call, repeated if a signal interrupts it.
template <class Call>
ssize_t uninterrupted(const Call& call) {
  for (;;)
    if (const ssize_t count = call(); count >= 0 || errno != EINTR)
      return count;
}

// -- words

std::string openssl_words() {
  const unsigned long error = ERR_peek_error();
  const char* const reason = ERR_reason_error_string(error);
  if (ERR_SYSTEM_ERROR(error))
    return std::strerror(ERR_GET_REASON(error));
  return reason != nullptr ? reason : "an error without a name";
}

/// An authority that has revoked nothing need not say so.
int takes_authorities_without_list(int good, X509_STORE_CTX* check) {
  if (good == 1 || X509_STORE_CTX_get_error(check) != X509_V_ERR_UNABLE_TO_GET_CRL)
    return good;
  X509_STORE_CTX_set_error(check, X509_V_OK);
  return 1;
}

void require(bool good, const std::string& file, const char* role) {
  if (good)
    return;
  const std::string why = openssl_words();
  ERR_clear_error();
  throw std::runtime_error(fmt::format("{} is no {} that TLS takes: {}", file, role, why));
}

} // namespace

/// Encrypted bytes under way. OpenSSL's own sockets raise SIGPIPE and need two system calls for each record.
struct tls_session::buffered_socket {
  explicit buffered_socket(int number) : descriptor(number), come(stranger_bytes) {}

  /// As OpenSSL calls these functions. Never freed: connections may outlive every context.
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* const out = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lane");
      TROUPE_ASSERT(out != nullptr);
      BIO_meth_set_write(out, write);
      BIO_meth_set_read(out, read);
      BIO_meth_set_ctrl(out, control);
      return out;
    }();
    return made;
  }

  static buffered_socket& of(BIO* bio) { return *static_cast<buffered_socket*>(BIO_get_data(bio)); }

  static int write(BIO* bio, const char* data, int bytes) {
    const auto* const from = reinterpret_cast<const std::byte*>(data);
    auto& waiting = of(bio).waiting;
    waiting.insert(waiting.end(), from, from + bytes);
    return bytes;
  }

  static int read(BIO* bio, char* data, int wanted) {
    auto& self = of(bio);
    BIO_clear_retry_flags(bio);
    if (self.begin == self.end) {
      const ssize_t count =
          uninterrupted([&] { return ::recv(self.descriptor, self.come.data(), self.come.size(), MSG_DONTWAIT); });
      if (count < 0 && would_block())
        BIO_set_retry_read(bio);
      if (count == 0)
        errno = 0; // the end of the stream is not a system error
      if (count <= 0)
        return static_cast<int>(count);
      self.begin = 0;
      self.end = static_cast<std::size_t>(count);
    }
    const std::size_t bytes = std::min(self.end - self.begin, static_cast<std::size_t>(wanted));
    std::memcpy(data, self.come.data() + self.begin, bytes);
    self.begin += bytes;
    return static_cast<int>(bytes);
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  /// False with errno when the socket did not take everything.
  bool flush() {
    while (sent < waiting.size()) {
      const ssize_t count = uninterrupted(
          [&] { return ::send(descriptor, waiting.data() + sent, waiting.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT); });
      if (count < 0)
        return false;
      sent += static_cast<std::size_t>(count);
    }
    waiting.clear();
    sent = 0;
    return true;
  }

  const int descriptor;
  std::vector<std::byte> come, waiting;
  std::size_t begin = 0, end = 0; // of `come`: what OpenSSL has not asked for
  std::size_t sent = 0;           // of `waiting`
};

tls_context::tls_context() : context_(SSL_CTX_new(TLS_method())) {
  TROUPE_ASSERT(context_);
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
}

tls_context::tls_context(const security& files) : tls_context() {
  SSL_CTX* const c = context_.get();
  ERR_clear_error();
  require(SSL_CTX_load_verify_locations(c, files.ca.c_str(), nullptr) == 1, files.ca, "authority's certificate");
  require(SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) == 1, files.certificate, "certificate");
  require(SSL_CTX_use_PrivateKey_file(c, files.key.c_str(), SSL_FILETYPE_PEM) == 1, files.key, "key");
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, takes_authorities_without_list);
  if (!files.crl.empty()) {
    X509_STORE* const store = SSL_CTX_get_cert_store(c);
    auto* const lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    require(lookup != nullptr && X509_load_crl_file(lookup, files.crl.c_str(), X509_FILETYPE_PEM) > 0, files.crl,
            "list of revoked certificates");
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  }
  // AES-128 is as strong as the P-256 key agreement, and a third faster than AES-256.
  SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  // A lane is opened once, so sessions are not resumed.
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
}

SSL* tls_context::new_connection() const {
  SSL* const made = SSL_new(context_.get());
  TROUPE_ASSERT(made != nullptr);
  return made;
}

SSL_CTX* tls_context::share() const {
  SSL_CTX_up_ref(context_.get());
  return context_.get();
}

bool tls_context::revokes(X509* certificate) const {
  const std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  if (!check || X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context_.get()), certificate, nullptr) != 1)
    return false;
  X509_STORE_CTX_set_verify_cb(check.get(), takes_authorities_without_list);
  const bool good = X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  return !good && X509_STORE_CTX_get_error(check.get()) == X509_V_ERR_CERT_REVOKED;
}

tls_source::tls_source(security files, std::function<void(const std::string&)> say)
    : files_(std::move(files)), say_(std::move(say)), seen_(look()), looked_at_(std::chrono::steady_clock::now()),
      newest_(std::make_shared<const tls_context>(files_)) {}

std::shared_ptr<const tls_context> tls_source::newest() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < std::chrono::seconds{1})
    return newest_;
  looked_at_ = now;
  const auto there = look();
  if (there == seen_)
    return newest_;
  std::string said = "has read its certificates again";
  try {
    newest_ = std::make_shared<const tls_context>(files_);
  } catch (const std::runtime_error& e) {
    said = fmt::format("goes on with the certificates that it has: {}", e.what());
  }
  seen_ = there;
  if (say_)
    say_(said);
  return newest_;
}

/// What changes when a file is written or replaced.
tls_source::stamps tls_source::look() const {
  stamps out{};
  std::size_t next = 0;
  for (const std::string* path : {&files_.ca, &files_.certificate, &files_.key, &files_.crl}) {
    struct stat about {};
    if (!path->empty() && ::stat(path->c_str(), &about) == 0)
      out[next] = {static_cast<std::int64_t>(about.st_ino), about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
    ++next;
  }
  return out;
}

tls_session::tls_session(const tls_context& context, int descriptor, role as, std::uint64_t records_per_key)
    : as_(as), records_per_key_(records_per_key), socket_(std::make_unique<buffered_socket>(descriptor)),
      ssl_(context.new_connection()) {
  BIO* const bio = BIO_new(buffered_socket::method());
  TROUPE_ASSERT(bio != nullptr);
  BIO_set_data(bio, socket_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (as == role::dials)
    SSL_set_connect_state(ssl_.get());
  else
    SSL_set_accept_state(ssl_.get());
}

tls_session::~tls_session() = default;

tls_session::outcome tls_session::shake_hands() {
  const std::lock_guard lock(mutex_);
  if (as_ == role::accepts && !peeked_)
    if (const outcome first = peek(); first != outcome::done)
      return first;
  ERR_clear_error();
  const int returned = SSL_do_handshake(ssl_.get());
  const outcome how = returned == 1 ? outcome::done : judge(returned);
  // Even if it failed: the pending alert says why.
  const outcome flushed = flush();
  if (how == outcome::refused || how == outcome::ended)
    return how;
  if (flushed != outcome::done)
    return flushed;
  if (how == outcome::done) {
    socket_->come.resize(batch_bytes);
    record_.resize(record_bytes);
    established_ = true;
  }
  return how;
}

/// Peeks at the first byte.
tls_session::outcome tls_session::peek() {
  unsigned char first = 0;
  const ssize_t count = uninterrupted([&] { return ::recv(socket_->descriptor, &first, 1, MSG_PEEK | MSG_DONTWAIT); });
  if (count < 0 && would_block())
    return outcome::wants_read;
  over_ = count <= 0 || first != handshake_record;
  peeked_ = true;
  if (count <= 0) {
    fault_ = count == 0 ? "the peer closed the connection" : std::strerror(errno);
    return outcome::ended;
  }
  if (!over_)
    return outcome::done;
  met_plain_peer_ = true;
  fault_ = "it speaks no TLS; this node takes certificates of its cluster's authority only";
  return outcome::refused;
}

tls_session::result tls_session::read(std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  if (over_)
    return {outcome::ended, 0};
  ERR_clear_error();
  std::size_t bytes = 0;
  const int returned = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
  if (returned == 1)
    return {outcome::done, bytes};
  const outcome how = judge(returned);
  (void)flush(); // an alert
  return {how, 0};
}

tls_session::result tls_session::write(std::span<const std::span<const std::byte>> parts) {
  const std::lock_guard lock(mutex_);
  if (over_)
    return {outcome::ended, 0};
  if (const outcome before = flush(); before != outcome::done)
    return {before, 0};
  std::size_t taken = 0;
  while (socket_->waiting.size() < batch_bytes - record_bytes) {
    const auto record = next_record(parts, taken);
    if (record.empty())
      break;
    ERR_clear_error();
    if (records_ >= records_per_key_ && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
      records_ = 0;
    std::size_t bytes = 0;
    if (const int returned = SSL_write_ex(ssl_.get(), record.data(), record.size(), &bytes); returned != 1)
      return {judge(returned), 0};
    ++records_;
    taken += bytes;
  }
  const outcome after = flush();
  return {after == outcome::wants_write ? outcome::done : after, taken};
}

/// The next record after the first `skip` bytes of the parts: in place, or gathered.
std::span<const std::byte> tls_session::next_record(std::span<const std::span<const std::byte>> parts, std::size_t skip) {
  while (!parts.empty() && skip >= parts.front().size()) {
    skip -= parts.front().size();
    parts = parts.subspan(1);
  }
  if (parts.empty())
    return {};
  const auto first = parts.front().subspan(skip);
  if (first.size() >= record_bytes || parts.size() == 1)
    return first.first(std::min(first.size(), record_bytes));
  std::size_t gathered = 0;
  for (auto part : parts) {
    part = part.subspan(std::exchange(skip, 0));
    const std::size_t bytes = std::min(part.size(), record_bytes - gathered);
    std::memcpy(record_.data() + gathered, part.data(), bytes);
    gathered += bytes;
  }
  return std::span(record_).first(gathered);
}

bool tls_session::holds_back() const {
  const std::lock_guard lock(mutex_);
  return !over_ && !socket_->waiting.empty();
}

tls_session::outcome tls_session::flush() {
  if (socket_->flush())
    return outcome::done;
  if (would_block())
    return outcome::wants_write;
  if (!over_)
    fault_ = std::strerror(errno);
  over_ = true;
  return outcome::ended;
}

certified_peer tls_session::peer() const {
  const std::lock_guard lock(mutex_);
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  return certificate != nullptr ? certified(certificate) : certified_peer{};
}

bool tls_session::is_revoked(const tls_context& by) const {
  const std::lock_guard lock(mutex_);
  X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  return certificate != nullptr && by.revokes(certificate);
}

std::string tls_session::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

/// Interprets a failed call by this thread's latest errors.
tls_session::outcome tls_session::judge(int returned) {
  const int why = errno;
  switch (SSL_get_error(ssl_.get(), returned)) {
  case SSL_ERROR_WANT_READ:
    return outcome::wants_read;
  case SSL_ERROR_ZERO_RETURN:
    over_ = true;
    fault_ = "the peer closed the connection";
    return outcome::ended;
  case SSL_ERROR_SYSCALL:
    over_ = true;
    fault_ = why != 0 ? std::strerror(why) : "the peer closed the connection";
    return outcome::ended;
  default:
    over_ = true;
    const bool hung_up = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    fault_ = hung_up ? "the peer closed the connection" : refusal_text(ssl_.get());
    ERR_clear_error();
    return hung_up ? outcome::ended : outcome::refused;
  }
}

std::string refusal_text(const SSL* connection) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (reason > SSL_AD_REASON_OFFSET) // the peer's alert
    return fmt::format("the peer refuses this node's certificate: {}", SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
  switch (reason) {
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return "it shows no certificate; `troupe certs issue` makes one";
  case SSL_R_CERTIFICATE_VERIFY_FAILED:
    switch (const long verdict = SSL_get_verify_result(connection)) {
    case X509_V_ERR_CERT_REVOKED:
      return "its certificate has been revoked; `troupe certs issue` makes another";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "its certificate is not of this cluster's authority";
    default:
      return fmt::format("its certificate is refused: {}", X509_verify_cert_error_string(verdict));
    }
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_HTTP_REQUEST:
    return SSL_is_server(connection) == 1
               ? "it speaks no TLS; this node takes certificates of its cluster's authority only"
               : "it speaks no TLS: that end has no certificates, or says insecure = true, and this one has";
  default:
    return fmt::format("TLS failed: {}", openssl_words());
  }
}

} // namespace troupe::actors::net
