// SPDX-License-Identifier: BSD-3-Clause
// OpenSSL over a non-blocking socket, without signals, and its errors as words.
#include "actors/net/tls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

// Several records by one call of the kernel.
constexpr std::size_t read_ahead_bytes = 128U << 10U;
// The first byte of a TLS connection: a handshake record. No lane begins with it: it would be a frame of over 20 segments.
constexpr unsigned char handshake_record = 0x16;

// -- OpenSSL's view of a socket. Its own calls write(), which raises SIGPIPE.

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

template <class Call>
int transfer(BIO* bio, int retry_flag, const Call& call) {
  BIO_clear_retry_flags(bio);
  ssize_t count = 0;
  do
    count = call();
  while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int socket_write(BIO* bio, const char* data, int bytes) {
  return transfer(bio, BIO_FLAGS_WRITE, [&] {
    return ::send(descriptor_of(bio), data, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

int socket_read(BIO* bio, char* data, int bytes) {
  return transfer(bio, BIO_FLAGS_READ,
                  [&] { return ::recv(descriptor_of(bio), data, static_cast<std::size_t>(bytes), MSG_DONTWAIT); });
}

long socket_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// -- words

std::string openssl_words() {
  const unsigned long error = ERR_peek_error();
  const char* const reason = ERR_reason_error_string(error);
  if (ERR_SYSTEM_ERROR(error))
    return std::strerror(ERR_GET_REASON(error));
  return reason != nullptr ? reason : "an error without a name";
}

void require(bool good, const std::string& file, const char* what) {
  if (good)
    return;
  const std::string why = openssl_words();
  ERR_clear_error();
  throw std::runtime_error(fmt::format("{} is no {} that TLS takes: {}", file, what, why));
}

} // namespace

tls_context::tls_context(const security& files)
    : socket_(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lane")), context_(SSL_CTX_new(TLS_method())) {
  TROUPE_ASSERT(socket_ && context_);
  BIO_meth_set_write(socket_.get(), socket_write);
  BIO_meth_set_read(socket_.get(), socket_read);
  BIO_meth_set_ctrl(socket_.get(), socket_control);

  SSL_CTX* const c = context_.get();
  ERR_clear_error();
  require(SSL_CTX_load_verify_locations(c, files.ca.c_str(), nullptr) == 1, files.ca, "authority's certificate");
  require(SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) == 1, files.certificate, "certificate");
  require(SSL_CTX_use_PrivateKey_file(c, files.key.c_str(), SSL_FILETYPE_PEM) == 1, files.key, "key");
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  // 128 bits are as safe as the P-256 keys that agree on them, and a third faster than 256.
  SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  // A lane is opened once: nothing is resumed.
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_default_read_buffer_len(c, read_ahead_bytes);
}

tls_session::tls_session(const tls_context& context, int descriptor, role as, std::uint64_t records_per_key)
    : descriptor_(descriptor), as_(as), records_per_key_(records_per_key), ssl_(SSL_new(context.context_.get())),
      record_(std::make_unique<std::byte[]>(record_bytes)) {
  BIO* const bio = BIO_new(context.socket_.get());
  TROUPE_ASSERT(ssl_ && bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (as == role::dials)
    SSL_set_connect_state(ssl_.get());
  else
    SSL_set_accept_state(ssl_.get());
}

tls_session::outcome tls_session::shake_hands() {
  const std::lock_guard lock(mutex_);
  if (as_ == role::accepts && !peeked_)
    if (const outcome first = peek(); first != outcome::done)
      return first;
  ERR_clear_error();
  const int returned = SSL_do_handshake(ssl_.get());
  if (returned != 1)
    return judge(returned);
  established_ = true;
  return outcome::done;
}

/// Looks at the first byte without taking it.
tls_session::outcome tls_session::peek() {
  unsigned char first = 0;
  const ssize_t count = ::recv(descriptor_, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
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
  return returned == 1 ? result{outcome::done, bytes} : result{judge(returned), 0};
}

tls_session::result tls_session::write(std::span<const std::span<const std::byte>> parts) {
  const std::lock_guard lock(mutex_);
  if (over_)
    return {outcome::ended, 0};
  ERR_clear_error();
  if (records_ >= records_per_key_ && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
    records_ = 0;
  std::span<const std::byte> next = parts.front();
  if (next.size() < record_bytes && parts.size() > 1) {
    std::size_t gathered = 0;
    for (const auto part : parts) {
      const std::size_t bytes = std::min(part.size(), record_bytes - gathered);
      std::memcpy(record_.get() + gathered, part.data(), bytes);
      gathered += bytes;
      if (gathered == record_bytes)
        break;
    }
    next = {record_.get(), gathered};
  }
  std::size_t bytes = 0;
  const int returned = SSL_write_ex(ssl_.get(), next.data(), std::min(next.size(), record_bytes), &bytes);
  if (returned != 1)
    return {judge(returned), 0};
  ++records_;
  return {outcome::done, bytes};
}

std::string tls_session::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

/// After a call that did not succeed; the errors are this thread's latest.
tls_session::outcome tls_session::judge(int returned) {
  const int why = errno;
  switch (SSL_get_error(ssl_.get(), returned)) {
  case SSL_ERROR_WANT_READ:
    return outcome::wants_read;
  case SSL_ERROR_WANT_WRITE:
    return outcome::wants_write;
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
    fault_ = hung_up ? "the peer closed the connection" : refusal();
    ERR_clear_error();
    return hung_up ? outcome::ended : outcome::refused;
  }
}

std::string tls_session::refusal() const {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (reason > SSL_AD_REASON_OFFSET) // the peer's alert
    return fmt::format("the peer refuses this node's certificate: {}", SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
  switch (reason) {
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return "it shows no certificate; `troupe certs issue` makes one";
  case SSL_R_CERTIFICATE_VERIFY_FAILED:
    switch (const long verdict = SSL_get_verify_result(ssl_.get())) {
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
    return "it speaks no TLS; this node takes certificates of its cluster's authority only";
  default:
    return fmt::format("TLS failed: {}", openssl_words());
  }
}

} // namespace troupe::actors::net
