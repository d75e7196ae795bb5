// SPDX-License-Identifier: BSD-3-Clause
// Listening, and the set of connections.
#include "actors/http/web_server.hpp"

#include <array>
#include <set>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include "actors/http/http_deadlines.hpp"
#include "actors/http/web_session.hpp"
#include "kernels/assert.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// "'sha256-...'" of the text between the tags, for a Content-Security-Policy; 'none' if the tags are missing.
std::string digest_of(std::string_view page, std::string_view open, std::string_view close) {
  const auto begin = page.find(open);
  const auto end = begin == page.npos ? page.npos : page.find(close, begin);
  if (end == page.npos)
    return "'none'";
  const auto inside = page.substr(begin + open.size(), end - begin - open.size());
  std::array<unsigned char, 32> digest{};
  TROUPE_ASSERT(EVP_Digest(inside.data(), inside.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  std::array<unsigned char, 45> text{};
  EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(text.data()));
}

/// Allows only the page's own style, script and events: no other host, and no markup injected through names.
std::string policy_of(std::string_view page) {
  return fmt::format("default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; base-uri 'none'; "
                     "form-action 'none'; frame-ancestors 'none'",
                     digest_of(page, "<style>", "</style>"), digest_of(page, "<script>", "</script>"));
}

class page_server final : public web_server, public web_session::owner {
public:
  explicit page_server(web_options options)
      : options_(std::move(options)), policy_(policy_of(options_.page)), acceptor_(io_), pause_(io_), patience_(io_) {
    const tcp::endpoint where{asio::ip::make_address(options_.address.host), options_.address.port};
    acceptor_.open(where.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC); // child processes must not inherit the socket
    acceptor_.bind(where);
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~page_server() override {
    TROUPE_ASSERT(!io_.get_executor().running_in_this_thread());
    asio::post(io_, [this] { end(); });
    thread_.join();
  }

  std::uint16_t port() const override { return port_; }

  void publish(std::string json) override {
    TROUPE_ASSERT(json.find('\n') == json.npos);
    asio::post(io_, [this, text = std::make_shared<const std::string>(std::move(json))]() mutable {
      newest_ = std::move(text);
      for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) // a session that fails leaves the set
        session->on_published();
    });
  }

  // -- called by sessions; this and all below on the server's thread

  const web_options& options() const override { return options_; }
  const std::string& policy() const override { return policy_; }
  std::shared_ptr<const std::string> newest() const override { return newest_; }
  bool ending() const override { return ending_; }
  void on_ended(const std::shared_ptr<web_session>& session) override {
    sessions_.erase(session);
    if (ending_ && sessions_.empty())
      io_.stop();
  }

private:
  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (!acceptor_.is_open())
        return;
      if (failed) { // out of descriptors: neither fail nor spin
        pause_.expires_after(pause_after_accept_error);
        pause_.async_wait([this](error_code cancelled) {
          if (!cancelled)
            accept();
        });
        return;
      }
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      if (sessions_.size() < options_.most_connections) {
        const auto session = std::make_shared<web_session>(std::move(socket), *this);
        sessions_.insert(session);
        session->begin();
      }
      accept();
    });
  }

  void end() {
    ending_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    if (sessions_.empty())
      return io_.stop();
    patience_.expires_after(last_words);
    patience_.async_wait([this](error_code) { io_.stop(); });
    for (const auto& session : std::vector(sessions_.begin(), sessions_.end()))
      session->on_published();
  }

  web_options options_;
  std::string policy_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_, patience_;
  std::set<std::shared_ptr<web_session>> sessions_;
  std::shared_ptr<const std::string> newest_ = std::make_shared<const std::string>("{}");
  bool ending_ = false;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

template <class... Args>
web_error wrong(fmt::format_string<Args...> form, Args&&... args) {
  return {fmt::format(form, std::forward<Args>(args)...)};
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// "HOST:PORT" in two parts; a missing part is empty.
std::pair<std::string_view, std::string_view> split(std::string_view text) {
  if (is_number(text))
    return {{}, text};
  const auto colon = text.rfind(':');
  const auto bracket = text.find(']'); // without one, two colons mean an IPv6 address
  if (colon == text.npos || (bracket == text.npos ? text.find(':') != colon : colon < bracket))
    return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

} // namespace

boost::system::result<web_address, web_error> parse_web_address(std::string_view text) {
  web_address out;
  auto [host, port] = split(text);
  if (!port.empty() || text.ends_with(':')) {
    const auto number = parse_number<std::uint16_t>(port);
    if (!number)
      return wrong("\"{}\" is no port; 0 to 65535, or none for {}", port, web_address{}.port);
    out.port = *number;
  }
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost")
    return out;
  error_code no_address;
  const auto address = asio::ip::make_address(std::string{host}, no_address);
  if (no_address)
    return wrong("\"{}\" is no address; 127.0.0.1:8080, [::1]:8080 or a port alone", text);
  if (!address.is_loopback())
    return wrong("{0} is no loopback address, and the page has no password; leave it out, and from another machine forward "
                 "the port: ssh -L {1}:127.0.0.1:{1} THIS_HOST",
                 host, out.port);
  out.host = address.to_string();
  return out;
}

std::string url_of(const web_address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", six ? "[" : "", address.host, six ? "]" : "", address.port);
}

boost::system::result<std::unique_ptr<web_server>, web_error> open_web_server(web_options options) {
  const auto address = options.address;
  try {
    return std::unique_ptr<web_server>{std::make_unique<page_server>(std::move(options))};
  } catch (const boost::system::system_error& e) {
    return wrong("cannot listen on {}:{} ({}); name another port, or 0 for any that is free", address.host, address.port,
                 e.code().message());
  }
}

} // namespace troupe::actors::net
