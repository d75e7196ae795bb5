// SPDX-License-Identifier: BSD-3-Clause
// A web server for browsers on this machine: one page and its live updates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <boost/system/result.hpp>

namespace troupe::actors::net {

/// Where the page is served: an address of this machine's loopback interface.
struct web_address {
  std::string host = "127.0.0.1"; ///< a literal address
  std::uint16_t port = 8080;      ///< 0: the system chooses
  friend bool operator==(const web_address&, const web_address&) = default;
};

/// What is wrong, and what would be right.
struct web_error {
  std::string text;
};

/// Reads "HOST:PORT", "HOST" or "PORT", where HOST is localhost or an address, IPv6 in brackets. Only loopback addresses are
/// accepted, because the page has no access control.
boost::system::result<web_address, web_error> parse_web_address(std::string_view text);

struct web_options {
  web_address address{};
  std::string page{};                ///< HTML with at most one inline style and one inline script: only those run
  std::size_t most_connections = 64; ///< further ones are closed unanswered
  std::uint32_t most_header_bytes = 8192;
  std::chrono::milliseconds request_timeout{10'000}; ///< for reading a request, and for the peer to take the answer
};

/// Serves `GET /` (the page), `GET /snapshot` (the last published state) and `GET /events` (the same and every later one, as
/// server-sent events). Read-only: a request changes nothing. Plain HTTP/1.1, a connection for each request.
///
/// A request whose Host is not a loopback name is refused, so that a web page cannot read it through a domain that resolves to
/// 127.0.0.1. A slow subscriber gets only the newest state; one that does not read is dropped. Runs on its own thread.
class web_server {
public:
  virtual ~web_server() = default;
  web_server(const web_server&) = delete;
  web_server& operator=(const web_server&) = delete;

  /// The port where it listens.
  virtual std::uint16_t port() const = 0;
  /// Publishes a new state. `json`: one line. Thread-safe; never waits.
  virtual void publish(std::string json) = 0;

protected:
  web_server() = default;
};

/// Begins to listen; the error says why it cannot. The destructor gives subscribers a second to receive the last state.
boost::system::result<std::unique_ptr<web_server>, web_error> open_web_server(web_options options);

/// "http://127.0.0.1:8080/".
std::string url_of(const web_address& address);

} // namespace troupe::actors::net
