// SPDX-License-Identifier: BSD-3-Clause
// TLS 1.3 over a lane's socket: both ends show a certificate of one authority. No Asio in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <openssl/ssl.h>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// A node's certificate, key and authority, read once, for all of its connections. Thread-safe.
class tls_context {
public:
  /// Throws std::runtime_error that names the file when one of them is missing, wrong or of another's.
  explicit tls_context(const security& files);
  /// Of a client that shows none and believes every server: to learn what that asks for.
  static tls_context without_certificate() { return {}; }

  /// A connection for somebody who brings the socket and frees it, such as Asio's own stream. It may outlive the context.
  SSL* new_connection() const;

private:
  friend class tls_session;
  tls_context();
  template <auto Free>
  struct freed_by {
    template <class T>
    void operator()(T* owned) const {
      Free(owned);
    }
  };
  std::unique_ptr<BIO_METHOD, freed_by<BIO_meth_free>> socket_;
  std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>> context_;
};

/// Why a connection was refused, by this thread's first error: words that follow "connection from HOST: ". The error stays.
std::string refusal_text(const SSL* connection);

/// One connection's keys. A lock lets one thread write while another reads, of which OpenSSL allows one at a time; each call
/// holds it for `batch_bytes` at most.
///
/// Payloads are encrypted from where they lie and decrypted to where they belong; what is smaller than a record is gathered
/// first. Sealed records go to the socket many at a time, so what is written may wait here: see `holds_back`. No close_notify:
/// a lane has its own last message, and whoever cuts the connection ends the lane either way.
class tls_session {
public:
  enum class role : std::uint8_t { dials, accepts };
  enum class outcome : std::uint8_t {
    done,
    wants_read,  ///< again when the socket has more
    wants_write, ///< again when the socket takes more
    ended,       ///< the peer hung up, or the network did
    refused      ///< by either end, for good; `fault` says why
  };
  struct result {
    outcome how = outcome::done;
    std::size_t bytes = 0;
  };

  /// A record's payload; what goes to or comes from the socket by one call. Both at most.
  static constexpr std::size_t record_bytes = 16U << 10U, batch_bytes = 128U << 10U;

  /// The non-blocking socket outlives the session. Keys are renewed every `records_per_key` records: AES-GCM is safe for
  /// 2^24.5 (RFC 8446, 5.5), a few hours of a fast lane.
  tls_session(const tls_context& context, int descriptor, role as, std::uint64_t records_per_key = 1U << 23U);

  /// The first call of each end, again until it is done. The dialing end is done before the other has looked at its
  /// certificate: then the refusal comes by `read`.
  outcome shake_hands();
  ~tls_session();
  /// Whether the handshake is done.
  bool established() const { return established_; }
  /// Whether what came at first was no TLS at all (accepting end): it may be answered in plain words.
  bool met_plain_peer() const { return met_plain_peer_; }

  /// Some of what the peer wrote; at most one record.
  result read(std::span<std::byte> into);
  /// Takes some of the concatenated parts, which may be none: then what is held back goes on. Nothing is taken before that is.
  result write(std::span<const std::span<const std::byte>> parts);
  /// Whether something that was taken waits for the socket: `write` again when it takes more.
  bool holds_back() const;
  /// Whom the peer's certificate was issued to (its common name), once the handshake is done.
  std::string peer_name() const;
  /// Why a call ended or was refused, as words that follow "connection from HOST: ".
  std::string fault() const;

private:
  outcome judge(int returned);
  outcome peek();
  outcome flush();
  std::span<const std::byte> next_record(std::span<const std::span<const std::byte>> parts, std::size_t skip);

  struct freed {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  friend class tls_context;
  struct buffered_socket; // as OpenSSL sees it

  const role as_;
  const std::uint64_t records_per_key_;
  std::atomic<bool> established_ = false, met_plain_peer_ = false;
  mutable std::mutex mutex_; // guards what follows
  const std::unique_ptr<buffered_socket> socket_;
  const std::unique_ptr<SSL, freed> ssl_;
  bool over_ = false; // an error that OpenSSL does not come back from
  bool peeked_ = false;
  std::uint64_t records_ = 0; // written with the present key
  std::string fault_;
  std::vector<std::byte> record_; // small parts of one record
};

} // namespace troupe::actors::net
