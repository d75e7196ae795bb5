// SPDX-License-Identifier: BSD-3-Clause
// Asking a server by TLS, and OpenSSL's reasons for failed connections.
#include "actors/sockets/strangers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/sockets/tls.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using outcome = tls_session::outcome;

constexpr auto patience = 3s;
/// A server that has not refused a certificate for this long accepts it.
constexpr auto verdict_within = 1s;

class descriptor {
public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }
  int number() const { return number_; }

private:
  int number_;
};

bool ready(int socket, short events, steady::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady::now());
  pollfd wanted{socket, events, 0};
  return left.count() > 0 && ::poll(&wanted, 1, static_cast<int>(left.count())) > 0;
}

/// Non-blocking; -1 if no server is there.
int connect_to(const std::string& host, std::uint16_t port, steady::time_point until) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    return -1;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  for (const auto* address = found; address != nullptr; address = address->ai_next) {
    const int socket = ::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0)
      continue;
    int failed = ::connect(socket, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    socklen_t size = sizeof(failed);
    if (failed == EINPROGRESS
        && (!ready(socket, POLLOUT, until) || ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &size) != 0))
      failed = ETIMEDOUT;
    if (failed == 0)
      return socket;
    ::close(socket);
  }
  return -1;
}

/// Repeats `step` until it ends or time is up.
template <class Step>
outcome carry_through(int socket, steady::time_point until, const Step& step) {
  for (;;) {
    const outcome how = step();
    if (how != outcome::wants_read && how != outcome::wants_write)
      return how;
    if (!ready(socket, how == outcome::wants_read ? POLLIN : POLLOUT, until))
      return how;
  }
}

std::string address_of(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0
      || ::getnameinfo(reinterpret_cast<sockaddr*>(&peer), size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host.data();
}

/// Whether the server there greets whoever comes, as one without TLS does. It may have hung up on a TLS client before that.
bool greets_first(const std::string& host, std::uint16_t port, steady::time_point until) {
  const descriptor socket(connect_to(host, port, until));
  std::byte first{};
  return socket.number() >= 0 && ready(socket.number(), POLLIN, until) && ::recv(socket.number(), &first, 1, MSG_DONTWAIT) == 1;
}

/// Where OpenSSL's contexts store their watch.
std::atomic<int> watch_index{-1};

} // namespace

std::string what_keeps_out(const std::string& host, std::uint16_t port, const security& own) try {
  const auto until = steady::now() + patience;
  const descriptor socket(connect_to(host, port, until));
  if (socket.number() < 0)
    return {};
  const auto context = own.enabled() ? tls_context(own) : tls_context::without_certificate();
  tls_session session(context, socket.number(), tls_session::role::dials);
  auto how = carry_through(socket.number(), until, [&] { return session.shake_hands(); });
  const bool met = how == outcome::done;
  if (met) // the server verifies our certificate after that
    how = carry_through(socket.number(), std::min(until, steady::now() + verdict_within), [&] {
      std::array<std::byte, 64> ignored;
      return session.read(ignored).how;
    });
  if (how == outcome::ended && !met && own.enabled() && greets_first(host, port, until))
    return "it speaks no TLS: that end has no certificates, or says insecure = true, and this one has";
  if (how != outcome::refused)
    return {};
  if (own.enabled())
    return session.fault();
  return met ? "this cluster asks for certificates; none given ([security] of its file names one, `troupe certs --help` says how "
               "to make it)"
             : "";
} catch (const std::runtime_error& e) { // one of the files is bad
  return e.what();
}

/// OpenSSL's callbacks.
struct refusal_hooks {
  static void on_new(void* context, void*, CRYPTO_EX_DATA* data, int index, long, void* watch) {
    CRYPTO_set_ex_data(data, index, watch);
    SSL_CTX_set_info_callback(static_cast<SSL_CTX*>(context), on_info);
  }

  /// Called when a handshake ends or waits for input; in the latter case no error is queued.
  static void on_info(const SSL* ssl, int where, int returned) {
    const int index = watch_index, socket = SSL_get_fd(ssl);
    if (where != SSL_CB_ACCEPT_EXIT || returned > 0 || index < 0 || socket < 0 || ERR_peek_error() == 0
        || ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
      return;
    if (const auto* watch = static_cast<const refusal_watch*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), index)))
      watch->tell_(fmt::format("connection from {}: {}", address_of(socket), refusal_text(ssl)));
  }
};

refusal_watch::refusal_watch(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {
  TROUPE_ASSERT(watch_index < 0);
  watch_index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, this, refusal_hooks::on_new, nullptr, nullptr);
}

refusal_watch::~refusal_watch() {
  CRYPTO_free_ex_index(CRYPTO_EX_INDEX_SSL_CTX, watch_index.exchange(-1));
}

} // namespace troupe::actors::net
