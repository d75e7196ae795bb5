// SPDX-License-Identifier: BSD-3-Clause
// One coroutine accepts, one for each connection answers.
#include "actors/http/metrics_server.hpp"

#include <array>
#include <deque>
#include <thread>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fcntl.h>

#include "actors/http/http_deadlines.hpp"
#include "actors/sockets/socket_options.hpp"
#include "actors/sockets/tls.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

using request = http::request_parser<http::empty_body>;
using response = http::response<http::string_body>;
using secured_stream = asio::ssl::stream<beast::tcp_stream>;

/// Awaits in a coroutine, with an error code instead of an exception.
auto into(error_code& failed) {
  return asio::redirect_error(asio::use_awaitable, failed);
}

response say(http::status status, std::string text) {
  response out{status, 11};
  out.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8"); // Prometheus' format
  out.keep_alive(false);
  out.body() = std::move(text);
  out.prepare_payload();
  return out;
}

bool is_of_http(error_code failed) {
  return failed.category() == make_error_code(http::error::bad_method).category() && failed != http::error::end_of_stream;
}

/// Whether a plain request came where TLS begins.
bool is_plain_request(error_code failed) {
  return failed.category() == asio::error::get_ssl_category()
         && ERR_GET_REASON(static_cast<unsigned long>(failed.value())) == SSL_R_HTTP_REQUEST;
}

class scraped_server final : public metrics_server {
public:
  explicit scraped_server(metrics_options options)
      : options_(std::move(options)),
        tls_(options_.security.enabled() ? std::make_unique<tls_source>(options_.security) : nullptr), acceptor_(io_) {
    listen_at(acceptor_, options_.host, options_.port);
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC); // child processes must not inherit the socket
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }

  ~scraped_server() override {
    TROUPE_ASSERT(!io_.get_executor().running_in_this_thread());
    io_.stop();
    thread_.join();
  }

  std::uint16_t port() const override { return port_; }

private:
  asio::awaitable<void> accept() {
    for (;;) {
      error_code failed;
      tcp::socket socket = co_await acceptor_.async_accept(into(failed));
      if (failed) { // out of descriptors: neither fail nor spin
        asio::steady_timer pause{io_, pause_after_accept_error};
        co_await pause.async_wait(asio::use_awaitable);
        continue;
      }
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      if (tls_)
        asio::co_spawn(io_, serve(secured_stream{std::move(socket), tls_->newest()->new_connection()}), asio::detached);
      else
        asio::co_spawn(io_, serve(beast::tcp_stream{std::move(socket)}), asio::detached);
    }
  }

  /// A connection, from its first byte to its last. What fails ends it.
  template <class Stream>
  asio::awaitable<void> serve(Stream stream) {
    auto& socket = beast::get_lowest_layer(stream);
    const slot taken{*this, socket};
    socket.expires_after(options_.deadline);
    error_code failed;
    if constexpr (std::is_same_v<Stream, secured_stream>)
      co_await stream.async_handshake(secured_stream::server, into(failed));
    if (is_plain_request(failed)) {
      const auto refusal =
          say(http::status::bad_request, "this cluster has certificates; ask by https, with one of its authority\n");
      co_await http::async_write(socket, refusal, into(failed));
    } else if (!failed) {
      beast::flat_buffer buffer;
      request asked;
      asked.header_limit(options_.most_request_bytes);
      co_await http::async_read_header(stream, buffer, asked, into(failed));
      if (failed && !is_of_http(failed))
        co_return;
      const auto said = answer(asked.get(), failed);
      co_await http::async_write(stream, said, into(failed));
    }
    // If unread input remains when a socket closes, the system discards the output. So let the peer close first, for at most a
    // second. The same holds for TLS' closing message.
    socket.expires_after(last_words);
    if constexpr (std::is_same_v<Stream, secured_stream>)
      co_await stream.async_shutdown(into(failed));
    error_code ignored;
    socket.socket().shutdown(tcp::socket::shutdown_send, ignored);
    std::array<char, 4096> unread{};
    for (failed = {}; !failed;)
      co_await socket.async_read_some(asio::buffer(unread), into(failed));
  }

  response answer(const request::value_type& asked, error_code failed) const {
    if (failed == http::error::header_limit)
      return say(http::status::request_header_fields_too_large, "the request is too long\n");
    if (failed)
      return say(http::status::bad_request, "this is no request that HTTP knows\n");
    const auto target = asked.target();
    if (target.substr(0, target.find('?')) != "/metrics")
      return say(http::status::not_found, "there is /metrics\n");
    if (asked.method() != http::verb::get) {
      auto refusal = say(http::status::method_not_allowed, "metrics can only be read\n");
      refusal.set(http::field::allow, "GET");
      return refusal;
    }
    return say(http::status::ok, options_.text());
  }

  /// A slot among the connections; the oldest connection loses its slot when there are too many.
  class slot {
  public:
    slot(scraped_server& server, beast::tcp_stream& socket) : all_(server.connections_), socket_(socket) {
      if (all_.size() >= server.options_.most_connections) {
        all_.front()->close();
        all_.pop_front();
      }
      all_.push_back(&socket_);
    }
    ~slot() { std::erase(all_, &socket_); }
    slot(const slot&) = delete;
    slot& operator=(const slot&) = delete;

  private:
    std::deque<beast::tcp_stream*>& all_;
    beast::tcp_stream& socket_;
  };

  const metrics_options options_;
  const std::unique_ptr<tls_source> tls_;      // null: plain
  std::deque<beast::tcp_stream*> connections_; // in order of age; on the server's thread
  asio::io_context io_{1};                     // destroys the connections, which use the members above
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

} // namespace

std::unique_ptr<metrics_server> metrics_server::open(metrics_options options) {
  return std::make_unique<scraped_server>(std::move(options));
}

} // namespace troupe::actors::net
