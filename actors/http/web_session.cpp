// SPDX-License-Identifier: BSD-3-Clause
// Reading, checking and answering requests.
#include "actors/http/web_session.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <fmt/format.h>

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::string_view event_end = "\n\n";

/// A loopback name with any port: a forwarded port differs from ours.
bool is_of_this_machine(std::string_view host) {
  if (const auto colon = host.rfind(':'); colon != host.npos && host.find(']', colon) == host.npos) {
    if (host.find_first_not_of("0123456789", colon + 1) != host.npos)
      return false;
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  error_code wrong;
  const auto address = asio::ip::make_address(std::string{host}, wrong);
  return wrong ? host == "localhost" : address.is_loopback();
}

std::shared_ptr<const std::string> shared_text(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

} // namespace

web_session::web_session(asio::ip::tcp::socket socket, owner& server) : stream_(std::move(socket)), owner_(server) {
  parser_.header_limit(server.options().most_header_bytes);
}

void web_session::begin() {
  stream_.expires_after(owner_.options().request_timeout);
  http::async_read_header(stream_, buffer_, parser_, [self = shared_from_this()](error_code failed, std::size_t) {
    if (!failed)
      return self->answer();
    if (failed == http::error::header_limit)
      return self->refuse("431 Request Header Fields Too Large", "the request is too long");
    if (failed.category() == make_error_code(http::error::bad_method).category() && failed != http::error::end_of_stream)
      return self->refuse("400 Bad Request", "this is no request that HTTP knows");
    self->end();
  });
}

void web_session::answer() {
  const auto& request = parser_.get();
  if (request.count(http::field::host) != 1)
    return refuse("400 Bad Request", "a request names one Host");
  const auto host = request[http::field::host];
  if (!is_of_this_machine({host.data(), host.size()}))
    return refuse("421 Misdirected Request", "this page is for this machine alone; ask for it as 127.0.0.1 or localhost");
  if (request.method() != http::verb::get && request.method() != http::verb::head)
    return refuse("405 Method Not Allowed", "this page can only be read", "Allow: GET, HEAD\r\n");
  const auto target = request.target();
  if (target == "/")
    reply("200 OK", "text/html; charset=utf-8", shared_text(owner_.options().page),
          fmt::format("Content-Security-Policy: {}\r\n", owner_.policy()));
  else if (target == "/snapshot")
    reply("200 OK", "application/json", owner_.newest());
  else if (target == "/events")
    subscribe();
  else
    refuse("404 Not Found", "there are /, /events and /snapshot");
}

void web_session::reply(std::string status, std::string type, std::shared_ptr<const std::string> body, std::string more_fields) {
  head_ = fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n{}\r\n",
      status, type, body->size(), more_fields);
  const bool head_only = parser_.is_header_done() && parser_.get().method() == http::verb::head;
  write(head_only ? shared_text({}) : std::move(body), &web_session::leave);
}

void web_session::refuse(std::string status, std::string why, std::string more_fields) {
  reply(std::move(status), "text/plain; charset=utf-8", shared_text(std::move(why) + "\n"), std::move(more_fields));
}

void web_session::subscribe() {
  subscribed_ = true;
  stream_.expires_never(); // a subscriber may stay silent
  watch_for_the_end();
  head_ = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nCache-Control: no-store\r\n"
          "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\nretry: 1000\n";
  send_newest();
}

void web_session::on_published() {
  if (subscribed_ && !writing_)
    send_newest();
}

/// Of the states published during a write only the newest is sent: nothing queues.
void web_session::send_newest() {
  if (sent_ == owner_.newest()) {
    if (owner_.ending())
      end();
    return;
  }
  sent_ = owner_.newest();
  head_ += "data: ";
  write(sent_, &web_session::send_newest);
}

void web_session::watch_for_the_end() {
  stream_.async_read_some(asio::buffer(ignored_), [self = shared_from_this()](error_code, std::size_t) { self->end(); });
}

void web_session::write(std::shared_ptr<const std::string> body, void (web_session::*then)()) {
  writing_ = true;
  body_ = std::move(body);
  stream_.expires_after(owner_.options().request_timeout);
  const std::string_view end_of_body = subscribed_ ? event_end : std::string_view{};
  const std::array<asio::const_buffer, 3> all{asio::buffer(head_), asio::buffer(*body_),
                                              asio::buffer(end_of_body.data(), end_of_body.size())};
  asio::async_write(stream_, all, [self = shared_from_this(), then](error_code failed, std::size_t) {
    self->writing_ = false;
    self->head_.clear();
    if (failed)
      self->end();
    else
      ((*self).*then)();
  });
}

/// If unread input remains when a socket closes, the system discards the output. So let the peer close first, for at most a
/// second.
void web_session::leave() {
  error_code failed;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  stream_.expires_after(std::chrono::seconds{1});
  read_to_the_end();
}

void web_session::read_to_the_end() {
  stream_.async_read_some(asio::buffer(ignored_), [self = shared_from_this()](error_code failed, std::size_t) {
    if (failed)
      self->end();
    else
      self->read_to_the_end();
  });
}

void web_session::end() {
  if (std::exchange(ended_, true))
    return;
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  owner_.on_ended(shared_from_this());
}

} // namespace troupe::actors::net
