// SPDX-License-Identifier: BSD-3-Clause
// TLS 1.3 over a lane's socket: both ends show a certificate of one authority. Does not use Asio.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <openssl/ssl.h>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// A node's certificate, key, authorities and revocations, as they were read once. Thread-safe.
class tls_context {
public:
  /// Throws std::runtime_error that names a file which is missing, invalid or does not match the others.
  explicit tls_context(const security& files);
  /// For a client that shows no certificate and trusts every server, to learn whether the server asks for one.
  static tls_context without_certificate() { return {}; }

  /// A connection for a caller with its own socket, such as Asio's stream, which frees it. It may outlive the context.
  SSL* new_connection() const;
  /// OpenSSL's own context, with a reference for the caller.
  SSL_CTX* share() const;
  /// Whether its authority has revoked this certificate.
  bool revokes(X509* certificate) const;

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
  std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>> context_;
};

/// The newest context of files that may change while they are used: certificates that are renewed, authorities that are added,
/// certificates that are revoked. Thread-safe.
class tls_source {
public:
  /// `say` hears that files were read again, or why they could not be; on the thread of whoever asks. Throws as tls_context.
  explicit tls_source(security files, std::function<void(const std::string&)> say = {});
  /// Looks at the files at most once a second, and reads them where one has changed. Where that fails the last good ones stay.
  std::shared_ptr<const tls_context> newest();

private:
  using stamps = std::array<std::array<std::int64_t, 4>, 4>;
  stamps look() const;

  const security files_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_; // guards what follows
  stamps seen_;
  std::chrono::steady_clock::time_point looked_at_;
  std::shared_ptr<const tls_context> newest_;
};

/// Why a connection was refused, from this thread's first error, as words that follow "connection from HOST: ". The error stays
/// queued.
std::string refusal_text(const SSL* connection);

/// One TLS connection. OpenSSL allows one call at a time, so a lock serializes a reading and a writing thread; each call holds it
/// for at most `batch_bytes`.
///
/// Payloads are encrypted and decrypted in place; parts smaller than a record are gathered first. Records go to the socket many
/// at a time, so written data may wait here: see `holds_back`. No close_notify: a lane has its own last message, and a cut
/// connection ends the lane either way.
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

  /// Limits: the payload of a record, and the bytes per socket call.
  static constexpr std::size_t record_bytes = 16U << 10U, batch_bytes = 128U << 10U;

  /// The non-blocking socket outlives the session. Keys are renewed every `records_per_key` records: AES-GCM is safe for
  /// 2^24.5 (RFC 8446, 5.5), a few hours of a fast lane.
  tls_session(const tls_context& context, int descriptor, role as, std::uint64_t records_per_key = 1U << 23U);

  /// To be called first, and repeated until done. The dialing end is done before the other end has verified its certificate; a
  /// refusal then comes from `read`.
  outcome shake_hands();
  ~tls_session();
  /// Whether the handshake is done.
  bool established() const { return established_; }
  /// Whether the peer does not speak TLS (accepting end): it may be answered in plain text.
  bool met_plain_peer() const { return met_plain_peer_; }

  /// Reads at most one record.
  result read(std::span<std::byte> into);
  /// Takes some of the concatenated parts, after sending what is held back. Without parts it only sends that.
  result write(std::span<const std::span<const std::byte>> parts);
  /// Whether taken data still wait for the socket: call `write` again when it is writable.
  bool holds_back() const;
  /// Whom the peer's certificate was issued to, once the handshake is done.
  certified_peer peer() const;
  /// Whether it has been revoked, by what this context knows.
  bool is_revoked(const tls_context& by) const;
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
  bool over_ = false; // after a fatal error
  bool peeked_ = false;
  std::uint64_t records_ = 0; // written with the present key
  std::string fault_;
  std::vector<std::byte> record_; // small parts of one record
};

} // namespace troupe::actors::net
